"""A component whose module imports torch, as what a run places in other processes does."""

from __future__ import annotations

from pathlib import Path

import torch
from hosted import Ticker


class Listener(Ticker):
    """Returns what its process has written to standard error, where libgomp says how it was set up."""

    def heard(self):
        """Return the text, once torch has computed."""
        assert torch.ones(2).sum() == 2
        return Path("/proc/self/fd/2").resolve().read_text()
