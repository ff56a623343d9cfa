"""Experience: from the replay to batches that are ready to learn from."""
