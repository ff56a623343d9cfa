"""A run from beginning to end: its directory, its schedule, its checkpoints."""
