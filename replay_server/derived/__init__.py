"""Columns and sums that a shard derives itself from what is stored."""
