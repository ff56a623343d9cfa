"""The trust boundary: bad unrolls are rejected one by one, under a counted reason."""

import dataclasses

import numpy as np
import pytest
from replay_helpers import Stream, join, make_spec

from laser.ports import PortError, SampleRequest, wait
from laser.specs import ArraySpec, CategorySpec, DiscreteActions, EnvironmentSpec
from laser.unroll import HEADER_DTYPE, PackedFrames, Unrolls, UnrollSpec, find_defects
from replay_server.config import ReplayConfig
from replay_server.member_settings import MemberSettings
from replay_server.serving.checks import _find_bad_contents
from replay_server.serving.shard import Shard


def not_finite(name, value):
    def spoil(unrolls):
        unrolls.fields[name][1].reshape(-1)[-1] = value

    return spoil


def set_item(name, index, value):
    def spoil(unrolls):
        unrolls.fields[name][index] = value

    return spoil


def begin_without_final_row(unrolls):
    unrolls.fields["valid"][1] = True
    unrolls.fields["first"][1, 2] = True


def empty_frames(unrolls):
    unrolls.frames["image"].lengths[1] = 0


def other_member(unrolls):
    unrolls.headers["member"][1] = 9


SPOILS = {
    "nan reward": ("not_finite", not_finite("rewards", np.nan)),
    "infinite mu": ("not_finite", not_finite("mu/logits", np.inf)),
    "nan observation": ("not_finite", not_finite("observations/observation", np.nan)),
    "infinite last reward": ("not_finite", set_item("last_reward", 1, -np.inf)),
    "large action": ("out_of_range", set_item("actions", (1, 2), 3)),
    "negative last action": ("out_of_range", set_item("last_action", 1, -1)),
    "no final row": ("no_final_row", begin_without_final_row),
    "empty frames": ("empty_frames", empty_frames),
    "other member": ("unknown_member", other_member),
}


@pytest.mark.parametrize("case", SPOILS)
def test_a_bad_unroll_does_not_condemn_its_message(case):
    reason, spoil = SPOILS[case]
    spec = make_spec(frames=True)
    shard = Shard(spec, ReplayConfig(capacity_steps=400), [MemberSettings(0)])
    streams = [Stream(spec, np.random.default_rng(0), environment=e) for e in range(3)]
    message = join([stream.next_unroll() for stream in streams])
    spoil(message)
    receipt = wait(shard.insert(message), 5, "insert")
    assert (receipt.num_inserted, receipt.rejected) == (2, {reason: 1})
    again = wait(shard.insert(message), 5, "insert")
    assert (again.num_inserted, again.num_duplicates, again.rejected) == (0, 3, {})
    following = wait(shard.insert(join([stream.next_unroll() for stream in streams])), 5, "insert")
    assert following.num_inserted == 3
    shard.check_valid()
    assert shard.stats().result().ledger.rejected == {reason: 1}
    # The stream that lost an unroll does not continue over the hole.
    assert (shard._store.index.next_page >= 0).sum() == 2
    shard.close()


def spoil_shape(unrolls):
    return {**unrolls.fields, "rewards": unrolls.fields["rewards"][:, :-1]}


def spoil_dtype(unrolls):
    return {**unrolls.fields, "rewards": unrolls.fields["rewards"].astype(np.float64)}


def spoil_names(unrolls):
    return {**unrolls.fields, "extra": unrolls.fields["rewards"]}


@pytest.mark.parametrize("spoil", [spoil_shape, spoil_dtype, spoil_names])
def test_a_message_of_the_wrong_layout_is_rejected_whole(spoil):
    spec = make_spec()
    shard = Shard(spec, ReplayConfig(capacity_steps=400), [MemberSettings(0)])
    message = Stream(spec, np.random.default_rng(0)).next_unroll()
    receipt = wait(shard.insert(dataclasses.replace(message, fields=spoil(message))), 5, "insert")
    assert (receipt.num_inserted, receipt.rejected) == (0, {"wrong_shape": 1})
    shard.check_valid()
    shard.close()


def test_frames_that_point_outside_their_payload_are_rejected():
    spec = make_spec(frames=True)
    shard = Shard(spec, ReplayConfig(capacity_steps=400), [MemberSettings(0)])
    message = Stream(spec, np.random.default_rng(0)).next_unroll()
    packed = message.frames["image"]
    frames = {"image": PackedFrames(packed.payload, packed.starts, packed.lengths + 1)}
    assert wait(shard.insert(dataclasses.replace(message, frames=frames)), 5, "insert").rejected == {"wrong_shape": 1}
    shard.close()


def test_headers_of_another_layout_are_an_error():
    spec = make_spec()
    shard = Shard(spec, ReplayConfig(capacity_steps=400), [MemberSettings(0)])
    message = Stream(spec, np.random.default_rng(0)).next_unroll()
    with pytest.raises(PortError, match="HEADER_DTYPE"):
        wait(shard.insert(Unrolls(np.zeros(1, np.int64), message.fields)), 5, "insert")
    shard.close()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"member": 3}, r"member must be one of \[0, 1\], got 3"),
        ({"num_items": 0}, "num_items and n_step must be at least 1"),
        ({"table": "online", "num_items": 9}, "9 fresh unrolls exceed the online queue's capacity of 8"),
        ({"table": "online", "view": "steps"}, "online table hands out unrolls"),
        ({"table": "online", "member": 1}, "member 1 has no online queue"),
        ({"view": "steps"}, "recurrent agents draw unrolls"),
    ],
)
def test_requests_that_can_never_be_served_fail_at_once(wrong, message):
    shard = Shard(
        make_spec(core_state=True), ReplayConfig(capacity_steps=400), [MemberSettings(0, 8), MemberSettings(1)]
    )
    with pytest.raises(PortError, match=message):
        wait(shard.sample(SampleRequest(**{"member": 0, "num_items": 1, **wrong})), 5, "sample")
    shard.close()


@pytest.mark.parametrize("shape", [(), (3,)])
def test_categories_are_checked_one_by_one(shape):
    environment = EnvironmentSpec("Words-v0", {"words": CategorySpec(7, shape)}, DiscreteActions(3))
    spec = UnrollSpec(4, environment, {"logits": ArraySpec((3,))})
    arrays = {name: np.zeros((2, *spec.shape(name)), field.array.dtype) for name, field in spec.fields.items()}
    assert arrays["observations/words"].shape == (2, 5, *shape)
    unrolls = Unrolls(np.zeros(2, HEADER_DTYPE), arrays)
    assert find_defects(spec, unrolls) is None
    for wrong, found in ((6, [False, False]), (7, [False, True]), (-1, [False, True])):
        arrays["observations/words"][1].reshape(-1)[-1] = wrong
        assert _find_bad_contents(spec, unrolls)["out_of_range"].tolist() == found
