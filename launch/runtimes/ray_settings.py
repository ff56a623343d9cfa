"""What Ray reads from the environment: imported before Ray is, wherever Ray is imported.

Ray reads these when it is imported and when it starts. It would start workers at nice 15, where they starve beside the
driver; without a token anybody who reaches a port may run code; it would listen on every network of the machine,
whatever address it is given, unless it is told to do as on a desktop; and it would hide the GPUs from everybody. The
processes of a cluster were started by `ray start`, with the settings given there (see docs/cluster.md).

A process that Ray starts imports this before anything else of LASER, and torch later, with what it is to build. So the
process is set up here, too.
"""

from __future__ import annotations

import os
import sys

from launch.process_settings import prepare_process

_FORCED = {"RAY_AUTH_MODE": "token", "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}

TOO_LATE = "ray" in sys.modules and any(os.environ.get(name) != value for name, value in _FORCED.items())
"""Ray was imported before this and has read other settings."""

INLINE_BYTES = 4 * 2**20
"""Messages up to this size travel inside calls and answers, larger ones through the object store.

Ray's own default of 100 kB sends a sample of 128 Atari unrolls (0.5 MB) through the store, which takes about 0.9 ms of
the raylet's time.
"""

os.environ.update(_FORCED)
os.environ.setdefault("RAY_max_direct_call_object_size", str(INLINE_BYTES))
os.environ.setdefault("RAY_worker_niceness", "0")
os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
# Ray would print this to standard output; a run says it in a line of its own, or replaces the worker.
os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", "A worker died or was killed")

prepare_process()
