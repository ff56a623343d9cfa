"""Atari games in ale-py's native vector environment, with every flag of the protocol explicit."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import gymnasium
import numpy as np
from gymnasium.wrappers import FrameStackObservation

from laser.environments.atari_screen import SCREEN, AtariScreen
from laser.environments.base import RAISED, Transition, VectorEnvironment, failure_of
from laser.environments.config import EnvironmentConfig
from laser.environments.gymnasium import describe_spaces
from laser.environments.suite import Suite, env_error, split_seed, unknown_id
from laser.environments.sync import SyncEnvironments
from laser.environments.wrappers import wrap
from laser.packages import install_command, is_installed
from laser.specs import DiscreteActions, EnvironmentSpec, FramesSpec

NUM_ACTIONS = 18
"""Actions of the console's joystick, as ALE numbers them from 0 on."""
_OBSERVED = (84, 84)


class AtariSuite(Suite):
    """Ids of the form `ALE/Pong-v5`."""

    name = "Atari"
    flags = frozenset(
        {
            "sticky_actions",
            "full_action_space",
            "fire_at_reset",
            "max_noops",
            "life_loss_ends_episode",
            "max_episode_frames",
            "frame_skip",
            "frame_stack",
            "emulation_threads",
            "wrappers",
        }
    )

    def claims(self, id: str) -> bool:
        """Return whether the id begins with `ALE/`."""
        return id.startswith("ALE/")

    def ids(self) -> list[str]:
        """Return the ids of all games."""
        if not is_installed("ale-py"):
            return []
        _register()
        return [name for name in gymnasium.registry if self.claims(name)]

    def make(self, id: str, num_envs: int, config: EnvironmentConfig) -> VectorEnvironment:
        """Return a vector of one game."""
        if not is_installed("ale-py"):
            raise env_error(f"{id} needs ale-py, which is not installed", install_command("ale-py"))
        _register()
        if id not in gymnasium.registry:
            raise unknown_id(id)
        game = gymnasium.registry[id].kwargs["game"]
        return (
            _wrapped(id, game, num_envs, config) if config.wrappers else AtariEnvironments(id, game, num_envs, config)
        )

    def describe(self, id: str, config: EnvironmentConfig) -> EnvironmentSpec:
        """Return the spec of a game; warn of wrappers here, once, and not in every actor."""
        if config.wrappers:
            warnings.warn(f"{id}: wrappers need single games, so the faster vector of games is not used", stacklevel=3)
        return super().describe(id, config)


def _wrapped(id: str, game: str, num_envs: int, config: EnvironmentConfig) -> VectorEnvironment:
    """Return single games inside the user's wrappers, which see grey screens; frames are stacked outside of them."""
    alone = replace(config, frame_stack=1, emulation_threads=1)

    def make() -> gymnasium.Env:
        wrapped = wrap(AtariGame(AtariEnvironments(id, game, 1, alone)), config.wrappers)
        return FrameStackObservation(wrapped, config.frame_stack, padding_type="zero")

    first = make()
    spec, reader, writer = describe_spaces(id, first, first.observation_space, first.action_space, config)
    spec = replace(spec, action_repeat=config.frame_skip)
    return SyncEnvironments(spec, [make] * num_envs, reader, writer, first)


def _register() -> None:
    import ale_py

    gymnasium.register_envs(ale_py)


def _full_set(offered: list[Any]) -> np.ndarray:
    """Return the index of each of the 18 actions among the actions that the emulator offers, int64 [18].

    For Skiing, which has no button, the emulator offers only 9: an action with fire is then the one without.
    """
    from ale_py import Action

    every = list(Action.__members__.values())[:NUM_ACTIONS]
    place = {action.name: index for index, action in enumerate(offered)}
    return np.array([place.get(action.name, place[action.name.replace("FIRE", "") or "NOOP"]) for action in every])


def _emulators(game: str, num_envs: int, config: EnvironmentConfig, size: tuple[int, int], *, grayscale: bool) -> Any:
    """Return ale-py's vector of a game with the flags of the protocol."""
    from ale_py.vector_env import AtariVectorEnv

    return AtariVectorEnv(
        game,
        num_envs,
        batch_size=0,
        num_threads=max(1, min(num_envs, config.emulation_threads)),
        max_num_frames_per_episode=config.max_episode_frames,
        repeat_action_probability=config.sticky_actions,
        full_action_space=config.full_action_space,
        autoreset_mode=gymnasium.vector.AutoresetMode.NEXT_STEP,
        img_height=size[0],
        img_width=size[1],
        grayscale=grayscale,
        stack_num=config.frame_stack,
        frameskip=config.frame_skip,
        maxpool=True,
        noop_max=config.max_noops,
        episodic_life=config.life_loss_ends_episode,
        life_loss_info=False,
        reward_clipping=False,
        use_fire_reset=config.fire_at_reset,
    )


class AtariEnvironments:
    """`VectorEnvironment` over ale-py: emulation runs in its own threads between `send` and `recv`.

    Rewards are the game's own: the algorithm clips them. A stack holds zeros before an episode's first frame.

    Used from one thread. ale-py cannot save an emulator, so `state_dict` returns None.

    Args:
        id: the id that the user wrote.
        game: ROM name.
        num_envs: number of environments in the vector.
        config: flags of the protocol; `emulation_threads` is a number, not 0.
    """

    def __init__(self, id: str, game: str, num_envs: int, config: EnvironmentConfig):
        self.num_envs = num_envs
        self._environments = _emulators(game, num_envs, config, _OBSERVED, grayscale=True)
        self._colours = AtariScreen(
            lambda: _emulators(game, 1, replace(config, frame_stack=1), SCREEN, grayscale=False)
        )
        offered = self._environments.ale.get_action_set()
        self._indices_of_actions = _full_set(offered) if config.full_action_space else None
        numbers = range(NUM_ACTIONS) if config.full_action_space else [int(action.value) for action in offered]
        self.actions_by_number = {number: action for action, number in enumerate(numbers)}
        """The agent's actions by ALE's number of each; ALE's others are left out."""
        self.spec = EnvironmentSpec(
            id,
            {"observation": FramesSpec(_OBSERVED, config.frame_stack, "zeros")},
            DiscreteActions(len(offered) if self._indices_of_actions is None else len(self._indices_of_actions)),
            action_repeat=config.frame_skip,
        )
        self._indices = np.arange(num_envs)
        self._over = np.zeros(num_envs, bool)
        self._in_flight, self._first_action = False, 0
        self._screen: np.ndarray | None = None

    def reset(self, seed: int | None) -> dict[str, np.ndarray]:
        """Begin an episode everywhere. A seeded reset takes about 90 ms per environment, an unseeded one 5 ms."""
        self._drain()
        seeds = None if seed is None else np.array(split_seed(seed, self.num_envs))
        try:
            observations, _ = self._environments.reset(seed=seeds)
        except RAISED as error:
            raise failure_of(error) from error
        self._over = np.zeros(self.num_envs, bool)
        self._screen = observations[0, -1]
        self._colours.begin(None if seeds is None else int(seeds[0]))
        return {"observation": observations}

    def send(self, actions: np.ndarray) -> None:
        """Start the emulation of one step."""
        actions = np.asarray(actions, np.int64)
        sent = actions if self._indices_of_actions is None else self._indices_of_actions[actions]
        self._environments.send(sent)
        self._first_action, self._in_flight = int(sent[0]), True

    def recv(self) -> list[Transition]:
        """Wait for the emulation; other threads run meanwhile."""
        assert self._in_flight, "recv without send"
        self._in_flight = False
        try:
            observations, rewards, terminated, truncated, _ = self._environments.recv()
        except RAISED as error:
            raise failure_of(error) from error
        ignored, self._over = self._over, terminated | truncated
        self._screen = observations[0, -1]
        self._colours.follow(self._first_action, float(rewards[0]))
        # ale-py allocates each observation anew, so the receiver can own it without a copy.
        return [
            Transition(
                self._indices.copy(),
                {"observation": observations},
                rewards.astype(np.float32),
                terminated,
                truncated,
                ignored,
            )
        ]

    def render(self) -> np.ndarray | None:
        """Return the screen of environment 0 in colour, uint8 [210, 160, 3].

        A game without a seed, or not drawn for its first 64 steps, gives the grey 84x84 picture that the agent sees.
        """
        if self._screen is None:
            return None
        coloured = self._colours.picture()
        return np.repeat(self._screen[:, :, None], 3, axis=2) if coloured is None else coloured

    def state_dict(self) -> dict[str, Any] | None:
        """Return None: the emulators cannot be saved."""
        return None

    def load_state_dict(self, state: dict[str, Any]) -> dict[str, np.ndarray]:
        """Refuse: there is no state to restore."""
        raise NotImplementedError(f"{self.spec.id} cannot be restored; begin new episodes with reset")

    def close(self) -> None:
        """Wait for a step in progress, then end the emulation threads."""
        self._drain()
        self._environments.close()
        self._colours.close()

    def _drain(self) -> None:
        if self._in_flight:
            self._environments.recv()
            self._in_flight = False


class AtariGame(gymnasium.Env[Any, Any]):
    """One game as a single Gymnasium environment with screens uint8 [84, 84], for wrappers.

    Args:
        games: a vector of one game, without a stack.
    """

    metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012
    render_mode = "rgb_array"

    def __init__(self, games: AtariEnvironments):
        self._games = games
        self.id, self.actions_by_number = games.spec.id, games.actions_by_number
        self.observation_space = gymnasium.spaces.Box(0, 255, _OBSERVED, np.uint8)
        assert isinstance(games.spec.actions, DiscreteActions)
        self.action_space = gymnasium.spaces.Discrete(games.spec.actions.num_actions)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin a game."""
        super().reset(seed=seed)
        return self._games.reset(seed)["observation"][0, -1], {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Play one step of `frame_skip` frames."""
        self._games.send(np.array([action]))
        (part,) = self._games.recv()
        screen = part.observations["observation"][0, -1]
        return screen, float(part.rewards[0]), bool(part.terminated[0]), bool(part.truncated[0]), {}

    def render(self) -> Any:
        """Return the newest screen."""
        return self._games.render()

    def close(self) -> None:
        """End the emulation."""
        self._games.close()
