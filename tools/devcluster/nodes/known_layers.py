"""An OCI archive without the layers that are unpacked already: containerd asks for no other, and a change of code costs
the reading of one small layer in place of six gigabytes.

A layer is unpacked where its chain is: the digest of its files and of all that lie below them (OCI image
specification, "Layer ChainID").
"""

import hashlib
import json
import tarfile
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import IO, Any

_CHUNK = 4 << 20


def known(archive: Path, chains: Collection[str]) -> set[str]:
    """Names in the archive of the layers that are unpacked; none for an archive of docker's, or of several images."""
    with tarfile.open(archive) as tar:
        if "index.json" not in tar.getnames():
            return set()
        described = _read(tar, "index.json")["manifests"]
        if len(described) != 1:
            return set()
        manifest = _read(tar, _blob(described[0]["digest"]))
        if "layers" not in manifest:
            return set()
        files = _read(tar, _blob(manifest["config"]["digest"]))["rootfs"]["diff_ids"]
    layers = [_blob(layer["digest"]) for layer in manifest["layers"]]
    unpacked = {layer: chain in chains for layer, chain in zip(layers, _chains(files), strict=True)}
    return {layer for layer, there in unpacked.items() if there}


def copy(archive: Path, to: IO[bytes], leaving_out: Collection[str]) -> None:
    """Write the archive as a tar, without the files of these names."""
    with tarfile.open(archive) as tar, tarfile.open(fileobj=to, mode="w|", bufsize=_CHUNK) as left:
        for entry in tar:
            if entry.name not in leaving_out:
                left.addfile(entry, tar.extractfile(entry) if entry.isfile() else None)


def _chains(files: list[str]) -> Iterator[str]:
    chain = ""
    for digest in files:
        chain = f"sha256:{hashlib.sha256(f'{chain} {digest}'.encode()).hexdigest()}" if chain else digest
        yield chain


def _blob(digest: str) -> str:
    return f"blobs/{digest.replace(':', '/')}"


def _read(tar: tarfile.TarFile, name: str) -> Any:
    file = tar.extractfile(name)
    assert file is not None
    return json.load(file)
