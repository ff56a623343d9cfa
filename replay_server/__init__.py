"""The replay: shards that keep unrolls and hand them out. NumPy only."""
