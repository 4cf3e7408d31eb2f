"""Archives that are kept: one for each name and tag, and build arguments make a tag. Real images, of two files each."""

from __future__ import annotations

import json
import shutil
import tarfile
from pathlib import Path

import pytest

from tools.images import archives, build

pytestmark = pytest.mark.processes
CONTAINERFILE = """\
ARG BASE=docker.io/library/python:3.13-slim
FROM ${BASE} AS code
COPY code /code/
FROM ${BASE}
ARG WITH=
COPY packages /
COPY --from=code /code /opt/code
USER 1:1
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with one image, which has nothing below it, and a cache of its own."""
    if why := build.lacking():
        pytest.skip(why)
    if not shutil.which("buildah"):
        pytest.skip("needs buildah, which `make images` installs")
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "docker-bake.json").write_text('{"target": {"small": {"dockerfile": "Containerfile"}}}')
    (tmp_path / "Containerfile").write_text(CONTAINERFILE)
    (tmp_path / "packages").write_text("one")
    (tmp_path / "code").write_text("one")
    monkeypatch.setattr(archives, "ROOT", tmp_path)
    monkeypatch.setenv("SCALECURVE_CACHE", str(tmp_path / "cache"))
    return tmp_path


def make(*arguments: str) -> int:
    return build.main(["small", "--base", "scratch", *arguments])


def there() -> dict[str, int]:
    """What the images are called that have an archive in the cache, as their indexes say, and when it was written."""
    found = {}
    for path in archives.cache().glob("dev*/small.tar"):
        with tarfile.open(path) as archive:
            index = archive.extractfile("index.json")
            assert index is not None
            (image,) = json.load(index)["manifests"]
            found[image["annotations"]["org.opencontainers.image.ref.name"]] = path.stat().st_mtime_ns
    return found


def test_an_archive_is_written_again_when_its_image_changes(folder: Path) -> None:
    assert make() == make("--build-arg", "WITH=more") == 0
    first = there()
    plain, other = archives.reference("small"), next(name for name in first if name != archives.reference("small"))
    assert set(first) == {plain, other}
    assert archives.built("small")

    # Nothing has changed, though a file is newer: ...
    (folder / "code").touch()
    assert make() == make("--build-arg", "WITH=more") == 0
    assert there() == first

    # ... a change is seen, and replaces the archive of that name and tag alone.
    (folder / "code").write_text("two")
    assert not archives.built("small")
    assert make() == 0
    assert archives.built("small")
    second = there()
    assert second[plain] > first[plain]
    assert second[other] == first[other]

    # The image of the other tag still has its layers.
    (folder / "code").write_text("one")
    assert make("--build-arg", "WITH=more") == 0
    assert there() == second


def test_clean_leaves_nothing(folder: Path) -> None:
    assert make() == make("--clean") == 0
    assert not archives.cache().exists()
