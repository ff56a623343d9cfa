"""The process that calls `wandb` for every JSON line on standard input (see `launch.recording.wandb_tracker`).

The first line holds the arguments of `wandb.init`; then `{"values": {...}}` and `{"video": path, "global_step": n}`
follow. The end of the input finishes the run. The process may hang or die at any time: training does not wait for it.
"""

from __future__ import annotations

import json
import netrc
import os
import socket
import sys
from typing import Any
from urllib.parse import urlsplit

_REACH_TIMEOUT_S = 5.0
_INIT_TIMEOUT_S = 30.0


def mode() -> str:
    """Return `WANDB_MODE` if it is set, else "online" if there is a key and the server can be reached, else "offline".

    `wandb` itself would ask for a key on the terminal, or wait for the network for a long time.
    """
    chosen = os.environ.get("WANDB_MODE")
    if chosen:
        return chosen
    url = urlsplit(os.environ.get("WANDB_BASE_URL", "https://api.wandb.ai"))
    host = url.hostname or ""
    if not (os.environ.get("WANDB_API_KEY") or _in_netrc(host)):
        return "offline"
    port = url.port or (80 if url.scheme == "http" else 443)
    try:
        with socket.create_connection((host, port), timeout=_REACH_TIMEOUT_S):
            return "online"
    except OSError:
        return "offline"


def _in_netrc(host: str) -> bool:
    try:
        return netrc.netrc(os.environ.get("NETRC")).authenticators(host) is not None
    except (OSError, netrc.NetrcParseError):
        return False


def start(first: dict[str, Any]) -> Any:
    """Return the `wandb` run with the id in `first`, offline if the server does not accept it."""
    import wandb

    settings = wandb.Settings(
        console="off", silent=True, init_timeout=_INIT_TIMEOUT_S, disable_git=True, disable_code=True
    )
    chosen: Any = mode()
    try:
        run = wandb.init(mode=chosen, resume="allow" if chosen == "online" else None, settings=settings, **first)
    except Exception as error:
        if chosen != "online":
            raise
        print(f"offline, since the server did not accept the run: {error}", flush=True)
        run = wandb.init(mode="offline", settings=settings, **first)
    run.define_metric("global_step", hidden=True)
    run.define_metric("*", step_metric="global_step")
    return run


def main() -> None:
    """Pass standard input to `wandb` until it ends."""
    import wandb

    lines = iter(sys.stdin)
    run = start(json.loads(next(lines)))
    print(f"{run.settings.mode}: {run.dir}", flush=True)
    for line in lines:
        item = json.loads(line)
        if "video" in item:
            media = wandb.Video(item["video"], format="mp4")
            run.log({"videos/evaluation": media, "global_step": item["global_step"]})
        else:
            run.log(item["values"])
    run.finish()


if __name__ == "__main__":
    main()
