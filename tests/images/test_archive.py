"""Archives out of buildah's storage, of images of a few files: whole, the same again, and never with a wrong layer."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

from tools.images import archive, build

IMAGE = "localhost/scalecurve/small:dev"

pytestmark = pytest.mark.processes


class Storage:
    """A storage of buildah's in a folder, with one image of two layers."""

    def __init__(self, folder: Path) -> None:
        self.root, self._folder = folder / "storage", folder
        self._first = self.layer("scratch", "below", {"large": b"l" * 5_000_000, "empty": b"", "döner": b"d"})
        self.image("one")

    def buildah(self, *arguments: str) -> str:
        command = ["buildah", f"--root={self.root}", f"--runroot={self.root}-run", "--storage-driver=overlay"]
        done = subprocess.run([*command, *arguments], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def layer(self, base: str, name: str, files: dict[str, bytes]) -> str:
        """Commit an image of these files over another; its identifier."""
        content = self._folder / name
        content.mkdir(exist_ok=True)
        for file, what in files.items():
            (content / file).write_bytes(what)
        (content / "link").unlink(missing_ok=True)
        (content / "link").hardlink_to(content / next(iter(files)))
        container = self.buildah("from", base)
        self.buildah("add", "--quiet", container, str(content), f"/{name}")
        return self.buildah("commit", "--quiet", "--rm", "--format=oci", container)

    def image(self, code: str) -> None:
        """Tag an image whose last layer has this code."""
        self.buildah("tag", self.layer(self._first, "code", {"code.py": code.encode()}), IMAGE)

    def files_of(self, layer: int) -> Path:
        """The folder with the files of a layer, counted from below."""
        layers = json.loads((self.root / "overlay-layers" / "layers.json").read_text())
        (lowest,) = [each for each in layers if not each.get("parent")]
        chain = [lowest, *(each for each in layers if each.get("parent") == lowest["id"])]
        return self.root / "overlay" / chain[layer]["id"] / "diff"


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    if why := build.lacking():
        pytest.skip(why)
    if not shutil.which("buildah"):
        pytest.skip("needs buildah, which `make images` installs")
    return Storage(tmp_path)


def blobs(path: Path) -> dict[str, bytes]:
    with tarfile.open(path) as tar:
        return {
            each.name.rpartition("/")[2]: file.read()
            for each in tar
            if each.name.startswith("blobs/") and (file := tar.extractfile(each))
        }


def test_an_archive_has_what_buildah_committed(storage: Storage, tmp_path: Path) -> None:
    archive.write(storage.root, IMAGE, tmp_path / "one.tar")
    found = blobs(tmp_path / "one.tar")
    assert {name: hashlib.sha256(content).hexdigest() for name, content in found.items()} == {n: n for n in found}
    container = storage.buildah("from", f"oci-archive:{tmp_path / 'one.tar'}")
    root = Path(storage.buildah("mount", container))
    assert (root / "code" / "code.py").read_text() == "one"
    assert sorted(path.name for path in (root / "below").iterdir()) == ["döner", "empty", "large", "link"]
    assert (root / "below" / "link").read_bytes() == b"l" * 5_000_000
    storage.buildah("rm", container)
    with pytest.raises(archive.ArchiveError, match="localhost/scalecurve/other:dev: not in the storage"):
        archive.write(storage.root, "localhost/scalecurve/other:dev", tmp_path / "other.tar")


def test_layers_of_an_earlier_archive_are_copied(storage: Storage, tmp_path: Path) -> None:
    archive.write(storage.root, IMAGE, tmp_path / "one.tar")
    storage.image("two")
    archive.write(storage.root, IMAGE, tmp_path / "two.tar")
    shutil.rmtree(storage.files_of(0))
    archive.write(storage.root, IMAGE, tmp_path / "again.tar", earlier=tmp_path / "one.tar")
    assert blobs(tmp_path / "again.tar") == blobs(tmp_path / "two.tar")


def test_a_layer_that_is_not_what_it_was_is_refused(storage: Storage, tmp_path: Path) -> None:
    (storage.files_of(0) / "below" / "large").write_bytes(b"L" * 5_000_000)
    with pytest.raises(archive.ArchiveError, match="not what its digest"):
        archive.write(storage.root, IMAGE, tmp_path / "one.tar")
