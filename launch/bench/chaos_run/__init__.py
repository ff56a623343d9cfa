"""The parts of `laser bench chaos`: the plan of its faults, the run, its place, the faults, the accounts."""
