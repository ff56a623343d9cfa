"""A small run on Ray that is resumed again and again, each time in a process of its own; prints its accounts as JSON.

Usage: resumes.py DIRECTORY NUM_RESUMES [--lockstep] [--checkpoint-replay]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from books import newest_totals

STEPS = 300
"""Env steps of each session, at least."""


def sessions(path: Path, num_resumes: int, *options: str) -> Iterator[dict[str, float]]:
    """Train, resume so many times, and yield the newest totals and accounts after each session."""
    done = 0
    for number in range(1 + num_resumes):
        command = [sys.executable, "-m", "launch", "train", *([] if number else ["cartpole"]), "--run-dir", str(path)]
        command += ["--steps", str(done + STEPS), "--stop-at-return", "inf", "--runtime", "ray", "--quiet", "--json"]
        command += ["--num-envs", "4", "--num-actors", "2", "--replay.num-shards", "2", "--replay.min-steps", "128"]
        command += ["--replay.capacity-steps", "2000", "--learner.compile", "off", *options]
        ended = subprocess.run(
            [*command, *["--resume"] * (number > 0)], stdout=subprocess.PIPE, check=True, timeout=240
        )
        done = json.loads(ended.stdout.splitlines()[-1])["env_steps"]
        yield newest_totals(path)


def main() -> None:
    """Run the command of this script."""
    parser = argparse.ArgumentParser()
    parser.add_argument("directory", type=Path)
    parser.add_argument("num_resumes", type=int)
    parser.add_argument("--lockstep", action="store_true")
    parser.add_argument("--checkpoint-replay", action="store_true")
    chosen = parser.parse_args()
    options = ["--schedule", "lockstep" if chosen.lockstep else "free"]
    options += ["--checkpoint-replay"] * chosen.checkpoint_replay
    for values in sessions(chosen.directory, chosen.num_resumes, *options):
        print(json.dumps({name: value for name, value in sorted(values.items()) if value}), flush=True)


if __name__ == "__main__":
    main()
