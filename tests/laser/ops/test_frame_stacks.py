import gymnasium
import numpy as np
import pytest
import torch
from ale_py.vector_env import AtariVectorEnv
from gymnasium.wrappers import FrameStackObservation

from laser.ops.frame_stacks import stack_frames, stacks_to_channels

T = 20


def naive_stacks(frames, first, stack, padding):
    """The definition, one observation at a time: a queue that is emptied where an episode begins."""
    num_rows, batch_size = first.shape
    columns = []
    for b in range(batch_size):
        queue = [frames[b, i] for i in range(stack)]
        rows = [torch.stack(queue)]
        for t in range(1, num_rows):
            newest = frames[b, t + stack - 1]
            if first[t, b]:
                before = newest if padding == "repeat" else torch.zeros_like(newest)
                queue = [before] * stack
            queue = [*queue[1:], newest]
            rows.append(torch.stack(queue))
        columns.append(torch.stack(rows))
    stacks = torch.stack(columns, dim=1)  # [T+1, B, stack, *frame_shape]
    return stacks_to_channels(stacks.flatten(0, 1)).unflatten(0, (num_rows, batch_size))


def random_case(stack, frame_shape, seed=0, batch_size=3):
    generator = torch.Generator().manual_seed(seed)
    frames = torch.randint(0, 256, (batch_size, stack + T, *frame_shape), generator=generator, dtype=torch.uint8)
    first = torch.rand(T + 1, batch_size, generator=generator) < 0.2
    first[0, 0], first[1, 1], first[T, 2] = True, True, True
    return frames, first


@pytest.mark.parametrize("padding", ["zeros", "repeat"])
@pytest.mark.parametrize("stack", [1, 2, 4, 7])
@pytest.mark.parametrize("frame_shape", [(8, 6), (8, 6, 3), (8, 6, 1)])
def test_equals_a_queue_of_frames(stack, frame_shape, padding):
    frames, first = random_case(stack, frame_shape)
    torch.testing.assert_close(
        stack_frames(frames, first, stack, padding), naive_stacks(frames, first, stack, padding), rtol=0, atol=0
    )


@pytest.mark.parametrize("padding", ["zeros", "repeat"])
def test_the_case_can_tell_forgotten_episode_starts(padding):
    frames, first = random_case(4, (8, 6))
    right = stack_frames(frames, first, 4, padding)
    assert not torch.equal(right, stack_frames(frames, torch.zeros_like(first), 4, padding))
    other = "repeat" if padding == "zeros" else "zeros"
    assert not torch.equal(right, stack_frames(frames, first, 4, other))


def test_row_zero_is_left_as_the_actor_kept_it():
    frames, first = random_case(4, (8, 6))
    first[0] = True
    torch.testing.assert_close(stack_frames(frames, first, 4, "zeros")[0], frames[:, :4])


@pytest.mark.parametrize("frame_shape", [(8, 6), (8, 6, 3)])
def test_the_result_is_channels_last_in_memory(frame_shape):
    frames, first = random_case(4, frame_shape)
    flat = stack_frames(frames, first, 4, "zeros").flatten(0, 1)
    assert flat.is_contiguous(memory_format=torch.channels_last)
    assert flat.data_ptr() == flat.to(memory_format=torch.channels_last).data_ptr()


@pytest.mark.parametrize("padding", ["zeros", "repeat"])
def test_compiles_whole(padding):
    frames, first = random_case(4, (8, 6))
    compiled = torch.compile(stack_frames, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(frames, first, 4, padding), stack_frames(frames, first, 4, padding))


@pytest.mark.slow
@pytest.mark.parametrize("padding", ["zeros", "repeat"])
def test_compiles_whole_with_inductor(padding):
    frames, first = random_case(4, (8, 6))
    compiled = torch.compile(stack_frames, fullgraph=True)
    result = compiled(frames, first, 4, padding)
    torch.testing.assert_close(result, stack_frames(frames, first, 4, padding))
    assert result.flatten(0, 1).is_contiguous(memory_format=torch.channels_last)


@pytest.mark.gpu
@pytest.mark.parametrize("padding", ["zeros", "repeat"])
def test_the_device_makes_no_difference(padding):
    frames, first = random_case(4, (8, 6, 3))
    on_device = stack_frames(frames.cuda(), first.cuda(), 4, padding)
    torch.testing.assert_close(on_device.cpu(), stack_frames(frames, first, 4, padding))


def test_mistakes_are_named():
    frames, first = random_case(4, (8, 6))
    with pytest.raises(ValueError, match=r"\[3, 24, ...\], got \[3, 23, 8, 6\]"):
        stack_frames(frames[:, 1:], first, 4, "zeros")
    with pytest.raises(ValueError, match="padding must be"):
        stack_frames(frames, first, 4, "mirror")


def assert_rebuilt(stacks, firsts, padding, least_episode_starts):
    """Cut a stream of the environment's own stacks into unrolls of single frames and rebuild them.

    Args:
        stacks: uint8 [rows, N, stack, *frame_shape], the environment's own.
        firsts: bool [rows, N].
        padding: the rule under test.
        least_episode_starts: episodes that must begin inside unrolls, or the test has shown nothing.
    """
    stack = stacks.shape[2]
    inside = 0
    for begin in range(0, len(stacks) - T, T):
        rows, first = stacks[begin : begin + T + 1], firsts[begin : begin + T + 1]
        frames = np.concatenate([rows[0], rows[1:, :, -1].swapaxes(0, 1)], axis=1)  # [N, stack + T, ...]
        rebuilt = stack_frames(torch.from_numpy(frames), torch.from_numpy(first), stack, padding)
        own = stacks_to_channels(torch.from_numpy(rows).flatten(0, 1)).unflatten(0, (T + 1, -1))
        torch.testing.assert_close(rebuilt, own, rtol=0, atol=0)
        inside += int(first[1:].sum())
    assert inside >= least_episode_starts


@pytest.mark.parametrize("episodic_life", [False, True])
@pytest.mark.parametrize("game", ["pong", "breakout"])
def test_rebuilt_stacks_equal_those_of_atari(game, episodic_life):
    environments = AtariVectorEnv(
        game, 3, num_threads=1, reward_clipping=False, max_num_frames_per_episode=200, episodic_life=episodic_life
    )
    generator = np.random.default_rng(0)
    observations, _ = environments.reset(seed=1)
    stacks, firsts = [observations], [np.ones(3, bool)]
    over = np.zeros(3, bool)
    for _ in range(8 * T):
        firsts.append(over)
        actions = generator.integers(0, environments.single_action_space.n, 3)
        observations, _, terminated, truncated, _ = environments.step(actions)
        over = terminated | truncated
        stacks.append(observations)
    environments.close()
    assert_rebuilt(np.stack(stacks), np.stack(firsts), "zeros", least_episode_starts=6)
    with pytest.raises(AssertionError):
        assert_rebuilt(np.stack(stacks), np.stack(firsts), "repeat", least_episode_starts=6)


class Blinking(gymnasium.Env):
    """Small random colour pictures; episodes of 7 steps."""

    observation_space = gymnasium.spaces.Box(0, 255, (6, 5, 3), np.uint8)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._steps = 0
        return self._picture(), {}

    def step(self, action):
        self._steps += 1
        return self._picture(), 0.0, self._steps == 7, False, {}

    def _picture(self):
        return self.np_random.integers(1, 256, (6, 5, 3), np.uint8)


@pytest.mark.parametrize(("padding", "padding_type"), [("repeat", "reset"), ("zeros", "zero")])
def test_rebuilt_stacks_equal_those_of_gymnasiums_wrapper(padding, padding_type):
    environment = FrameStackObservation(Blinking(), 4, padding_type=padding_type)
    observation, _ = environment.reset(seed=0)
    stacks, firsts, over = [observation], [True], False
    for _ in range(4 * T):
        firsts.append(over)
        if over:
            (observation, _), over = environment.reset(), False
        else:
            observation, _, over, _, _ = environment.step(0)
        stacks.append(observation)
    assert_rebuilt(np.stack(stacks)[:, None], np.array(firsts)[:, None], padding, least_episode_starts=8)
