"""Sharing of trained agents: `laser push` and `laser pull`, by the Hugging Face Hub or a folder."""
