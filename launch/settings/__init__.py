"""Settings: from what a user writes to a checked config, and back to what a run directory keeps."""
