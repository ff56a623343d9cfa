"""The link of a command to the supervisor of `--restart` that started it: a socket, whose number is in the environment.

The command announces its run's directory over the link, and at last that it ends by itself. When the link ends, the
supervisor was killed, and the command stops as after SIGTERM: nobody would start it again.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
from contextlib import suppress
from pathlib import Path

VARIABLE = "LASER_RESTART_LINK"
END = b"\0end"
"""The last bytes of a command that ends by itself. No path has a byte 0."""

_link: socket.socket | None = None


def connect() -> bool:
    """Take up the link that this process was started with; return whether there is one.

    Processes that this one starts inherit nothing of it.
    """
    global _link
    number = os.environ.pop(VARIABLE, "")
    if _link is None and number.isdecimal():
        try:
            _link = socket.socket(fileno=int(number))
        except OSError:
            return False  # the variable came from elsewhere
        _link.set_inheritable(False)
        threading.Thread(target=_stop_at_its_end, args=(_link,), name="restart link", daemon=True).start()
    return _link is not None


def is_connected() -> bool:
    """Return whether a supervisor would start this process again."""
    return _link is not None


def announce(run: Path) -> None:
    """Tell the supervisor, if there is one, the directory of the run or sweep that has begun."""
    if _link is not None:
        _link.sendall(os.fsencode(run.resolve()))


def note_end() -> None:
    """Tell the supervisor, if there is one, that this process ends by itself, whatever its exit code."""
    if _link is not None:
        with suppress(OSError):  # the supervisor was killed
            _link.sendall(END)


def _stop_at_its_end(link: socket.socket) -> None:
    try:
        while link.recv(1):
            pass
    except OSError:
        pass  # the other end was closed with unread data in it
    os.kill(os.getpid(), signal.SIGTERM)
