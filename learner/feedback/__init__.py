"""Feedback: numbers that the learner writes back to the replay."""
