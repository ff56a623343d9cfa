"""The store of a shard: storage, the members' queues and columns, rate limits, episode streams."""
