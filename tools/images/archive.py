"""An OCI archive of an image in buildah's storage, with its layers uncompressed: a node unpacks them a moment later.

`buildah push` compresses whatever it is told (1.28), and `buildah commit` writes every layer three times: minutes, and
twice 6 GB of disk at the side, for a worker-torch of which one file has changed. Here a layer is copied from an earlier
archive of the image, if it is there, or else put together once from what the storage keeps of it: its files, and the
bytes of the tar between them (tar-split, github.com/vbatts/tar-split; folders as containers/storage has them). Each
layer that is put together is held against its digest.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

_CHUNK = 4 << 20
_FILE, _BETWEEN = 1, 2
"""kinds of entries of a tar-split"""


class ArchiveError(RuntimeError):
    """A storage that does not hold what it should."""


def write(storage: Path, image: str, path: Path, earlier: Path | None = None) -> None:
    """Write the archive of the image of that name; ``earlier`` is an archive that may have some of its layers.

    Raises:
        ArchiveError: the image or a layer is not in the storage, or a layer is not what its digest says.
    """
    found = _entry(json.loads((storage / "overlay-images" / "images.json").read_text()), image)
    folder = storage / "overlay-images" / found["id"]
    manifest = (folder / "manifest").read_bytes()
    config = (folder / _file_of(f"sha256:{found['id']}")).read_bytes()
    layers = _layers(storage, found["layer"])
    with (
        tarfile.open(earlier) if earlier else nullcontext() as kept,
        tarfile.open(path, "w", format=tarfile.GNU_FORMAT, copybufsize=_CHUNK) as archive,
    ):
        _add(archive, "oci-layout", b'{"imageLayoutVersion":"1.0.0"}')
        _add(archive, "index.json", _index(manifest, image))
        for content in (manifest, config):
            _add(archive, f"blobs/sha256/{hashlib.sha256(content).hexdigest()}", content)
        for digest in dict.fromkeys(layer["digest"] for layer in json.loads(manifest)["layers"]):
            if digest not in layers:
                raise ArchiveError(f"{image}: no layer {digest} in {storage}")
            _add_layer(archive, storage, layers[digest], kept)


def _entry(images: list[dict[str, Any]], image: str) -> dict[str, Any]:
    for each in images:
        if image in (each.get("names") or ()):
            return each
    raise ArchiveError(f"{image}: not in the storage of images")


def _file_of(key: str) -> str:
    """The file of a key that is more than small letters, digits and dots."""
    return "=" + base64.b64encode(key.encode()).decode()


def _layers(storage: Path, top: str) -> dict[str, dict[str, Any]]:
    """Digest → layer, of the layer ``top`` and all below it."""
    every = {each["id"]: each for each in json.loads((storage / "overlay-layers" / "layers.json").read_text())}
    found, layer = {}, every.get(top)
    while layer:
        found[layer["diff-digest"]] = layer
        layer = every.get(layer.get("parent"))
    return found


def _index(manifest: bytes, image: str) -> bytes:
    described = {
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "digest": f"sha256:{hashlib.sha256(manifest).hexdigest()}",
        "size": len(manifest),
        "annotations": {"org.opencontainers.image.ref.name": image},
    }
    return json.dumps({"schemaVersion": 2, "manifests": [described]}).encode()


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size = len(content)
    archive.addfile(entry, io.BytesIO(content))


def _add_layer(
    archive: tarfile.TarFile, storage: Path, layer: Mapping[str, Any], earlier: tarfile.TarFile | None
) -> None:
    digest = layer["diff-digest"].removeprefix("sha256:")
    entry = tarfile.TarInfo(f"blobs/sha256/{digest}")
    entry.size = layer["diff-size"]
    if earlier and entry.name in earlier.getnames():
        archive.addfile(entry, earlier.extractfile(entry.name))
        return
    whole = hashlib.sha256()
    archive.addfile(entry, _Stream(_parts(storage, layer["id"]), whole.update))  # type: ignore[arg-type]
    if whole.hexdigest() != digest:
        raise ArchiveError(f"layer {layer['id']} in {storage}: not what its digest {digest} says")


def _parts(storage: Path, layer: str) -> Iterator[bytes]:
    """The tar of a layer, piece by piece."""
    files = storage / "overlay" / layer / "diff"
    with gzip.open(storage / "overlay-layers" / f"{layer}.tar-split.gz") as entries:
        for line in entries:
            entry = json.loads(line)
            if entry["type"] == _BETWEEN:
                yield base64.b64decode(entry["payload"])
            elif entry["type"] == _FILE and entry.get("size"):
                yield from _content(files, entry)


def _content(files: Path, entry: Mapping[str, Any]) -> Iterator[bytes]:
    raw = entry.get("name_raw")  # where the name is no UTF-8
    name = base64.b64decode(raw).decode(errors="surrogateescape") if raw else entry["name"]
    with (files / name.lstrip("/")).open("rb") as file:
        while part := file.read(_CHUNK):
            yield part


class _Stream:
    """Pieces as a file to read, each told to ``seen`` once."""

    def __init__(self, parts: Iterator[bytes], seen: Callable[[bytes], None]) -> None:
        self._parts, self._seen = parts, seen
        self._rest = b""

    def read(self, size: int) -> bytes:
        """At most ``size`` bytes; fewer only at the end."""
        found = bytearray(self._rest)
        while len(found) < size and (part := next(self._parts, b"")):
            self._seen(part)
            found += part
        self._rest = bytes(found[size:])
        return bytes(found[:size])
