"""Updates: loss, gradient, optimiser and target networks turn a batch into new weights."""
