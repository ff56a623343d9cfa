"""Pure functions on tensors: no config, device, randomness of their own, or logging."""
