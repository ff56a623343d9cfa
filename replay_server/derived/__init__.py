"""Columns and sums that a shard derives from its stored rows."""
