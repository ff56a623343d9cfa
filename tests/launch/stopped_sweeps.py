"""Sweeps that are stopped as if by Ctrl-C once a member has trained for some steps."""

from __future__ import annotations

import signal
from contextlib import nullcontext

import pytest

from launch.errors import Interrupted
from launch.supervision.member_supervisor import MemberSupervisor
from launch.supervision.signals import StopSignal
from launch.sweeps.sweep import sweep


class StopsOnce(StopSignal):
    """A Ctrl-C that comes as soon as a member has trained for some steps."""

    def __init__(self, supervisors, member, env_steps):
        super().__init__()
        self._of, self._member, self._env_steps = supervisors, member, env_steps

    @property
    def requested(self):
        supervisor = self._of.get(self._member)
        if supervisor is not None and supervisor.recorder.position().env_steps >= self._env_steps:
            self.number = signal.SIGINT
        return self.number is not None


def stopped(config, monkeypatch, member, env_steps):
    """Run a sweep until a member has trained for some steps."""
    supervisors, make = {}, MemberSupervisor.__init__

    def watched(self, topology, *arguments):
        make(self, topology, *arguments)
        supervisors[self.number] = self

    with monkeypatch.context() as patch:
        patch.setattr(MemberSupervisor, "__init__", watched)
        stop = StopsOnce(supervisors, member, env_steps)
        patch.setattr("launch.sweeps.sweep.stop_on_signals", lambda: nullcontext(stop))
        with pytest.raises(Interrupted, match="--resume"):
            sweep(config)
