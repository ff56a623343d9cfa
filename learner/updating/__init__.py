"""From a batch to new weights: loss, gradient, optimiser and target networks."""
