"""The output of a run while it trains: metrics, progress, and the accounts of its unrolls."""
