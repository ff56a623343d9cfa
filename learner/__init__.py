"""The learner: mix fresh and replayed unrolls, step, publish."""
