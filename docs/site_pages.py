"""Pages of the documentation's site that are generated from the code: each algorithm, every setting, every preset.

MkDocs calls `on_files` (mkdocs.yml, `hooks`). Nothing is written into the checkout.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import textwrap
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from laser.algorithms import find_algorithms
from laser.algorithms.base import Algorithm, AlgorithmConfig
from launch.presets import TASKS, find_presets, load_preset
from launch.settings.values import Leaf, find_leaves, show

_INDENT = "    "


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages."""
    pages = {"reference/settings.md": settings_page(), "reference/presets.md": presets_page()}
    pages["algorithms/index.md"] = index_of_algorithms()
    pages |= {f"algorithms/{name}.md": algorithm_page(name) for name in find_algorithms()}
    for path, text in pages.items():
        files.append(File.generated(config, path, content=text))
    return files


def algorithm_page(name: str) -> str:
    """Return the page of an algorithm: its loss as its class states it, its settings, and the presets that use it."""
    config = find_algorithms()[name]
    loss = _class_of(config)
    lines = [f"# {name}", "", _about(config), "", _text_of(config), ""]
    if loss is not None:
        lines += [f"## Loss: `{loss.__name__}`", "", _text_of(loss), ""]
        bases = [other for other, kind in find_algorithms().items() if _class_of(kind) in loss.__mro__[1:]]
        lines += (
            [f"It is built on [{bases[0]}]({bases[0]}.md), whose page has the rest of the loss.", ""] if bases else []
        )
    users = [preset for preset in find_presets() if load_preset(preset).algorithm.name == name]
    if users:
        lines += ["## Presets", "", f"{', '.join(f'`{preset}`' for preset in users)}; `laser train {users[0]}`.", ""]
    lines += ["## Settings", "", *_table(_leaves_of(config()))]
    return "\n".join(lines) + "\n"


def index_of_algorithms() -> str:
    """Return the list of algorithms, each with the first line about it."""
    lines = ["# Algorithms", "", "| algorithm | |", "|---|---|"]
    for name, config in find_algorithms().items():
        lines.append(f"| [{name}]({name}.md) | {_about(config)} |")
    return "\n".join(lines) + "\n"


def settings_page() -> str:
    """Return the table of every setting of a run that does not belong to an algorithm, by section."""
    sections: defaultdict[str, list[Leaf]] = defaultdict(list)
    for leaf in find_leaves(load_preset("cartpole")):
        section = leaf.key.rpartition(".")[0]
        if not section.startswith("algorithm"):
            sections[section or "run"].append(leaf)
    lines = [
        "# Settings",
        "",
        "Flags of `laser train`, and keys of its TOML files. Defaults are those of `cartpole`; a preset has",
    ]
    lines += [
        "its own, which `laser train PRESET --help` shows. The settings of algorithms are on",
        "[their pages](../algorithms/index.md).",
    ]
    for section, leaves in sections.items():
        lines += ["", f"## {section}", "", *_table(leaves)]
    return "\n".join(lines) + "\n"


def presets_page() -> str:
    """Return the presets by the kind of their task."""
    about = find_presets()
    lines = ["# Presets", "", "The first of each kind is the one that `laser train --env ID` takes."]
    for task, names in TASKS.items():
        lines += ["", f"## {task}", "", "| preset | |", "|---|---|"]
        lines += [f"| `{name}` | {about[name]} |" for name in names]
    return "\n".join(lines) + "\n"


def _class_of(config: type[AlgorithmConfig]) -> type[Algorithm] | None:
    """Return the class that a config builds, by the type that its `build` declares."""
    name = inspect.signature(config.build).return_annotation
    found = getattr(inspect.getmodule(config.build), str(name), None)
    return found if inspect.isclass(found) and found is not Algorithm else None


def _about(config: type[AlgorithmConfig]) -> str:
    """Return the first line of the file of an algorithm."""
    return (inspect.getmodule(config).__doc__ or "").strip().splitlines()[0]


def _text_of(documented: type) -> str:
    """Return a docstring as Markdown: formulas stay as they are, sections become paragraphs."""
    text = inspect.getdoc(documented) or ""
    text = re.sub(r"(?ms)^Args:\n.*?(?=^\w|\Z)", "", text)
    text = re.sub(r"(?ms)^Raises:\n.*?(?=^\w|\Z)", "", text)
    text = re.sub(
        r"(?ms)^Source:\n(.*?)(?=^\w|\Z)",
        lambda match: f"*Source:* {' '.join(textwrap.dedent(match[1]).split())}\n",
        text,
    )
    return text.strip()


def _leaves_of(config: Any) -> list[Leaf]:
    return [dataclasses.replace(leaf, key=f"algorithm.{leaf.key}") for leaf in find_leaves(config)]


def _table(leaves: Iterable[Leaf]) -> list[str]:
    lines = ["| key | default | |", "|---|---|---|"]
    for leaf in leaves:
        bounds = f" ({leaf.info.bounds})" if leaf.info.bounds else ""
        about = f"{leaf.info.help}{bounds}".replace("|", "\\|").replace("<", "&lt;")
        lines.append(f"| `{leaf.key}` | `{show(leaf.value) or 'none'}` | {about} |")
    return lines
