"""Entries by name, from the project's own table and from the entry points of installed packages."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import pytest

from scalecurve_api.programs.imported import ImportedWorkload
from scalecurve_api.programs.workload import PROGRAMS, Workload
from scalecurve_api.registry import Registry, RegistryError

GROUP = "scalecurve.test_numbers"


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


def install(site: Path, package: str, entries: dict[str, str], code: str) -> None:
    """Put a package with entry points where Python finds it."""
    (site / f"{package}.py").write_text(code)
    folder = site / f"{package}-1.5.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.5\n")
    lines = [f"[{GROUP}]", *(f"{name} = {target}" for name, target in entries.items())]
    (folder / "entry_points.txt").write_text("\n".join(lines) + "\n")


def numbers() -> Registry[Fraction]:
    built_in: dict[str, str | Fraction] = {"half": Fraction(1, 2), "clock": "time:time_ns", "gone": "nowhere:X"}
    return Registry(GROUP, "number", Fraction, built_in)


def test_built_in_entries_are_imported_when_they_are_looked_up() -> None:
    registry = numbers()
    assert registry.get("half") == Fraction(1, 2)
    assert callable(registry.get("clock"))
    assert registry.names() == ("half", "clock", "gone")
    with pytest.raises(ImportError):
        registry.get("gone")


def test_an_installed_package_adds_entries(site: Path) -> None:
    code = "from fractions import Fraction\nTHIRD = Fraction(1, 3)\n"
    install(site, "more_numbers", {"third": "more_numbers:THIRD"}, code)
    registry = numbers()
    assert "third" in registry
    assert "more_numbers" not in sys.modules, "not before it is looked up"
    assert registry.get("third") is registry.get("third") == Fraction(1, 3)
    assert registry.names()[-1] == "third"


def test_an_unknown_name_gets_a_suggestion() -> None:
    with pytest.raises(RegistryError, match=r"unknown number 'hlf'; did you mean 'half'\? \(registered: half, clock"):
        numbers().get("hlf")


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        ("raise OSError('no such library')", "cannot be loaded: OSError: no such library"),
        ("", "cannot be loaded: AttributeError: module 'bad_numbers' has no attribute 'X'"),
        ("X = 'text'", "is no number: expected fractions.Fraction, got 'text'"),
    ],
)
def test_a_broken_package_is_named_and_spares_the_others(site: Path, code: str, reason: str) -> None:
    install(site, "bad_numbers", {"bad": "bad_numbers:X"}, code)
    registry = numbers()
    with pytest.raises(RegistryError) as caught:
        registry.get("bad")
    where = f"entry point {GROUP}:bad = bad_numbers:X (bad_numbers 1.5) "
    assert str(caught.value) == where + reason
    assert registry.get("half")


def test_a_built_in_name_cannot_be_taken(site: Path) -> None:
    install(site, "rival", {"half": "rival:X"}, "X = 1")
    registry = numbers()
    with pytest.warns(UserWarning, match=r"rival 1\.5\) is ignored: number 'half' is the built-in one"):
        assert registry.names() == ("half", "clock", "gone")
    assert registry.get("half") == Fraction(1, 2)


def test_the_first_of_two_packages_has_the_name(site: Path) -> None:
    code = "from fractions import Fraction\nX = Fraction(2)\n"
    install(site, "one_package", {"two": "one_package:X"}, code)
    install(site, "other_package", {"two": "other_package:X"}, code)
    registry = numbers()
    with pytest.warns(UserWarning, match=r"other_package:X .* is ignored: number 'two' is entry point .*one_package:X"):
        assert registry.get("two") == 2


def test_unlisted_entries_are_found_by_name_and_offered_to_nobody() -> None:
    registry = Registry(GROUP, "number", Fraction, {"half": Fraction(1, 2)}, {"third": Fraction(1, 3)})
    assert "third" in registry
    assert registry.get("third") == Fraction(1, 3)
    assert registry.names() == ("half",)
    with pytest.raises(RegistryError, match=r"\(registered: half\)"):
        registry.get("fourth")


def test_an_imported_workload_is_read_and_never_offered() -> None:
    """Bundles have it, and no experiment of a user, on the command line or on a cluster, may."""
    workload = Workload.model_validate({"program": "imported", "model": "x", "parameters": {"device": "T4"}})
    assert isinstance(workload, ImportedWorkload)
    assert "imported" not in PROGRAMS.names()
    (problem,) = workload.problems(workers=2, nodes=1)
    assert problem.path == ("spec", "workload", "program")
