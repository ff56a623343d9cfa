"""Learning rules, one per file."""
