"""The page of the claims: it has every claim, and what it tells a reader to run is there."""

import re
from pathlib import Path

from launch.reproductions.catalogue import find_names

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "claims.md").read_text()


def test_every_claim_stands_on_the_page_with_its_command():
    named = set(re.findall(r"`laser reproduce (claims/[a-z-]+)`", PAGE))
    assert named == {name for name in find_names() if name.startswith("claims/")}


def test_scripts_that_are_gone_are_named_as_what_a_claim_was():
    scripts = re.findall(r"(then )?`(?:python benchmarks/claims/)?(\w+)\.py", PAGE)
    assert len(scripts) > 20
    gone = {name for then, name in scripts if not then and not (ROOT / "benchmarks" / "claims" / f"{name}.py").exists()}
    assert not gone
