"""Metrics of the experience that the learner has learned from."""
