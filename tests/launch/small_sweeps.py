"""Settings of sweeps that last a second or two."""

SMALL = {
    "steps": 384,
    "quiet": True,
    "num_envs": 4,
    "replay.capacity-steps": 2000,
    "replay.min-steps": 128,
    "stop_at_return": float("inf"),
}
