"""The client of a sharded replay."""
