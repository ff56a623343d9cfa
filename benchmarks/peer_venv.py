"""A virtual environment for each peer, whose dependencies conflict with ours (RLlib pins another Gymnasium)."""

from __future__ import annotations

import subprocess
import sys
from argparse import ArgumentParser
from pathlib import Path

from measure import ROOT

TORCH = "torch>=2.10,<2.14"  # the same as LASER's, so that the comparison is not between versions of torch
REQUIREMENTS = {
    "sb3": (
        "stable-baselines3==2.7.*",
        "gymnasium[mujoco,box2d]",
        "mujoco>=3.2,<4",
        "minatar",
        "minigrid",
        "packaging",
        TORCH,
    ),
    "rllib": ("ray[rllib]==2.60.*", "ale-py==0.12.*", "opencv-python-headless", TORCH),
}
# RL Zoo's tuned settings; the step size and the clip range shrink to 0 over 100,000 env steps.
PPO_CARTPOLE = {
    "n_envs": 8,
    "n_steps": 32,
    "batch_size": 256,
    "n_epochs": 20,
    "gamma": 0.98,
    "gae_lambda": 0.8,
    "ent_coef": 0.0,
    "learning_rate": "lin_0.001",
    "clip_range": "lin_0.2",
}
SCRIPTS = ROOT / "benchmarks" / "peers"


def add_option(parser: ArgumentParser) -> None:
    """Add the flag for the directory of the virtual environments."""
    parser.add_argument(
        "--venvs", type=Path, default=ROOT / ".bench-venvs", help="directory of the peers' virtual environments"
    )


def peer_python(peer: str, venvs: Path) -> Path:
    """Return the interpreter of a peer's virtual environment; install it first if it is missing or outdated."""
    place = venvs.resolve() / peer
    python, stamp, wanted = place / "bin" / "python", place / ".requirements", "\n".join(REQUIREMENTS[peer])
    if not stamp.exists() or stamp.read_text(encoding="utf-8") != wanted:
        print(f"installing {peer} into {place}", flush=True)
        subprocess.run([sys.executable, "-m", "venv", "--clear", place], check=True)
        subprocess.run(
            [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *REQUIREMENTS[peer]], check=True
        )
        stamp.write_text(wanted, encoding="utf-8")
    return python
