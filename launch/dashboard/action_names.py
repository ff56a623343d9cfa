"""Names of discrete actions, where they are known."""

from __future__ import annotations

_COMPASS = ("left", "down", "right", "up")
_KNOWN = {
    "CartPole-": ("push left", "push right"),
    "MountainCar-": ("push left", "no push", "push right"),
    "Acrobot-": ("torque -1", "no torque", "torque +1"),
    "LunarLander-": ("nothing", "left engine", "main engine", "right engine"),
    "FrozenLake": _COMPASS,
    "CliffWalking-": ("up", "right", "down", "left"),
    "Taxi-": ("south", "north", "east", "west", "pick up", "drop off"),
    "Blackjack-": ("stick", "hit"),
    "MiniGrid-": ("turn left", "turn right", "forward", "pick up", "drop", "toggle", "done"),
    "BabyAI-": ("turn left", "turn right", "forward", "pick up", "drop", "toggle", "done"),
    "mini/Catch": ("left", "stay", "right"),
}


def action_names(task: str, num_actions: int, *, full_action_space: bool = False) -> list[str]:
    """Return the names of an environment's actions; "action N" where they are unknown.

    Args:
        task: id of the environment.
        num_actions: of its only choice.
        full_action_space: an Atari game offers all actions of the joystick.
    """
    names = next((known for start, known in _KNOWN.items() if task.startswith(start)), ())
    if task.startswith("ALE/"):
        names = _atari(task, full_action_space)
    if len(names) != num_actions:
        return [f"action {action}" for action in range(num_actions)]
    return list(names)


def _atari(task: str, full_action_space: bool) -> tuple[str, ...]:
    import ale_py
    import gymnasium

    gymnasium.register_envs(ale_py)
    game = gymnasium.make(task, full_action_space=full_action_space)
    try:
        meanings = game.unwrapped.get_action_meanings()  # type: ignore[attr-defined]
    finally:
        game.close()
    return tuple(str(name).lower() for name in meanings)
