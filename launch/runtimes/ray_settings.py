"""Environment variables that Ray reads: every file that imports Ray imports this module first.

Ray reads the variables at its import and at its start. Without them Ray would start workers at nice 15, where they get
little CPU time beside the driver. Without a token anyone who reaches a port could run code. Ray would listen on every
network of the machine, whatever address it is given, unless set to behave as on a desktop. It would hide the GPUs from
all processes. The processes of a cluster have the settings that were given to `ray start` (see docs/cluster.md).

A process that Ray starts imports this module before torch, so `prepare_process` is called here, too.
"""

from __future__ import annotations

import os
import sys

from launch.process_settings import prepare_process

_FORCED = {"RAY_AUTH_MODE": "token", "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}

TOO_LATE = "ray" in sys.modules and any(os.environ.get(name) != value for name, value in _FORCED.items())
"""Whether Ray was imported before this module and has read other settings."""

INLINE_BYTES = 4 * 2**20
"""Messages up to this size travel inside calls and results, larger ones through the object store.

Ray's own default of 100 kB sends a sample of 128 Atari unrolls (0.5 MB) through the store, which takes about 0.9 ms of
the raylet's time.
"""

os.environ.update(_FORCED)
os.environ.setdefault("RAY_max_direct_call_object_size", str(INLINE_BYTES))
os.environ.setdefault("RAY_worker_niceness", "0")
os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
# Ray would print this to standard output; a run reports it in a line of its own, or replaces the worker.
os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", "A worker died or was killed")

prepare_process()
