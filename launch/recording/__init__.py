"""What a run says while it trains: metrics, progress, the accounts of its unrolls."""
