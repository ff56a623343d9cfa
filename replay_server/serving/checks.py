"""Checks of unrolls and requests before a shard accepts them: a trust boundary."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from laser.ports import SampleRequest
from laser.specs import CategorySpec, DiscreteActions, MultiDiscreteActions
from laser.unroll import Unrolls, UnrollSpec, find_defects
from replay_server.store.members import Member

WRONG_SHAPE = "wrong_shape"
UNKNOWN_MEMBER = "unknown_member"
NOT_FINITE = "not_finite"
OUT_OF_RANGE = "out_of_range"
NO_FINAL_ROW = "no_final_row"
EMPTY_FRAMES = "empty_frames"


def find_bad_unrolls(spec: UnrollSpec, unrolls: Unrolls, members: Mapping[int, Member]) -> dict[str, np.ndarray]:
    """Return bool [N] by reason, True for an unroll that must not be stored; each unroll has at most one reason.

    Reasons: wrong names, shapes or dtypes of the message; a member that is not registered; the reasons of
    `_find_bad_contents`.
    """
    if find_defects(spec, unrolls):
        return {WRONG_SHAPE: np.ones(len(unrolls), bool)}
    bad = _find_bad_contents(spec, unrolls)
    # One look-up per unroll: `np.isin` takes ten times as long for the few unrolls of a message.
    bad[UNKNOWN_MEMBER] = np.array([number not in members for number in unrolls.headers["member"].tolist()], bool)
    known_bad = np.zeros(len(unrolls), bool)
    for reason, mask in bad.items():
        bad[reason] = mask & ~known_bad
        known_bad |= mask
    return {reason: mask for reason, mask in bad.items() if mask.any()}


def find_bad_request(spec: UnrollSpec, request: SampleRequest, members: Mapping[int, Member]) -> str | None:
    """Return why a request can never be served, or None."""
    member = members.get(request.member)
    if member is None:
        return f"member must be one of {sorted(members)}, got {request.member}"
    if request.num_items < 1 or request.n_step < 1:
        return f"num_items and n_step must be at least 1, got {request.num_items} and {request.n_step}"
    if not request.reward_clip > 0:
        return f"reward_clip must be above 0, got {request.reward_clip}"
    if request.num_from_log is not None:
        if not 0 <= request.num_from_log <= request.num_items:
            return f"num_from_log must be in [0, {request.num_items}], got {request.num_from_log}"
        if request.table == "online" or request.is_look or not member.draws_with_log(request.view):
            return f"this replay cannot draw {request.view} of a log apart from others; ask without num_from_log"
    if request.table == "online":
        capacity = member.settings.online_capacity
        if request.view != "unrolls":
            return f"the online table hands out unrolls, got view {request.view!r}"
        if not capacity:
            return f"member {request.member} has no online queue: give it an online_capacity"
        if request.num_items > capacity and not request.at_most:
            return f"{request.num_items} fresh unrolls exceed the online queue's capacity of {capacity}"
        return None
    if request.view == "streams":
        if request.streams and len(set(request.streams)) != request.num_items:
            return f"streams must name {request.num_items} different streams, got {list(request.streams)}"
    elif request.view not in member.views:
        drawn = ", ".join(member.views) or "nothing for a member that lacks the column it reads"
        return f"this replay's sampler draws {drawn}, got view {request.view!r}"
    if request.view == "steps" and spec.core_state:
        return "recurrent agents draw unrolls: the state before a single step is not stored, got view 'steps'"
    if request.is_look:
        if request.view != "steps":
            return f"keys and uniform are of the view 'steps', got {request.view!r}"
        if request.keys is not None and len(request.keys) != request.num_items:
            return f"keys must be {request.num_items}, got {len(request.keys)}"
        return None
    limit = member.settings.rate
    num_steps = request.num_items * (1 if request.view == "steps" else spec.unroll_length)
    if limit.limits and num_steps > limit.max_sample_steps:
        return f"a sample of {num_steps} steps exceeds the rate limiter's max_sample_steps {limit.max_sample_steps}"
    return None


def _find_bad_contents(spec: UnrollSpec, unrolls: Unrolls) -> dict[str, np.ndarray]:
    """Return bool [N] by reason; an unroll may have several reasons.

    Reasons: a number that is not finite (rewards, mu, observations, real actions, core state); an action or category
    out of range; an episode that begins without a preceding row for the previous final observation (n-step windows
    would cross the boundary); missing image bytes.
    """
    num_unrolls = len(unrolls)
    bad = {reason: np.zeros(num_unrolls, bool) for reason in (NOT_FINITE, OUT_OF_RANGE, NO_FINAL_ROW, EMPTY_FRAMES)}
    for name, array in unrolls.fields.items():
        if spec.fields[name].array.dtype.startswith("float") and not (finite := np.isfinite(array)).all():
            bad[NOT_FINITE] |= ~finite.reshape(num_unrolls, -1).all(axis=1)
    actions = spec.environment.actions
    valid = unrolls.fields["valid"]
    if isinstance(actions, DiscreteActions | MultiDiscreteActions):
        for name in ("actions", "last_action"):
            taken = unrolls.fields[name]
            wrong = (taken < 0) | (taken >= np.asarray(actions.num_actions))
            bad[OUT_OF_RANGE] |= wrong.reshape(num_unrolls, -1).any(axis=1)
    for name, observation in spec.environment.observations.items():
        if isinstance(observation, CategorySpec):
            seen = unrolls.fields[f"observations/{name}"]
            wrong = (seen < 0) | (seen >= observation.num_values)
            bad[OUT_OF_RANGE] |= wrong.reshape(num_unrolls, -1).any(axis=1)
    bad[NO_FINAL_ROW] |= (unrolls.fields["first"][:, 1:] & valid).any(axis=1)
    for packed in unrolls.frames.values():
        bad[EMPTY_FRAMES] |= packed.lengths == 0
    return bad
