"""Wires components together and talks to the user."""
