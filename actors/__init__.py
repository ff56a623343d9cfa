"""Actors: step environments with a policy and ship unrolls."""
