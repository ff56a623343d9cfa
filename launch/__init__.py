"""Wires components together and talks to the user."""

import os

# Threads that share out an operator spin where they wait for each other, by libgomp's default for some milliseconds.
# When two learners of two threads each run on two cores, each spins while what it waits for cannot run: TD3 with nets
# of 256x256 then makes 14 env steps/s, alone 225. So short a spin leaves 77, and alone as many as before; 1,000 leaves
# 102, and alone 7 % fewer. libgomp reads this when torch loads it, so it is set with the first import.
if "OMP_WAIT_POLICY" not in os.environ:
    os.environ.setdefault("GOMP_SPINCOUNT", "2000")

# Activations of many frames are too large for malloc to keep: the kernel hands out their memory anew in every update,
# page by page. In pages of 2 MiB an update of Pong's net in float32 has 640 page faults, not 33,000, and 15 ms of
# system time, not 76, of 320 (`laser bench learner --preset impala_pong`). Torch reads this at its first tensor.
os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")
