"""Logs: whole episodes that were recorded once, and that agents learn from without acting."""
