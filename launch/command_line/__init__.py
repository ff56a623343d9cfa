"""The command line: what users type, as checked configs."""
