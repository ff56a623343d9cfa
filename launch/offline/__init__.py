"""LASER for a machine without internet: the wheels it needs, and the installer there."""
