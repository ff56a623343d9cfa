"""The command line: from users' arguments to checked configs."""
