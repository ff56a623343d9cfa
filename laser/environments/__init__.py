"""Environments behind one vector interface, one file per suite."""
