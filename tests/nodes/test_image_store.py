"""The store of unpacked images: what is loaded once, replaced, shared, refused."""

from __future__ import annotations

import hashlib
import io
import json
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest

from tools.devcluster.nodes import image_store, machine, small_images
from tools.devcluster.nodes.image_store import Store


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    if why := machine.lacking():
        pytest.skip(why)
    return Store(tmp_path / "store")


def archive(tmp_path: Path, said: str) -> Path:
    """Of an image `localhost/test:dev` whose one file says this."""
    file = tmp_path / "file"
    file.write_text(said)
    made = small_images.archive("localhost/test:dev", {"file": file}, {}, tmp_path)
    return made.rename(tmp_path / f"{said}.tar")


def said_in(folder: Path) -> set[str]:
    return {file.read_text() for file in folder.glob("*overlayfs/snapshots/*/fs/file")}


def test_an_image_is_unpacked_once_and_shared(store: Store, tmp_path: Path) -> None:
    first = archive(tmp_path, "first")
    assert store.add([first]) == [small_images.PAUSE, "localhost/test:dev"]
    written = (store.folder / "loaded.json").stat().st_mtime_ns
    assert store.add([first]) == [small_images.PAUSE, "localhost/test:dev"]
    assert (store.folder / "loaded.json").stat().st_mtime_ns == written
    for name in ("a", "b"):
        store.copy(tmp_path / name)
        assert said_in(tmp_path / name) == {"first"}
    blobs = list((tmp_path / "a").glob("*content/blobs/sha256/*"))
    assert all(blob.stat().st_nlink == 3 for blob in blobs)
    assert max(blob.stat().st_size for blob in blobs) < 10_000, "layers as they came are not kept"
    databases = [*(tmp_path / "a").glob("*/*.db")]
    assert [database.name for database in databases if database.stat().st_nlink == 1] == [
        each.name for each in databases
    ]
    assert {database.name for database in databases} == {"meta.db", "metadata.db"}


def test_a_later_archive_takes_the_name(store: Store, tmp_path: Path) -> None:
    store.add([archive(tmp_path, "first")])
    store.copy(tmp_path / "before")
    assert store.add([archive(tmp_path, "second")]) == [small_images.PAUSE, "localhost/test:dev"]
    store.copy(tmp_path / "after")
    assert said_in(tmp_path / "after") == {"second"}
    assert said_in(tmp_path / "before") == {"first"}
    # The first one is not there any more, whatever its file was loaded as.
    assert store.add([tmp_path / "first.tar"]) == [small_images.PAUSE, "localhost/test:dev"]
    store.copy(tmp_path / "again")
    assert said_in(tmp_path / "again") == {"first"}


def in_two_layers(tmp_path: Path, code: str) -> Path:
    """An OCI archive of `localhost/two:dev`: a layer of ten megabytes, and one of code over it."""
    made, blobs = tmp_path / f"{code}-oci.tar", {}

    def blob(content: bytes) -> str:
        digest = hashlib.sha256(content).hexdigest()
        blobs[f"blobs/sha256/{digest}"] = content
        return f"sha256:{digest}"

    def layer(name: str, content: bytes) -> tuple[str, int]:
        written = io.BytesIO()
        with tarfile.open(fileobj=written, mode="w") as tar:
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
        return blob(written.getvalue()), len(written.getvalue())

    layers = [layer("large", b"l" * 10_000_000), layer("file", code.encode())]
    config = json.dumps(
        {
            "architecture": "amd64",
            "os": "linux",
            "config": {},
            "rootfs": {"type": "layers", "diff_ids": [digest for digest, _ in layers]},
        }
    ).encode()
    described = [
        {"mediaType": "application/vnd.oci.image.layer.v1.tar", "digest": digest, "size": size}
        for digest, size in layers
    ]
    manifest = json.dumps(
        {
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": {
                "mediaType": "application/vnd.oci.image.config.v1+json",
                "digest": blob(config),
                "size": len(config),
            },
            "layers": described,
        }
    ).encode()
    index = {
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "digest": blob(manifest),
        "size": len(manifest),
        "annotations": {"org.opencontainers.image.ref.name": "localhost/two:dev"},
    }
    blobs["oci-layout"] = b'{"imageLayoutVersion":"1.0.0"}'
    blobs["index.json"] = json.dumps({"schemaVersion": 2, "manifests": [index]}).encode()
    with tarfile.open(made, "w") as tar:
        for name, content in blobs.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return made


def test_layers_that_are_unpacked_are_not_read_again(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left_out: list[int] = []
    known = image_store.find_known_layers

    def noted(*given: Any) -> set[str]:
        found = known(*given)
        left_out.append(len(found))
        return found

    monkeypatch.setattr(image_store, "find_known_layers", noted)
    store.add([in_two_layers(tmp_path, "first")])
    assert store.add([in_two_layers(tmp_path, "second")]) == [small_images.PAUSE, "localhost/two:dev"]
    assert left_out == [0, 0, 1]  # pause, the first image whole, the second without its large layer
    store.copy(tmp_path / "node")
    assert said_in(tmp_path / "node") == {"second"}
    assert [file.stat().st_size for file in (tmp_path / "node").glob("*overlayfs/snapshots/*/fs/large")] == [10_000_000]


def test_what_is_no_archive_is_refused(store: Store, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="absent"):
        store.add([tmp_path / "absent.tar"])
    (tmp_path / "text.tar").write_text("no archive")
    with pytest.raises(ValueError, match="text"):
        store.add([tmp_path / "text.tar"])
    assert subprocess.run(["grep", "-c", str(tmp_path), "/proc/self/mounts"], capture_output=True).stdout == b"0\n"
