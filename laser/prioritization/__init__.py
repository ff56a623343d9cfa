"""Rules beside the learner that turn what a loss says about replayed items into the numbers that samplers draw by."""
