"""Check of the kind of actions that an algorithm can choose."""

from __future__ import annotations

from laser.specs import ActionSpec, EnvironmentSpec


class ActionsError(ValueError):
    """An algorithm cannot choose the actions of an environment.

    Args:
        algorithm: its name.
        kind: the actions it can choose.
        environment: whose actions are of another kind.
    """

    def __init__(self, algorithm: str, kind: type[ActionSpec], environment: EnvironmentSpec):
        self.wrong = f"{algorithm} needs {kind.space} actions, {environment.id} has {environment.actions.space}"
        super().__init__(f"algorithm: {self.wrong}; use laser or impala")


def check_actions(algorithm: str, kind: type[ActionSpec], environment: EnvironmentSpec) -> None:
    """Raise `ActionsError` where the actions are of another kind."""
    if not isinstance(environment.actions, kind):
        raise ActionsError(algorithm, kind, environment)
