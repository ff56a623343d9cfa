"""What decides before a session starts: whether members can share, what they need, how far they may part."""

import dataclasses

import pytest

from laser.config import ConfigError
from launch.planning.memory import available_memory
from launch.planning.plan import make_plan
from launch.presets import load_preset
from launch.supervision.session import slack_steps
from launch.words import size


def configs(*changes, preset="cartpole"):
    return [load_preset(preset, {"seed": number, **values}) for number, values in enumerate(changes)]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"env": "Acrobot-v1"}, "their observations are"),
        ({"env": "MountainCarContinuous-v0"}, "their observations are"),
        ({"unroll_length": 8}, "their unroll lengths are 16 and 8"),
    ],
)
def test_members_that_cannot_learn_from_each_other_are_refused_when_they_share(changes, says):
    members = configs({}, {}, changes)
    with pytest.raises(ConfigError) as caught:
        make_plan(members, share_replay=True)
    (problem,) = caught.value.problems
    assert problem.key == "share-replay"
    assert says in problem.wrong
    assert "members 0 and 2" in problem.wrong
    assert "--no-share-replay" in problem.remedy
    assert make_plan(members, share_replay=False).configs == members


def test_memories_may_differ_but_not_under_one_name():
    small, large = ({"network.core": "lstm", "network.separate_critic": False, "network.core_size": n} for n in (8, 16))
    assert set(make_plan(configs({}, small), share_replay=True).members[0].unrolls.core_state) == {"hidden", "cell"}
    with pytest.raises(ConfigError, match="and 2 cannot learn from each other: their recurrent states are"):
        make_plan(configs({}, small, large), share_replay=True)


def test_room_for_replays_in_checkpoints_is_said_beforehand(tmp_path):
    (plain, kept) = (make_plan(configs({"checkpoint_replay": saved})) for saved in (False, True))
    assert plain.needs_in(tmp_path) == f"about {plain.memory}"
    words = kept.needs_in(tmp_path)
    assert words.startswith(f"about {kept.memory}, and on disk up to {size(5 * kept.memory.replay)} for 5 checkpoints")


def test_shards_that_nobody_would_fill_are_refused():
    changes = {"replay.num_shards": 3, "num_actors": 2}
    for share_replay, num_members, refused in ((False, 1, True), (False, 2, True), (True, 2, False)):
        members = configs(*[changes] * num_members)
        if not refused:
            make_plan(members, share_replay=share_replay)
            continue
        with pytest.raises(ConfigError, match=r"3 shards need as many actors, .* got 2 actors") as found:
            make_plan(members, share_replay=share_replay)
        assert [problem.key for problem in found.value.problems] == ["replay.num-shards"]


def test_single_steps_are_not_drawn_from_the_replay_of_recurrent_agents():
    (steps,) = configs({}, preset="ddpg_pendulum")
    changes = {"unroll_length": steps.unroll_length, "network.core": "lstm", "network.separate_critic": False}
    (memory,) = configs(changes | {"env": "Pendulum-v1"})
    with pytest.raises(ConfigError, match="member 0 learns from single steps, which a replay shared"):
        make_plan([steps, memory], share_replay=True)


def test_games_with_as_many_actions_and_other_frame_skips_are_not_shared():
    values = {"num_envs": 2, "replay.capacity_steps": 5000}
    for other in ({"env": "ALE/Qbert-v5"}, {"environment.frame_skip": 2}):
        members = configs(values, values | other, preset="pong")
        with pytest.raises(ConfigError, match=r"their (environments|action repeats) are"):
            make_plan(members, share_replay=True)


def test_densities_before_and_after_tanh_are_not_taken_for_each_other():
    (acer,) = configs({}, preset="acer_pendulum")
    (sac,) = configs({"unroll_length": acer.unroll_length}, preset="sac_pendulum")
    with pytest.raises(ConfigError, match=r"their behaviour statistics are .*'mean'.* and .*'pre_tanh_mean'"):
        make_plan([acer, sac], share_replay=True)


def test_densities_before_and_after_clipping_are_not_taken_for_each_other():
    td3, ddpg = (configs({}, preset=preset)[0] for preset in ("td3_pendulum", "ddpg_pendulum"))
    ddpg = dataclasses.replace(ddpg, unroll_length=td3.unroll_length)
    with pytest.raises(ConfigError, match=r"their behaviour statistics are .*'unclipped_mean'.* and .*'mean'"):
        make_plan([td3, ddpg], share_replay=True)


def test_tasks_must_be_numbered_alike():
    tasks = ["ALE/Pong-v5,ALE/Breakout-v5", "ALE/Breakout-v5,ALE/Pong-v5"]
    values = {"environment.full_action_space": True, "num_envs": 2, "replay.capacity_steps": 5000}
    members = configs(*({"env": env, **values} for env in tasks), preset="pong")
    with pytest.raises(ConfigError, match="their environments are"):
        make_plan(members, share_replay=True)


def test_different_settings_of_the_algorithm_may_share():
    members = configs({}, {"algorithm.batch_size": 32}, {"algorithm.discount": 0.9}, {"network.hidden_sizes": (8,)})
    assert make_plan(members, share_replay=True).share_replay


def test_a_shared_replay_counts_once():
    values = {"replay.capacity_steps": 500_000}
    members = configs(values, values, values, values)
    alone = make_plan(members[:1]).memory.replay
    shared = make_plan(members, share_replay=True).memory.replay
    assert make_plan(members, share_replay=False).memory.replay == 4 * alone
    assert alone <= shared < 1.1 * alone  # online queues are each member's own


def test_more_members_than_fit_are_refused_with_the_estimate():
    num = 2 + available_memory() // (64 * 10 * 2**20)
    members = configs(*[{"num_envs": 64}] * num)
    with pytest.raises(ConfigError) as caught:
        make_plan(members, share_replay=False)
    (problem,) = caught.value.problems
    assert problem.key == "grid"
    assert f"{num} members need" in problem.wrong
    assert "--share-replay" in problem.remedy


def test_members_may_part_by_a_few_unrolls():
    long, short = configs({"steps": 10_000_000}, {"steps": 10_000})
    one_round = long.num_actors * long.num_envs * long.unroll_length
    assert slack_steps([long]) == 4 * one_round
    assert slack_steps([long, short]) == 200
    assert slack_steps(configs({"steps": 1000})) == one_round, "less than a round cannot be told"


def test_a_replay_without_room_for_the_frames_of_one_message_is_refused():
    with pytest.raises(ConfigError, match="the frames of 16 unrolls, which an actor sends together") as found:
        make_plan(configs({"replay.capacity_bytes": 200_000}, preset="pong"))
    (problem,) = found.value.problems
    assert problem.key == "replay.capacity-bytes"
    least = int(problem.remedy.split()[3].rstrip(","))
    make_plan(configs({"replay.capacity_bytes": least}, preset="pong"))
    with pytest.raises(ConfigError, match="in each of 2 shards"):  # an actor keeps to one of them
        make_plan(configs({"replay.capacity_bytes": least, "replay.num_shards": 2, "num_actors": 2}, preset="pong"))


def test_what_is_wrong_with_any_member_is_told_at_once(tmp_path):
    members = configs({"replay.num_shards": 2, "settings-schedule": tmp_path / "missing.json"}, {"env": "CartPol-v1"})
    with pytest.raises(ConfigError) as caught:
        make_plan(members, share_replay=False)
    assert [problem.key for problem in caught.value.problems] == ["replay.num-shards", "env", "settings-schedule"]
