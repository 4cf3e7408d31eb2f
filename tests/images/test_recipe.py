"""The digest of an image: the same for the same contents, another for anything that changes them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tools.images import build, recipe

CONTAINERFILE = """
ARG BASE=docker.io/library/python:3.13-slim
FROM ${BASE} AS code
# COPY nothing /here
COPY pyproject.toml \\
     LICENSE /src/
COPY --chown=1:1 api /src/api
FROM ${BASE}
ARG INDEX=
COPY constraints.txt /
COPY --from=code /code /opt
"""


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with one image."""
    (tmp_path / "images" / "small").mkdir(parents=True)
    (tmp_path / "images" / "small" / "Containerfile").write_text(CONTAINERFILE)
    (tmp_path / "pyproject.toml").write_text("[project]\n")
    (tmp_path / "LICENSE").write_text("free\n")
    (tmp_path / "constraints.txt").write_text("a==1\n")
    (tmp_path / "api" / "inner").mkdir(parents=True)
    (tmp_path / "api" / "inner" / "a.py").write_text("a = 1\n")
    monkeypatch.setattr(recipe, "ROOT", tmp_path)
    monkeypatch.setattr(recipe, "IMAGES", tmp_path / "images")
    return tmp_path


def digest(base: str = "b", tag: str = "dev", code: bool = True, **arguments: str) -> str:
    """Of the image as its Containerfile is now."""
    return recipe.digest(recipe.read("small"), base, tag, arguments, code)


def test_a_recipe_is_read(root: Path) -> None:
    small = recipe.read("small")
    assert small.sources() == ["LICENSE", "api", "constraints.txt", "pyproject.toml"]
    assert small.sources(code=False) == ["constraints.txt"]
    assert (small.base, small.target) == ("docker.io/library/python:3.13-slim", None)


def test_stages_named_worker_are_images(root: Path) -> None:
    (root / "images" / "worker").mkdir()
    text = CONTAINERFILE.replace("FROM ${BASE}\n", "FROM ${BASE} AS worker-one\nFROM ${BASE} AS worker-two\n")
    (root / "images" / "worker" / "Containerfile").write_text(text)
    assert recipe.names() == ["small", "worker-one", "worker-two"]
    assert recipe.read("worker-two").target == "worker-two"


def test_our_code_is_told_from_what_is_below_it(root: Path) -> None:
    before, below = digest(), digest(code=False)
    (root / "api" / "inner" / "a.py").write_text("a = 2\n")
    assert digest() != before
    assert digest(code=False) == below
    assert digest(base="c", code=False) != below


@pytest.mark.parametrize("name", recipe.names())
def test_locked_packages_are_below_our_code(name: str) -> None:
    below = recipe.read(name).sources(code=False)
    assert any(source.startswith("locks/") for source in below)
    assert "api" not in below
    assert "api" in recipe.read(name).sources()


def test_a_quick_build_leaves_out_what_needs_packages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SCALECURVE_CACHE", str(tmp_path))
    assert build.build(["worker-mpi"], if_quick=True) == {}
    assert "worker-mpi: skipped: its packages would have to be installed first" in capsys.readouterr().err


def test_an_unknown_image_is_refused_with_those_there_are() -> None:
    with pytest.raises(
        recipe.RecipeError, match="no image named 'worker'; there are operator, worker-horovod, worker-mpi"
    ):
        recipe.read("worker")


def test_a_copy_of_nothing_is_refused(root: Path) -> None:
    shutil.rmtree(root / "api")
    with pytest.raises(recipe.RecipeError, match="COPY api: not in"):
        digest()


def test_what_tools_leave_behind_changes_nothing(root: Path) -> None:
    before = digest()
    (root / "api" / "__pycache__").mkdir()
    (root / "api" / "__pycache__" / "a.pyc").write_bytes(b"x")
    (root / "README.md").write_text("not copied\n")
    (root / "api" / "inner" / "a.py").touch()
    assert digest() == before


def test_everything_that_goes_in_counts(root: Path) -> None:
    digests = [digest()]
    source = root / "api" / "inner" / "a.py"
    source.write_text("a = 2\n")
    digests.append(digest())
    source.chmod(0o755)
    digests.append(digest())
    source.rename(source.with_name("b.py"))
    digests.append(digest())
    (root / "images" / "small" / "Containerfile").write_text(CONTAINERFILE + "USER 1\n")
    digests += [digest(), digest(base="c"), digest(tag="v1"), digest(TORCH="torch==2"), digest(TORCH="", A="b")]
    assert len(set(digests)) == len(digests)
    assert digest(A="b", TORCH="") == digests[-1]


def test_archives_lie_in_the_cache_by_digest(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SCALECURVE_CACHE", str(tmp_path))
    archive = build.built("worker-mpi")
    assert archive.name == "worker-mpi.tar"
    assert archive.parent.parent == tmp_path / "images"
    assert build.built("worker-mpi", tag="v1") != archive != build.built("worker-mpi", base="docker.io/library/x")


def test_a_built_image_chooses_the_base(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SCALECURVE_CACHE", str(tmp_path))
    archive = build.built("operator", build.DEBOOTSTRAP)
    archive.parent.mkdir(parents=True)
    archive.write_bytes(b"")
    assert build.choose_base(build.AUTO, ["operator"], build.TAG, {}) == build.DEBOOTSTRAP
    assert build.choose_base("other", ["operator"], build.TAG, {}) == "other"
    monkeypatch.setattr(build, "buildah", lambda *_: pytest.fail("a second build has nothing to do"))
    assert build.build(["operator"]) == {"operator": archive}
