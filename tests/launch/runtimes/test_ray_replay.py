"""The port to a shard, without a Ray: what it does while the shard is out of reach."""

import pickle
from types import SimpleNamespace

import pytest

from laser.futures import failed
from laser.ports import PortAwayError, SampleRequest, wait
from launch.runtimes import ray_replay

# isort: split
from ray.exceptions import ActorUnavailableError


class OutOfReach:
    """The handle of an actor whose calls fail; it counts them."""

    num_calls = 0

    def options(self, **options):
        return self

    def remote(self, *arguments):
        self.num_calls += 1
        return SimpleNamespace(future=lambda: failed(ActorUnavailableError("restarting", None)))


@pytest.mark.parametrize("outlasts_death", [False, True])
def test_a_sample_waits_only_for_a_shard_that_no_other_process_follows(monkeypatch, outlasts_death):
    monkeypatch.setattr(ray_replay, "RETRY_S", 0.3)
    called = OutOfReach()
    port = ray_replay.RayReplay(SimpleNamespace(sample=called), 1, 42, outlasts_death=outlasts_death)
    with pytest.raises(PortAwayError, match=r"shard 1 of the replay \(process 42\) cannot be reached"):
        wait(port.sample(SampleRequest(0, 3)), 5, "sample")
    assert called.num_calls == 1 if outlasts_death else called.num_calls > 1


def test_a_port_that_has_travelled_still_knows_it():
    port = ray_replay.RayReplay("handle", 1, 42, "node", 3, outlasts_death=True)
    assert vars(pickle.loads(pickle.dumps(port))).keys() == vars(port).keys()
    assert pickle.loads(pickle.dumps(port)).outlasts_death
