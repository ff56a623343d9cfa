"""Prioritization rules: the learner's side of samplers, from errors of the loss to the columns that samplers read."""
