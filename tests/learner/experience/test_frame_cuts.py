"""Frames cut at rows: what the network sees equals what the environment showed."""

import dataclasses

import numpy as np
import pytest
import torch

from laser.frames import compress_frames
from laser.ops.frame_stacks import stack_frames
from laser.ports import SampleRequest, wait
from laser.specs import ArraySpec, DiscreteActions, EnvironmentSpec, FramesSpec
from laser.unroll import HEADER_DTYPE, Unrolls, UnrollSpec
from learner.experience.collate import collate, example_batch
from learner.experience.mixing import Mix
from replay_server.config import ReplayConfig
from replay_server.member_settings import MemberSettings
from replay_server.serving.shard import Shard

LENGTH = 5


def shown(episode, step, stack, padding, shape):
    """What the environment shows at a step: its newest frames, oldest first; a frame's pixels say what it is."""
    frames = []
    for age in range(stack - 1, -1, -1):
        at = step - age
        if at < 0 and padding == "zeros":
            frames.append(np.zeros(shape, np.uint8))
        else:
            frames.append(np.full(shape, 7 + (episode * 37 + max(at, 0) * 5) % 240, np.uint8))
    return np.stack(frames)


def stored(padding, stack, shape, mean_length):
    """Return a shard full of episodes, their layout, and (episode, step, whether a step follows) of every row."""
    spec = UnrollSpec(
        LENGTH,
        EnvironmentSpec("Frames-v0", {"image": FramesSpec(shape, stack=stack, padding=padding)}, DiscreteActions(2)),
        {"logits": ArraySpec((2,))},
    )
    shard = Shard(spec, ReplayConfig(capacity_steps=3000, sequence_starts="step"), [MemberSettings(0)])
    rng = np.random.default_rng(mean_length)
    log = []
    for episode in range(40):
        length = 1 + int(rng.geometric(1 / mean_length))
        log += [(episode, step, step < length) for step in range(length + 1)]
    for sequence in range((len(log) - 1) // LENGTH):
        rows = log[sequence * LENGTH : sequence * LENGTH + LENGTH + 1]
        stacks = [shown(episode, step, stack, padding, shape) for episode, step, _ in rows]
        frames = np.concatenate([stacks[0], np.stack([each[-1] for each in stacks[1:]])])
        fields = {name: np.zeros((1, *spec.shape(name)), item.array.dtype) for name, item in spec.fields.items()}
        fields["first"][0] = [step == 0 for _, step, _ in rows]
        fields["valid"][0] = [valid for _, _, valid in rows[:-1]]
        fields["rewards"][0] = np.arange(sequence * LENGTH, sequence * LENGTH + LENGTH)  # the place in the log
        header = np.zeros(1, HEADER_DTYPE)
        header["sequence"] = sequence
        wait(shard.insert(Unrolls(header, fields, {"image": compress_frames(frames[None])})), 5, "insert")
    return shard, spec, log


def channels(stacked):
    """Return what a network sees of an environment's stack."""
    truth = torch.from_numpy(stacked)
    return truth if truth.ndim == 3 else truth.permute(0, 3, 1, 2).flatten(0, 1)


@pytest.mark.parametrize("view", ["streams", "sequences"])
@pytest.mark.parametrize("padding", ["zeros", "repeat"])
@pytest.mark.parametrize(("stack", "shape"), [(4, (3, 2)), (1, (3, 2, 3)), (3, (2, 2, 3))])
@pytest.mark.parametrize("mean_length", [2, 9])
def test_pieces_show_what_the_environment_showed(view, padding, stack, shape, mean_length):
    shard, spec, log = stored(padding, stack, shape, mean_length)
    amid = False
    for sequence in range(8):
        sample = wait(shard.sample(SampleRequest(0, 6, view=view, sequence=sequence)), 5, view)
        (batch,) = collate([Mix(None, sample)], spec, 0, 0.9, 0)
        stacks = stack_frames(batch.observations["image"], batch.first, stack, padding)
        for i in range(6):
            for t in range(LENGTH):
                episode, step, _ = log[int(sample.unrolls.fields["rewards"][i, t])]
                assert torch.equal(stacks[t, i], channels(shown(episode, step, stack, padding, shape)))
                amid |= t == 0 and 0 < step < stack
    assert amid or stack == 1, "no piece began shortly after an episode's first step"
    shard.close()


@pytest.mark.parametrize("padding", ["zeros", "repeat"])
@pytest.mark.parametrize(("stack", "shape"), [(4, (3, 2)), (1, (3, 2, 3)), (3, (2, 2, 3))])
@pytest.mark.parametrize(("num_steps", "mean_length"), [(1, 2), (3, 9), (7, 9)])
def test_windows_show_what_the_environment_showed(padding, stack, shape, num_steps, mean_length):
    shard, spec, log = stored(padding, stack, shape, mean_length)
    step_spec = dataclasses.replace(spec, unroll_length=1)
    # Rewards are summed with a discount so small that what is left is the first one's, the place in the log.
    request = SampleRequest(0, 150, view="steps", n_step=num_steps, discount=1e-9)
    sample = wait(shard.sample(request), 5, "steps")
    (batch,) = collate([Mix(None, sample)], step_spec, 0, 0.9, 0)
    assert batch.observations["image"].shape[:2] == (2, 150)
    assert batch.observations["image"][0].is_contiguous(memory_format=torch.channels_last)
    last = (len(log) - 1) // LENGTH * LENGTH
    crossed = cut = False
    for i, place in enumerate(np.rint(batch.rewards[0].numpy()).astype(int).tolist()):
        assert log[place][2]
        end = place
        while end < last and end < place + num_steps and log[end][2]:
            end += 1
        crossed |= end // LENGTH > place // LENGTH
        cut |= end < place + num_steps
        for row, at in enumerate((place, end)):
            truth = channels(shown(*log[at][:2], stack, padding, shape))
            assert torch.equal(batch.observations["image"][row, i], truth)
    assert crossed, "no window crossed a page"
    assert cut or num_steps == 1, "no window ended with its episode"
    shard.close()


def test_examples_to_compile_with_are_like_windows():
    shard, spec, _ = stored("zeros", 3, (2, 2, 3), 9)
    sample = wait(shard.sample(SampleRequest(0, 5, view="steps", n_step=3)), 5, "steps")
    spec = dataclasses.replace(spec, unroll_length=1)
    (batch,), example = collate([Mix(None, sample)], spec, 0, 0.9, 0), example_batch(spec, 5, [], "steps")
    image, other = batch.observations["image"], example.observations["image"]
    assert (image.shape, image.dtype, image.stride()) == (other.shape, other.dtype, other.stride())
    shard.close()
