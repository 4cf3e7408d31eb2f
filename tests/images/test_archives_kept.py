"""Archives that are kept: one for each name and tag, and build arguments make a tag. Real images, of two files each."""

from __future__ import annotations

import json
import shutil
import tarfile
from pathlib import Path

import pytest

from tools.images import bill, build, recipe

pytestmark = pytest.mark.processes
CONTAINERFILE = """\
ARG BASE=docker.io/library/python:3.13-slim
FROM ${BASE} AS code
COPY code /
FROM ${BASE}
ARG WITH=
COPY packages /
ENV WITH=${WITH}
COPY --from=code /code /
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with one image, which has nothing below it, and a cache of its own."""
    if why := build.lacking("scratch"):
        pytest.skip(why)
    if not shutil.which("buildah"):
        pytest.skip("needs buildah, which `make images` installs")
    (tmp_path / "images" / "small").mkdir(parents=True)
    (tmp_path / "images" / "containerignore").touch()
    (tmp_path / "images" / "small" / "Containerfile").write_text(CONTAINERFILE)
    (tmp_path / "packages").write_text("one")
    (tmp_path / "code").write_text("one")
    monkeypatch.setattr(recipe, "ROOT", tmp_path)
    monkeypatch.setattr(recipe, "IMAGES", tmp_path / "images")
    monkeypatch.setenv("SCALECURVE_CACHE", str(tmp_path / "cache"))
    # The bill of an image without Python and without Debian packages cannot be written.
    monkeypatch.setattr(bill, "write", lambda *_: None)
    return tmp_path


def make(*arguments: str) -> int:
    return build.main(["small", "--base", "scratch", *arguments])


def there() -> set[str]:
    """What the images are called that have an archive in the cache, as their indexes say."""
    found = set()
    for path in build.cache().glob("small-*/small.tar"):
        with tarfile.open(path) as archive:
            index = archive.extractfile("index.json")
            assert index is not None
            (image,) = json.load(index)["manifests"]
            found.add(image["annotations"]["org.opencontainers.image.ref.name"])
    return found


def test_an_image_with_arguments_stands_beside_the_plain_one(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    plain, other = build.reference("small"), build.reference("small", build.tag_of({"WITH": "more"}))
    assert plain != other
    assert make() == make("--build-arg", "WITH=more") == 0
    assert there() == {plain, other}
    first = build.built("small", "scratch")
    assert first.exists()
    # The base may be given as an argument too, which makes no other image of it.
    assert build.main(["small", "--build-arg", "BASE=scratch"]) == 0
    assert str(first) in capfd.readouterr().out

    # A change replaces the archive of that name and tag alone, ...
    (folder / "code").write_text("two")
    assert make() == 0
    assert not first.exists()
    assert build.built("small", "scratch").exists()
    assert there() == {plain, other}

    # ... and only code has changed for each of them, until packages do.
    (folder / "packages").write_text("two")
    assert make("--if-quick", "--build-arg", "WITH=more") == 0
    assert "skipped: its packages" in capfd.readouterr().err
    (folder / "packages").write_text("one")
    assert make("--if-quick", "--build-arg", "WITH=more") == 0
    assert "skipped: its packages" not in capfd.readouterr().err
    assert there() == {plain, other}
