"""Experience: samples of the replay become batches that are ready to learn from."""
