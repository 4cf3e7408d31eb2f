"""The bake file, and which archives are of the sources as they are now."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from string import Template

import pytest

from tests.images.containerfile import stages
from tools.images import archives

BAKE = json.loads((archives.ROOT / "images" / "docker-bake.json").read_text())
CONTAINERFILE = """
ARG BASE=docker.io/library/python:3.13-slim
FROM ${BASE} AS code
# COPY nothing /here
COPY pyproject.toml LICENSE /src/
COPY api /src/api
FROM ${BASE}
COPY --from=code /code /opt
"""


def test_every_image_of_a_containerfile_is_a_target() -> None:
    """Stages named `worker-...`, and the last stage of a file without any."""
    found = set()
    for path in archives.ROOT.glob("images/*/Containerfile"):
        names = [stage.name for stage in stages(path.read_text())]
        workers: list[str | None] = [name for name in names if name.startswith("worker-")]
        found |= {(str(path.relative_to(archives.ROOT)), target) for target in workers or [None]}
    assert {(each["dockerfile"], each.get("target")) for each in BAKE["target"].values()} == found
    assert sorted(BAKE["group"]["default"]["targets"]) == sorted(BAKE["target"])


@pytest.mark.parametrize("name", BAKE["target"])
def test_both_builders_give_an_image_one_name(name: str) -> None:
    defaults = {key: each["default"] for key, each in BAKE["variable"].items()}
    assert [Template(tag).substitute(defaults) for tag in BAKE["target"][name]["tags"]] == [archives.reference(name)]
    assert BAKE["target"][name].get("target", name) == name


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with one image, and an archive of it."""
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "docker-bake.json").write_text('{"target": {"small": {"dockerfile": "Containerfile"}}}')
    (tmp_path / "Containerfile").write_text(CONTAINERFILE)
    (tmp_path / "pyproject.toml").write_text("[project]\n")
    (tmp_path / "LICENSE").write_text("free\n")
    (tmp_path / "api" / "inner").mkdir(parents=True)
    (tmp_path / "api" / "inner" / "a.py").write_text("a = 1\n")
    monkeypatch.setattr(archives, "ROOT", tmp_path)
    monkeypatch.setenv("SCALECURVE_CACHE", str(tmp_path / "cache"))
    record = archives.path("small").with_suffix(".json")
    record.parent.mkdir(parents=True)
    record.write_text(json.dumps({"id": "sha256:1", "sources": archives.sources("small")}))
    return tmp_path


def test_what_is_not_copied_changes_nothing(root: Path) -> None:
    (root / "api" / "__pycache__").mkdir()
    (root / "api" / "__pycache__" / "a.pyc").write_bytes(b"x")
    (root / "README.md").write_text("not copied\n")
    (root / "api" / "inner" / "a.py").touch()
    assert archives.built("small") == root / "cache" / "images" / "dev" / "small.tar"
    assert archives.built("small", tag="v1") is None


def test_an_archive_of_other_sources_is_none(root: Path) -> None:
    digests = {archives.sources("small")}
    source = root / "api" / "inner" / "a.py"
    for change in (
        lambda: source.write_text("a = 2\n"),
        lambda: source.rename(source.with_name("b.py")),
        lambda: (root / "LICENSE").write_text("not free\n"),
        lambda: (root / "Containerfile").write_text(CONTAINERFILE + "USER 1\n"),
        lambda: shutil.rmtree(root / "api"),
    ):
        change()
        assert archives.built("small") is None
        digests.add(archives.sources("small"))
    assert len(digests) == 6
