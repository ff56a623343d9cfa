"""Settings: from a user's values to a checked config, and from a config to a run directory's record and back."""
