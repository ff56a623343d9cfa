"""Player process for a run's newest checkpoint: `python -m launch.dashboard.player [--trust] RUN_DIR`.

Every line on standard input is a request for one step; every line on standard output is a JSON object about it: the
picture as PNG, the value estimate (null where the algorithm has none), the policy's preference for each action, the
action taken, the reward as it is and as the critic learns from it, and the return. The process ends with its input, so
it cannot outlive the dashboard. Text printed by an environment goes to standard error.
"""

from __future__ import annotations

import base64
import json
import os
import struct
import sys
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np


def main(*arguments: str) -> int:
    """Answer requests until the input ends."""
    *options, run_dir = arguments
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    frames = play(Path(run_dir), trust="--trust" in options)
    for _ in sys.stdin:
        try:
            answer = next(frames)
        except Exception as error:  # noqa: BLE001 - the page shows every error of an environment or a checkpoint
            answers.write(json.dumps({"error": " ".join(f"{type(error).__name__}: {error}".split())}) + "\n")
            return 1
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
    return 0


def play(run_dir: Path, seed: int = 0, trust: bool = False) -> Iterator[dict[str, Any]]:
    """Yield the result of each step, forever, one episode after the other.

    Args:
        run_dir: a run's directory.
        seed: of environment and actions.
        trust: allow the code that the run names, whoever trained it.

    Raises:
        UntrustedError: the run names code that this user has not named before.
    """
    import torch

    from actors.policy import PolicyState
    from laser.environments import task_ids
    from laser.specs import MultiDiscreteActions
    from launch.evaluation.evaluate import read_agent
    from launch.records.trust import trust_run

    if trust:
        trust_run(run_dir)
    torch.set_num_threads(1)
    agent = read_agent(run_dir, "newest")
    policy = agent.make_policy(seed, "cpu", greedy=False, loaded=True)
    task = task_ids(agent.config.env)[0]
    environment = agent.make_environment(task, 1, agent.config.environment.for_evaluation())
    state = PolicyState(1, environment.spec, policy.algorithm)
    space = environment.spec.actions
    choices = space.num_actions if isinstance(space, MultiDiscreteActions) else ()
    names = _names(task, space, agent.config.environment.full_action_space)
    observations = environment.reset(seed)
    episode, step, episode_return = 1, 0, 0.0
    while True:
        picture = environment.render()
        actions, mu, values = policy.act_with_values(observations, state)
        environment.send(actions)
        reward, ended = 0.0, False
        for part in environment.recv():
            observations = {name: value.copy() for name, value in part.observations.items()}
            state.last_action[:] = 0 if part.ignored[0] else actions
            state.last_reward[:] = part.rewards
            state.first[:] = part.ignored
            reward += float(part.rewards[0])
            ended = ended or bool(part.terminated[0] | part.truncated[0])
        if state.first[0] and not ended:  # the action only began the next episode
            episode, step, episode_return = episode + 1, 0, 0.0
            continue
        episode_return += reward
        yield {
            "env": task,
            "checkpoint_step": int(agent.checkpoint.step),
            "episode": episode,
            "step": step,
            "value": _finite(float(np.asarray(values).reshape(-1)[0])),
            "reward": _finite(reward),
            "learned_reward": _finite(float(agent.config.algorithm.learned_from(torch.tensor(reward)))),
            "action_names": names,
            "return": _finite(episode_return),
            "ended": ended,
            **thoughts(mu, actions, choices),
            "png": "" if picture is None else base64.b64encode(png(picture)).decode("ascii"),
        }
        step += 1


def _names(task: str, space: Any, full_action_space: bool) -> list[str]:
    """Return the names of the actions of an only choice; [] of several choices, and of continuous actions."""
    from launch.dashboard.action_names import action_names

    num_actions = getattr(space, "num_actions", None)
    if not isinstance(num_actions, int):
        return []
    return action_names(task, num_actions, full_action_space=full_action_space)


def thoughts(mu: dict[str, np.ndarray], actions: np.ndarray, choices: Sequence[int] = ()) -> dict[str, Any]:
    """Return the policy's distribution: probabilities by choice, or mean and standard deviation of each component.

    Args:
        mu: behaviour statistics [1, ...] by name.
        actions: [1, ...] that were taken.
        choices: number of actions of each choice if there are several choices; their logits are concatenated.
    """
    if "logits" in mu:
        logits = mu["logits"][0].astype(np.float64).reshape(-1)
        ends = np.cumsum(choices or [len(logits)])
        weights = [np.exp(part - part.max()) for part in np.split(logits, ends[:-1])]
        probabilities = [(part / part.sum()).tolist() for part in weights]
        return {"probabilities": probabilities, "action": [int(action) for action in actions.reshape(-1)]}
    taken = actions[0].astype(np.float64).reshape(-1)
    found: dict[str, Any] = {"action": taken.tolist()}
    numbers = {name: value[0].astype(np.float64).reshape(-1) for name, value in mu.items()}
    if "pre_tanh_mean" in numbers:  # tanh is monotonic, so the median stays the median
        found["mean"] = np.tanh(numbers["pre_tanh_mean"]).tolist()
    for name in ("mean", "std"):
        statistic = numbers.get(name, numbers.get("unclipped_" + name))
        if statistic is not None:
            found[name] = statistic.tolist()
    return found


def png(picture: np.ndarray) -> bytes:
    """Return a picture uint8 [height, width, 3] as a PNG file."""
    height, width, _ = picture.shape
    rows = np.zeros((height, 1 + 3 * width), np.uint8)  # every row begins with its filter type; 0: no filter
    rows[:, 1:] = picture.reshape(height, -1)

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    body = zlib.compress(rows.tobytes(), 1)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", body) + chunk(b"IEND", b"")


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
