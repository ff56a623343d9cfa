"""Supervision of a session: its schedule, its members, checkpoints, pace and signals."""
