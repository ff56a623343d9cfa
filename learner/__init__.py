"""The learner: mixes fresh and replayed unrolls, updates the networks, publishes their parameters."""
