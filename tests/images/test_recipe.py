"""The digest of an image: the same for the same contents, another for anything that changes them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tools.images import build, containerfile, recipe

CONTAINERFILE = """
ARG BASE=docker.io/library/python:3.13-slim
FROM ${BASE} AS code
# COPY nothing /here
COPY pyproject.toml \\
     LICENSE /src/
COPY --chown=1:1 api /src/api
FROM ${BASE}
ARG INDEX=
RUN echo one \\
 && echo two
COPY --from=code /code /opt
"""


@pytest.fixture
def small(tmp_path: Path) -> recipe.Recipe:
    (tmp_path / "images" / "small").mkdir(parents=True)
    (tmp_path / "images" / "small" / "Containerfile").write_text(CONTAINERFILE)
    (tmp_path / "pyproject.toml").write_text("[project]\n")
    (tmp_path / "LICENSE").write_text("free\n")
    (tmp_path / "api" / "inner").mkdir(parents=True)
    (tmp_path / "api" / "inner" / "a.py").write_text("a = 1\n")
    return recipe.read("small", tmp_path / "images")


def digest(small: recipe.Recipe, base: str = "b", tag: str = "dev", code: bool = True, **arguments: str) -> str:
    """Of the image as its Containerfile is now."""
    root = small.path.parents[2]
    return recipe.digest(recipe.read(small.name, root / "images"), base, tag, arguments, root, code)


def test_a_recipe_is_read(small: recipe.Recipe) -> None:
    assert small.sources == ["pyproject.toml", "LICENSE", "api"]
    assert small.arguments == {"BASE": "docker.io/library/python:3.13-slim", "INDEX": ""}
    assert dict(containerfile.instructions(CONTAINERFILE))["RUN"].split() == ["echo", "one", "&&", "echo", "two"]


SEVERAL = """
ARG BASE=docker.io/library/python:3.13-slim
FROM ${BASE} AS code
COPY api /code
FROM ${BASE} AS packages
ARG TORCH=
COPY constraints.txt /
FROM packages AS worker-more
ARG MORE=
COPY LICENSE /
COPY --from=code /code /code
FROM packages
COPY --from=code /code /code
USER 1
"""


def test_an_image_is_made_of_the_stages_that_it_needs(tmp_path: Path) -> None:
    (tmp_path / "worker-some").mkdir()
    (tmp_path / "worker-some" / "Containerfile").write_text(SEVERAL)
    some, more = recipe.read("worker-some", tmp_path), recipe.read("worker-more", tmp_path)
    assert [stage.name for stage in some.stages] == ["", "code", "packages", ""]
    assert [stage.name for stage in more.stages] == ["", "code", "packages", "worker-more"]
    assert (some.sources, more.sources) == (["api", "constraints.txt"], ["api", "constraints.txt", "LICENSE"])
    assert set(more.arguments) - set(some.arguments) == {"MORE"}
    assert ("USER", "1") in some.instructions
    assert ("USER", "1") not in more.instructions


def test_our_code_is_told_from_what_is_below_it(small: recipe.Recipe) -> None:
    assert small.code == ["pyproject.toml", "LICENSE", "api"]
    before, below = digest(small), digest(small, code=False)
    (small.path.parents[2] / "api" / "inner" / "a.py").write_text("a = 2\n")
    assert digest(small) != before
    assert digest(small, code=False) == below
    assert digest(small, base="c", code=False) != below


@pytest.mark.parametrize("name", recipe.names())
def test_locked_packages_are_below_our_code(name: str) -> None:
    found = recipe.read(name)
    below = {*found.sources} - {*found.code}
    assert any(source.startswith("locks/") for source in below)
    assert "api" in {*found.code}


def test_a_quick_build_leaves_out_what_needs_packages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SCALECURVE_CACHE", str(tmp_path))
    assert build.build(["worker-mpi"], if_quick=True) == {}
    assert "worker-mpi: left out, for its packages would have to be installed first" in capsys.readouterr().err


def test_an_unknown_image_is_refused_with_those_there_are() -> None:
    with pytest.raises(
        recipe.RecipeError, match="no image named 'worker'; there are operator, worker-horovod, worker-mpi"
    ):
        recipe.read("worker")


def test_a_copy_of_nothing_is_refused(small: recipe.Recipe) -> None:
    shutil.rmtree(small.path.parents[2] / "api")
    with pytest.raises(recipe.RecipeError, match="COPY api: not in"):
        digest(small)


def test_what_tools_leave_behind_changes_nothing(small: recipe.Recipe) -> None:
    before, root = digest(small), small.path.parents[2]
    (root / "api" / "__pycache__").mkdir()
    (root / "api" / "__pycache__" / "a.pyc").write_bytes(b"x")
    (root / "README.md").write_text("not copied\n")
    (root / "api" / "inner" / "a.py").touch()
    assert digest(small) == before


def test_everything_that_goes_in_counts(small: recipe.Recipe) -> None:
    root, found = small.path.parents[2], [digest(small)]
    source = root / "api" / "inner" / "a.py"
    source.write_text("a = 2\n")
    found.append(digest(small))
    source.chmod(0o755)
    found.append(digest(small))
    source.rename(source.with_name("b.py"))
    found.append(digest(small))
    small.path.write_text(CONTAINERFILE + "USER 1\n")
    found += [digest(small), digest(small, base="c"), digest(small, tag="v1"), digest(small, TORCH="torch==2")]
    assert len(set(found)) == len(found)


@settings(deadline=None)
@given(st.dictionaries(st.text("AB", min_size=1), st.text("01="), max_size=3), st.text("ab"), st.text("ab", min_size=1))
def test_arguments_do_not_run_into_one_another(arguments: dict[str, str], base: str, tag: str) -> None:
    bare = recipe.Recipe("bare", recipe.IMAGES / "containerignore", ())
    found = recipe.digest(bare, base, tag, arguments)
    assert found == recipe.digest(bare, base, tag, dict(reversed(arguments.items())))
    assert found != recipe.digest(bare, base + tag, "", arguments)
    assert found != recipe.digest(bare, base, tag, {**arguments, "C": ""})


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
