"""Installation on a machine without internet: collection of the wheels, and the installer."""
