"""Files of other people's directories, which may be something else than files."""

from __future__ import annotations

import errno
import stat
from pathlib import Path


def check_regular(path: Path) -> None:
    """Raise an error if a pipe, a socket or a device stands in place of a file: to open it could wait for ever.

    Raises:
        OSError: it does, or nothing is there.
    """
    if not stat.S_ISREG(mode := path.stat().st_mode) and not stat.S_ISDIR(mode):
        raise OSError(errno.EINVAL, "Not a regular file", str(path))
