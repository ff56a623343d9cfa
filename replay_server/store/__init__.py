"""The store of a shard: storage, what each member has there, and what may be inserted and drawn when."""
