"""Actors: workers that step environments with a policy and ship unrolls."""
