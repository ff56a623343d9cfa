"""Serving: the shard, its pending calls, checks of messages, and samples."""
