"""Saved contents of a shard: unrolls in files that checkpoints share."""
