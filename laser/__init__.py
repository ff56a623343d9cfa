"""What every component of LASER agrees on: records, specs, ports, maths, networks, algorithms, environments."""
