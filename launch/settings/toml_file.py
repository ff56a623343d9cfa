"""The reader of `--config FILE.toml`: values by dotted path, with the same keys as flags."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from laser.config import ConfigError, Problem
from launch.settings.values import flatten


def read_config_file(path: Path) -> dict[str, Any]:
    """Return the values of a TOML file by dotted path, e.g. from `[algorithm]` `learning-rate = 3e-4`.

    Raises:
        ConfigError: the file cannot be read or is not valid TOML.
    """
    try:
        return flatten(tomllib.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        problem = Problem("config", f"{path} cannot be read: {error.strerror}", "check the path")
    except UnicodeDecodeError:
        problem = Problem("config", f"{path} is not a text file", "give a TOML file")
    except RecursionError:
        problem = Problem("config", f"{path} is nested too deeply", "see laser train --help")
    except tomllib.TOMLDecodeError as error:
        problem = Problem("config", f"{path} is not valid TOML: {error}", "text values need quotes, lists brackets")
    raise ConfigError([problem])
