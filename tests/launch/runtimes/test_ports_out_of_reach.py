"""The ports to a shard and to the parameter store, without a Ray: what they do while these are out of reach."""

import pickle
from types import SimpleNamespace

import pytest

from laser.futures import failed
from laser.ports import PortAwayError, SampleRequest, wait
from launch.runtimes import ray_calls, ray_parameters, ray_replay

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
@pytest.mark.parametrize(
    ("make", "ask", "name"),
    [
        (
            lambda called, outlasts: ray_replay.RayReplay(
                SimpleNamespace(sample=called), 1, 42, outlasts_death=outlasts
            ),
            lambda port: port.sample(SampleRequest(0, 3)),
            r"shard 1 of the replay \(process 42\)",
        ),
        (
            lambda called, outlasts: ray_parameters.RayParameters(SimpleNamespace(newest=called), outlasts),
            lambda port: port.newest(-1),
            "the parameter store",
        ),
    ],
    ids=["shard", "store"],
)
def test_who_asks_waits_only_for_a_process_that_no_other_one_follows(monkeypatch, make, ask, name, outlasts_death):
    monkeypatch.setattr(ray_calls, "RETRY_S", 0.3)
    called = OutOfReach()
    with pytest.raises(PortAwayError, match=f"{name} cannot be reached"):
        wait(ask(make(called, outlasts_death)), 5, "the answer")
    assert called.num_calls == 1 if outlasts_death else called.num_calls > 1


def test_a_port_that_has_travelled_still_knows_it():
    travelled = pickle.loads(pickle.dumps(ray_replay.RayReplay("handle", 1, 42, "node", 3, outlasts_death=True)))
    assert (travelled.index, travelled.pid, travelled.node, travelled.life) == (1, 42, "node", 3)
    assert travelled.outlasts_death
    assert vars(pickle.loads(pickle.dumps(ray_parameters.RayParameters("handle", True))))["_outlasts_death"]
