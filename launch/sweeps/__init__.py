"""Sweeps of several members: grids, shared replays, population based training."""
