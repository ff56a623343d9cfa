"""The parts of `laser bench chaos`: the plan of its faults, the run that it breaks and its place, the faults, the accounts."""
