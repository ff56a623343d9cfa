"""Many members at once: grids, shared replays, population based training."""
