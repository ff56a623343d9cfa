import textwrap

import pytest

from laser.discovery import find_strategies, find_subclasses, read_first_lines

BASE = """
    '''A base.'''
    from abc import ABC, abstractmethod

    class Base(ABC):
        name = ""

        @abstractmethod
        def act(self): ...
    """
ZEBRA = """
    '''Stripes,
    in two lines.
    '''
    from {package}.base import Base

    class Zebra(Base):
        name = "zebra"

        def act(self): ...
    """
ANT = """
    '''Six legs.'''
    from {package}.base import Base
    from {package}.zebra import Zebra

    class Insect(Zebra):
        name = "insect"

    class Ant(Insect, Base):
        name = "ant"
    """


@pytest.fixture
def package(tmp_path, monkeypatch):
    """The name of a package of three modules, and one more that only says that it was imported."""
    name = f"zoo_of_{tmp_path.name}".replace("-", "_")
    folder = tmp_path / name
    folder.mkdir()
    modules = {"__init__": "", "base": BASE, "zebra": ZEBRA, "ant": ANT}
    for module, text in modules.items():
        (folder / f"{module}.py").write_text(textwrap.dedent(text.format(package=name)), encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    return name


def base_of(package):
    return __import__(f"{package}.base", fromlist=["Base"]).Base


def test_concrete_classes_are_found_by_name_in_the_module_that_defines_them(package):
    found = find_strategies(package, base_of(package))
    assert [kind.name for kind in found] == ["ant", "insect", "zebra"]


def test_every_subclass_is_found_once_and_only_inside_the_package(package):
    base = base_of(package)
    stranger = type("Stranger", (base,), {})
    found = find_subclasses(package, base)
    assert sorted(kind.__name__ for kind in found) == ["Ant", "Insect", "Zebra"]
    assert stranger not in found


def test_first_lines_are_read_without_importing(package, tmp_path):
    (tmp_path / package / "broken.py").write_text("'''Never imported.'''\nraise SystemExit\n", encoding="utf-8")
    lines = read_first_lines(package)
    assert lines == {"ant": "Six legs.", "base": "A base.", "broken": "Never imported.", "zebra": "Stripes,"}
