"""The replay: shards that store unrolls and draw samples of them. NumPy only."""
