"""Streamed recurrent states, through shards, a client of two and the learner, against a full recomputation."""

from concurrent.futures import Future
from dataclasses import dataclass

import numpy as np
import pytest
import torch

from laser.algorithms.laser import LaserConfig
from laser.batch import FOREIGN_REPLAY, ONLINE, OWN_REPLAY
from laser.compiled_program import CompiledProgram
from laser.networks.config import NetworkConfig
from laser.ports import wait
from laser.specs import DiscreteActions, EnvironmentSpec, VectorSpec
from laser.unroll import HEADER_DTYPE, Unrolls, UnrollSpec
from learner.config import LearnerConfig
from learner.learner import Learner
from learner.publishing.parameter_store import ParameterStore
from replay_server.client.sharded_replay import ShardedReplay
from replay_server.config import ReplayConfig
from replay_server.member_settings import MemberSettings
from replay_server.serving.shard import Shard

LENGTH, SIZE, NUM_REPLAYED = 5, 6, 7
ENVIRONMENT = EnvironmentSpec("Test-v0", {"observation": VectorSpec((3,))}, DiscreteActions(3))


class Source:
    """One environment of one actor that plays episodes of random numbers and remembers them whole."""

    def __init__(self, spec, seed, *, actor, member, mean_length=12):
        self.spec, self.rng, self.actor, self.member = spec, np.random.default_rng(seed), actor, member
        self.mean_length, self.sequence = mean_length, 0
        self.rows, self.episodes = [], []

    def _grow(self):
        length = 1 + int(self.rng.geometric(1 / self.mean_length))
        episode = []
        for step in range(length + 1):
            row = {
                "observation": self.rng.normal(size=3).astype(np.float32),
                "action": int(self.rng.integers(3)),
                "reward": float(np.float32(self.rng.normal())),
                "first": step == 0,
                "valid": step < length,
                "terminated": step == length - 1,
                "episode": len(self.episodes),
                "step": step,
            }
            episode.append(row)
        self.episodes.append(episode)
        self.rows += episode

    def next_unroll(self):
        start = self.sequence * LENGTH
        while len(self.rows) <= start + LENGTH:
            self._grow()
        rows = self.rows[start : start + LENGTH + 1]
        header = np.zeros(1, HEADER_DTYPE)
        header["actor"], header["member"], header["sequence"] = self.actor, self.member, self.sequence
        header["task"] = self.member + 10
        header["episode"], header["step_in_episode"] = rows[0]["episode"], rows[0]["step"]
        self.sequence += 1
        before = self.rows[start - 1] if start else {"action": 0, "reward": 0.0}
        steps = rows[:-1]
        fields = {
            "observations/observation": np.stack([row["observation"] for row in rows]),
            "first": np.array([row["first"] for row in rows]),
            "actions": np.array([row["action"] for row in steps], np.int64),
            "rewards": np.array([row["reward"] for row in steps], np.float32),
            "terminated": np.array([row["terminated"] for row in steps]),
            "valid": np.array([row["valid"] for row in steps]),
            "mu/logits": np.zeros((LENGTH, 3), np.float32),
            "last_action": np.array(before["action"], np.int64),
            "last_reward": np.array(before["reward"], np.float32),
            # What the actor had does not matter to streams: numbers that would be noticed.
            "core_state/hidden": np.full(SIZE, 9.0, np.float32),
            "core_state/cell": np.full(SIZE, 9.0, np.float32),
        }
        return Unrolls(header, {name: value[None] for name, value in fields.items()})


class Setup:
    """Two shards, a learner of member 0 with a recurrent network, and sources of two members."""

    def __init__(
        self,
        *,
        core="lstm",
        learning_rate=1e-30,
        num_shards=2,
        seed=1,
        algorithm=LaserConfig,
        device="cpu",
        **learner,
    ):
        algorithm_config = algorithm(
            batch_size=NUM_REPLAYED + 1, replay_fraction=NUM_REPLAYED / (NUM_REPLAYED + 1), learning_rate=learning_rate
        )
        network = NetworkConfig(hidden_sizes=(8,), core=core, core_size=SIZE)
        self.algorithm = algorithm_config.build(ENVIRONMENT, network)
        self.spec = UnrollSpec(LENGTH, ENVIRONMENT, self.algorithm.behaviour, dict(self.algorithm.core_state))
        members = [MemberSettings(0, online_capacity=1000), MemberSettings(1)]
        config = ReplayConfig(capacity_steps=800, num_shards=num_shards)
        self.shards = [Shard(self.spec, config, members, shard=k, seed=seed) for k in range(num_shards)]
        self.replay = ShardedReplay(self.shards, seed=seed, in_order=True)
        self.learner = Learner(
            self.algorithm,
            self.spec,
            self.replay,
            ParameterStore(),
            LearnerConfig(precision="float32", **{"compile": "off", **learner}),
            device,
            3,
            prefetch=False,
        )
        self.learner.warm_up()
        self.sources = [Source(self.spec, actor, actor=actor, member=actor % 2) for actor in range(4)]
        # Actors 0 and 2 live on shard 0: members are spread so that both shards hold both.
        for source in self.sources:
            source.member = source.actor // 2

    def collect(self, num=1):
        for _ in range(num):
            for source in self.sources:
                wait(self.replay.insert(source.next_unroll()), 5, "insert")

    def close(self):
        self.learner.close()
        for shard in self.shards:
            shard.close()

    def step(self):
        """Apply one update; return the batch as the loss saw it."""
        seen = []
        in_turn = self.learner.updater.in_turn

        def spy(batches, *rest):
            seen.extend(batches)
            return in_turn(batches, *rest)

        self.learner.updater.in_turn = spy
        try:
            self.learner.step()
        finally:
            self.learner.updater.in_turn = in_turn
        return seen[0]

    def step_in_passes(self):
        """Apply one update of several passes; return the whole batch as it was joined."""
        seen = []
        join = self.learner._replay_states.join
        self.learner._replay_states.join = lambda *args: seen.append(join(*args)) or seen[-1]
        try:
            self.learner.step()
        finally:
            self.learner._replay_states.join = join
        return seen[0]

    def states_by_observation(self):
        """Walk every episode from its first step, in float64: the state before each row, by what the row shows."""
        networks = self.algorithm.make_networks().double()
        networks.load_state_dict(self.learner.updater.state.networks.state_dict())
        states = {}
        for source in self.sources:
            for episode in source.episodes:
                zeros = {name: torch.zeros(1, SIZE, dtype=torch.float64) for name in self.algorithm.core_state}
                observations = torch.tensor(np.stack([row["observation"] for row in episode])).double()[:, None]
                actions = torch.tensor([0, *(row["action"] for row in episode[:-1])])[:, None]
                rewards = torch.tensor([0.0, *(row["reward"] for row in episode[:-1])]).double()[:, None]
                first = torch.tensor([row["first"] for row in episode])[:, None]
                with torch.no_grad():
                    output = networks({"observation": observations}, actions, rewards, first, zeros)
                for t, row in enumerate(episode):
                    key = tuple(row["observation"].tolist())
                    before = {
                        name: (value[t - 1, 0] if t else torch.zeros(SIZE, dtype=torch.float64))
                        for name, value in output.core_states.items()
                    }
                    states[key] = (before, source.member, row["first"], row["valid"])
        return states


def largest_error(setup, batches):
    """Largest difference of a replayed column's state from the recomputation; also checks who made each row."""
    truth = setup.states_by_observation()
    worst = 0.0
    for batch in batches:
        for column in range(1, NUM_REPLAYED + 1):
            rows = [truth[tuple(seen)] for seen in batch.observations["observation"][:-1, column].tolist()]
            members = [member for _, member, _, _ in rows]
            assert batch.source[:, column].tolist() == [FOREIGN_REPLAY if each else OWN_REPLAY for each in members]
            assert batch.task[:, column].tolist() == [each + 10 for each in members]
            assert batch.first[:-1, column].tolist() == [first for _, _, first, _ in rows]
            assert batch.valid[:, column].tolist() == [valid for _, _, _, valid in rows]
            before, _, first, _ = rows[0]
            if not first:  # the network resets it then
                for name, value in before.items():
                    worst = max(worst, (batch.core_state[name][column].cpu().double() - value).abs().max().item())
    return worst


DEVICES = [
    ("cpu", {}),
    pytest.param("cuda", {}, marks=pytest.mark.gpu),
    pytest.param("cuda", {"compile": "on"}, marks=pytest.mark.gpu),
]


@pytest.mark.parametrize(("device", "options"), DEVICES)
@pytest.mark.parametrize("core", ["lstm", "preco"])
@pytest.mark.parametrize("recompute", [False, True])
def test_with_frozen_parameters_streamed_states_are_those_of_a_full_recomputation(core, recompute, device, options):
    setup = Setup(core=core, recompute_core_state=recompute, device=device, **options)
    setup.collect(12)
    batches = []
    for _ in range(30):
        setup.collect()
        batches.append(setup.step())
    assert largest_error(setup, batches) < (1e-6 if device == "cpu" else 1e-5)
    sources, begun, members_in_column = set(), 0, False
    for batch in batches:
        assert (batch.source[:, 0] == ONLINE).all()
        sources |= set(batch.source.flatten().tolist())
        begun += int(batch.first[1:-1, 1:].sum())
        replayed = batch.source[:, 1:]
        members_in_column |= bool((replayed != replayed[:1]).any())
    assert sources == {ONLINE, OWN_REPLAY, FOREIGN_REPLAY}
    assert begun > 20, "no stream crossed from one episode to the next"
    assert members_in_column, "no column passed from one member's episode to another's"
    stats = wait(setup.replay.stats(), 5, "stats")
    assert stats.streams == {"alive": NUM_REPLAYED}
    assert [part.streams["alive"] for part in stats.shards] == [4, 3]
    assert not any(stats.imbalances.values())
    for shard in setup.shards:
        shard.check_valid()
    setup.close()


@pytest.mark.parametrize("mistake", ["stored", "zero", "mixed columns", "moving parameters"])
def test_the_recomputation_tells_wrong_states(mistake):
    kind = {"replay_core_state": mistake} if mistake in ("stored", "zero") else {}
    setup = Setup(learning_rate=1e-2 if mistake == "moving parameters" else 1e-30, **kind)
    setup.collect(12)
    batches = []
    for _ in range(10):
        setup.collect()
        if mistake == "mixed columns":
            for value in setup.learner._replay_states._states.values():
                value.copy_(value.roll(1, 0))
        batches.append(setup.step())
    assert largest_error(setup, batches) > 1e-3
    setup.close()


def test_stored_and_zero_states_come_with_whole_unrolls():
    for kind, value in (("stored", 9.0), ("zero", 0.0)):
        setup = Setup(replay_core_state=kind)
        setup.collect(12)
        batch = setup.step()
        assert (batch.core_state["hidden"][1:] == value).all()
        assert (batch.core_state["hidden"][0] == 9.0).all(), "fresh columns keep the state of their actor"
        assert setup.learner._replay_states is None
        assert "replay_states" not in setup.learner.state_dict()["tensors"]
        setup.close()


def test_a_learner_and_a_replay_restored_together_go_on_bit_by_bit():
    finals = []
    for restored in (False, True):
        setup = Setup(learning_rate=1e-2)
        setup.collect(12)
        for _ in range(6):
            setup.collect()
            setup.step()
        if restored:
            states = [shard.state_dict() for shard in setup.shards], setup.learner.state_dict()
            sources = setup.sources
            setup.close()
            setup = Setup(learning_rate=1e-2, seed=99)
            setup.sources = sources
            setup.learner.load_state_dict(states[1])
            for shard, state in zip(setup.shards, states[0], strict=True):
                shard.load_state_dict(state)
        for _ in range(6):
            setup.collect()
            setup.step()
        finals.append(setup.learner.updater.state.parameters.to_numpy())
        setup.close()
    np.testing.assert_array_equal(finals[0], finals[1])


def test_after_another_members_weights_are_taken_over_states_are_those_of_the_new_networks():
    setup, other = Setup(), Setup()
    for source in setup.sources:
        source.mean_length = 40  # most streams are in the middle of an episode
    with torch.no_grad():
        for parameter in other.learner.updater.state.networks.parameters():
            parameter.copy_(0.5 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(7)))
    setup.collect(40)
    for _ in range(6):
        setup.collect()
        setup.step()
    setup.learner.adopt(other.learner.weights())
    batches = []
    for _ in range(8):
        setup.collect()
        batches.append(setup.step())
    assert largest_error(setup, batches) < 1e-6
    assert sum(int(batch.first[0, 1:].sum()) for batch in batches) >= NUM_REPLAYED, "streams did not begin anew"
    for each in (setup, other):
        each.close()


def test_numbers_that_are_not_finite_do_not_stay():
    setup = Setup()
    setup.collect(12)
    setup.step()
    states = setup.learner._replay_states
    streams = torch.arange(NUM_REPLAYED)
    bad = {name: torch.full((NUM_REPLAYED + 1, SIZE), float("nan")) for name in setup.algorithm.core_state}
    states.keep(bad, streams)
    assert all((value == 0).all() for value in states.state_dict().values())
    setup.close()


def test_feed_forward_networks_draw_whole_unrolls():
    asked = []
    setup = Setup()
    algorithm = LaserConfig(batch_size=4, replay_fraction=0.5).build(ENVIRONMENT, NetworkConfig(hidden_sizes=(8,)))
    spec = UnrollSpec(LENGTH, ENVIRONMENT, algorithm.behaviour)

    class Replay:
        def sample(self, request):
            asked.append(request)
            return Future()

    learner = Learner(
        algorithm, spec, Replay(), ParameterStore(), LearnerConfig(compile="off"), "cpu", 3, prefetch=False
    )
    assert learner.loader.poll(0.01) is None
    assert [(request.table, request.view) for request in asked] == [("online", "unrolls"), ("replay", "unrolls")]
    setup.close()


def test_a_learner_that_starts_again_begins_new_streams():
    setup = Setup()
    state = setup.learner.state_dict()
    state["numbers"]["num_steps"] = 5
    config = LearnerConfig(compile="off", precision="float32")
    learners = [
        Learner(setup.algorithm, setup.spec, setup.replay, ParameterStore(), config, "cpu", seed, prefetch=True)
        for seed in (3, 3, 4)
    ]
    learners[1].load_state_dict(state)
    sets = {learner._mixer.stream_set for learner in learners}
    assert len(sets) == 3, "streams whose states went with another learner would go on"
    for learner in learners:
        learner.close()
    setup.close()


def test_after_several_passes_all_columns_have_their_state():
    @dataclass(frozen=True)
    class ManyPasses(LaserConfig):
        @property
        def passes(self):
            return 2, 3

    setup = Setup(algorithm=ManyPasses)
    setup.collect(12)
    batches = []
    for _ in range(8):
        setup.collect()
        batch = setup.step_in_passes()
        batches.append(batch)
    assert largest_error(setup, batches) < 1e-6
    setup.close()


@pytest.mark.slow
def test_nothing_is_compiled_once_the_learner_is_warm(monkeypatch):
    setup = Setup(compile="on", recompute_core_state=True, learning_rate=1e-3)
    setup.collect(60)

    def compiled_late(self, structure, tensors):
        raise AssertionError("other threads run networks by now")

    monkeypatch.setattr(CompiledProgram, "_compile", compiled_late)
    for _ in range(3):
        setup.learner.step()
    assert setup.learner.num_updates == 3
    setup.close()


@pytest.mark.gpu
def test_a_learner_goes_on_from_another_kind_of_device():
    """Its networks, moments, target networks and states move from GPU to CPU and back, number by number."""
    tensors = []
    here = Setup(learning_rate=1e-2, device="cuda", compile="on")
    here.collect(12)
    for device in ("cpu", "cuda", "cpu"):
        for _ in range(3):
            here.collect()
            here.step()
        state = here.learner.state_dict()
        tensors.append(state["tensors"])
        there = Setup(learning_rate=1e-2, seed=99, device=device)
        there.learner.load_state_dict(state)
        moved = there.learner.state_dict()
        torch.testing.assert_close(moved["tensors"]["networks"], state["tensors"]["networks"], rtol=0, atol=0)
        torch.testing.assert_close(moved["tensors"]["optimizer"], state["tensors"]["optimizer"], rtol=0, atol=0)
        assert there.learner.num_updates == here.learner.num_updates
        there.sources = here.sources
        for shard, other in zip(there.shards, here.shards, strict=True):
            shard.load_state_dict(other.state_dict())
        here.close()
        here = there
    here.close()
    assert all(value.device.type == "cpu" for group in tensors for part in group.values() for value in part.values())


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore:Synchronization debug mode is a prototype:UserWarning")
def test_an_update_on_a_gpu_waits_for_nothing_that_the_gpu_has_still_to_do():
    setup = Setup(learning_rate=1e-2, device="cuda", compile="on", recompute_core_state=True)
    setup.collect(20)
    for _ in range(3):  # what is done once
        setup.step()
    learner = setup.learner
    mode = torch.cuda.get_sync_debug_mode()
    torch.cuda.set_sync_debug_mode("error")
    try:
        for _ in range(3):
            loaded = learner.loader.next(1)
            learner._update(loaded)
            learner.publish()
    finally:
        torch.cuda.set_sync_debug_mode(mode)
    assert learner.num_updates == 6
    setup.close()
