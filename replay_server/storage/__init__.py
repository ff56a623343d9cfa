"""Storage of a shard: pages of unrolls, compressed frames, columns, and the index of episodes."""
