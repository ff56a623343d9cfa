"""Feedback: what the learner writes back to the replay."""
