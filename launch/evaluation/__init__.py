"""Evaluation of trained agents."""
