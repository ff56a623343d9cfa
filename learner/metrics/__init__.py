"""Metrics of what the learner learned from."""
