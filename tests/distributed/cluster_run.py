"""A short run over the nodes of a cluster that was started elsewhere; prints what became of every unroll, as JSON.

Usage: cluster_run.py HOST:PORT [--kill-actors] [--kill-shard] [--actors N] [--env-steps N]
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import signal
import sys
import threading
import time
from functools import partial

import launch.runtimes.ray_settings  # noqa: F401 - before Ray itself

# isort: split
import ray

from actors.actor import Actor
from laser.ports import wait
from launch.planning.member_plan import plan_member
from launch.planning.needs import Needs
from launch.presets import load_preset
from launch.recording.recorder import Recorder
from launch.supervision.free import FreeSchedule
from launch.supervision.member_supervisor import MemberSupervisor
from launch.supervision.session import make_runtime
from launch.topology import place_member
from learner.learner import Learner

DEADLINE_S = 90.0


class LookingRuntime:
    """A runtime whose actors say where they are and where they insert."""

    def __init__(self, runtime):
        self._runtime = runtime

    def __getattr__(self, name):
        return getattr(self._runtime, name)

    def worker(self, name, factory, reports, **options):
        return self._runtime.worker(
            name, partial(_looking, factory) if name.startswith("actor") else factory, reports, **options
        )


def look(actor):
    """Return where an actor is and where it inserts."""
    return actor.look()


def _looking(factory, incarnation):
    actor = factory(incarnation)
    own = ray.get_runtime_context().get_node_id()
    actor.look = lambda: {
        "node": own,
        "pid": os.getpid(),
        "shard": actor._replay.chosen.index,
        "shard_node": actor._replay.chosen.node,
        "incarnation": incarnation,
    }
    return actor


class Run:
    """A program on a cluster, run by its schedule in a thread."""

    def __init__(self, runtime, recorder, config):
        self.config, self.recorder = config, recorder
        self.topology = place_member(plan_member(config), LookingRuntime(runtime), recorder)
        wait(self.topology.learner.call(Learner.warm_up), DEADLINE_S, "the learner")
        self._stop = threading.Event()
        self._attendant = MemberSupervisor(self.topology, recorder)
        schedule = FreeSchedule([self._attendant], self._stop.is_set, lambda *_: None)
        self.errors = []

        def run():
            try:
                schedule.run()
            except Exception as error:  # noqa: BLE001 - raised by whoever waits
                self.errors.append(error)

        self._thread = threading.Thread(target=run)
        self._thread.start()

    def until(self, condition, what):
        deadline = time.monotonic() + DEADLINE_S
        while not condition():
            assert not self.errors, self._failures()
            assert time.monotonic() < deadline, f"waited {DEADLINE_S:g} s for {what}"
            time.sleep(0.1)

    def go_on_for(self, env_steps):
        goal = self.recorder.snapshot().env_steps + env_steps
        self.until(lambda: self.recorder.snapshot().env_steps >= goal, f"{goal} env steps")

    def await_count(self, counter, num):
        self.until(lambda: self.recorder.snapshot().counters.get(counter, 0) >= num, f"{counter} to be {num}")

    def look(self):
        return [wait(actor.call(look), DEADLINE_S, actor.name) for actor in self.topology.actors]

    def end(self):
        """Stop, let inserts and reports that are under way arrive, and return the books."""
        self._stop.set()
        self._thread.join(DEADLINE_S)
        assert not self._thread.is_alive()
        assert not self.errors, self._failures()
        self.topology.learner.start()  # makes room for what actors still wait to insert
        reported, before = self._settle(), -1
        while reported != before:  # an actor may hear that it is to stop only after its next unroll
            reported, before = self._settle(), reported
        self.topology.learner.stop()
        self._attendant.parts.replay.report()
        counters = self.recorder.snapshot().counters
        # Shards that were lost as they were last seen.
        parts = [part for _, part in sorted(self._attendant.parts.replay._accounts._shards.items())]
        ledgers = [part.ledger for part in parts]
        return {
            "reported": int(counters["unrolls"]),
            "unreported": int(counters.get("unrolls_unreported/died", 0)),
            "lost_on_the_way": int(counters.get("unrolls_lost/died", 0)),
            "dropped_rows_at_most": int(counters.get("dropped_rows_at_most/died", 0)),
            "deaths": int(counters.get("restarts/died", 0)),
            "moves": int(counters.get("restarts/shard_lost", 0)),
            "shards_lost": int(counters.get("shards_lost", 0)),
            "lost_with_shard": int(counters.get("unrolls_lost/shard", 0)),
            "by_shard": [ledger.inserted for ledger in ledgers],
            "rejected": sum(sum(ledger.rejected.values()) for ledger in ledgers),
            "lost_in_gaps": sum(ledger.lost for ledger in ledgers),
            "duplicates": sum(ledger.duplicates for ledger in ledgers),
            "failed": sum(ledger.failed.total() for ledger in ledgers),
            "imbalances": [part.imbalances for part in parts],
        }

    def _failures(self):
        workers = [(worker.name, worker.incarnation, worker.failure()) for worker in self.topology.workers]
        return self.errors, workers

    def _settle(self):
        """Wait for what is under way now, and return how many unrolls were reported by then."""
        for actor in self.topology.actors:
            wait(actor.call(Actor.settle), DEADLINE_S, f"{actor.name} to settle")
        for _ in range(3):  # the answer under way may be older than the last report
            for actor in self.topology.actors:
                assert actor.failure() is None
            time.sleep(0.3)
        return self.recorder.snapshot().counters["unrolls"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("address")
    parser.add_argument("--actors", type=int, default=3)
    parser.add_argument("--env-steps", type=int, default=2000)
    parser.add_argument("--kill-actors", action="store_true", help="kill all actors of the node that is not ours")
    parser.add_argument("--kill-shard", action="store_true", help="kill its shard, too, some time later")
    options = parser.parse_args()
    config = load_preset("cartpole")
    replay = dataclasses.replace(config.replay, capacity_steps=4000, min_steps=128, num_shards=2)
    config = dataclasses.replace(
        config,
        replay=replay,
        runtime="ray",
        ray_address=options.address,
        num_actors=options.actors,
        num_envs=4,
        steps=10_000_000,
        quiet=True,
    )
    config.check()
    runtime = make_runtime(config, Needs(1, options.actors))
    with Recorder() as recorder:
        recorder.begin()
        run = Run(runtime, recorder, config)
        run.go_on_for(options.env_steps)
        result = {"before": run.look(), "shards": [port.node for port in run.topology.shards]}
        ours = ray.get_runtime_context().get_node_id()
        if options.kill_actors:
            victims = [place for place in result["before"] if place["node"] != ours]
            result["killed"] = len(victims)
            for place in victims:
                os.kill(place["pid"], signal.SIGKILL)
            run.await_count("restarts/died", len(victims))
            run.go_on_for(options.env_steps)
            result["after"] = run.look()
        if options.kill_shard:
            (port,) = [port for port in run.topology.shards if port.node != ours]
            num_cut_off = sum(place["shard"] == port.index for place in run.look())
            os.kill(port.pid, signal.SIGKILL)
            run.await_count("restarts/shard_lost", num_cut_off)
            run.go_on_for(options.env_steps)
            result["moved"] = run.look()
        print(json.dumps(result), file=sys.stderr, flush=True)  # of use where the end fails
        result["books"] = run.end()
    runtime.close()
    print(json.dumps(result))


if __name__ == "__main__":
    main()
