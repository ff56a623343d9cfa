"""Pure functions on tensors, without config, device, logging or randomness of their own."""
