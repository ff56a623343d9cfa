"""Playing with trained agents."""
