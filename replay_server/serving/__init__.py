"""Serving: the shard, its calls that wait, and what it answers."""
