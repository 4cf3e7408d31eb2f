"""What is installed is pinned, with digests, and from no particular registry."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
LOCKS = sorted((ROOT / "locks").glob("*.txt"))
EXTRAS = {
    "runtime": ["torch"],
    "mpi": ["torch", "mpi"],
    "dev": ["torch", "dev"],
    "cluster": ["cluster"],
    "docs": ["docs"],
    "integrations": ["integrations"],
}


def pinned(lock: Path) -> dict[str, str]:
    """Name and version of everything in a lock or a constraints file."""
    lines = lock.read_text(encoding="utf-8").splitlines()
    return dict(re.findall(r"^([\w.-]+)==([^\s;]+)", "\n".join(lines), flags=re.MULTILINE))


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.stem)
def test_every_package_has_its_digests(lock: Path):
    text = lock.read_text(encoding="utf-8")
    entries = re.split(r"\n(?=\S)", text)
    assert entries
    assert [entry for entry in entries if "==" not in entry or "--hash=sha256:" not in entry] == []
    assert "://" not in text


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.stem)
def test_locks_agree_with_the_constraints(lock: Path):
    constraints: dict[str, str] = {}
    for path in ROOT.glob("constraints*.txt"):
        constraints |= pinned(path)
    differing = {name: version for name, version in pinned(lock).items() if constraints.get(name, version) != version}
    assert differing == {}, "run `make lock`"


@pytest.mark.parametrize("name", EXTRAS)
def test_a_lock_holds_what_its_extras_ask_for(name: str):
    asked = [*PROJECT["dependencies"]]
    asked += [line for extra in EXTRAS[name] for line in PROJECT["optional-dependencies"][extra]]
    names = {re.split(r"[<>=\[ ;]", line)[0] for line in asked} - {"torch"}  # torch's build is the user's choice
    assert names - set(pinned(ROOT / "locks" / f"{name}.txt")) == set(), "run `make lock`"
