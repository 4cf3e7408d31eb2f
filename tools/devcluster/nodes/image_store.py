"""Images for nodes: unpacked once for all nodes and all runs, so that a node has five gigabytes of them in a second.

The store is a folder as containerd keeps it, in the build cache. A node's copy has databases of its own and shares the
rest by hard links: blobs and the files of unpacked layers. Both are written once and never changed in place: a
container's writes go to a layer of its own (overlayfs copies a file up before it changes), and what one node
deletes keeps its other names. Layers that two images share are there once. Each image name is there once: the archive
that was loaded last has it.

Of an OCI archive only those layers are read that are not unpacked yet: containerd asks for no others, and a change of
code costs the reading of one small layer in place of six gigabytes. A layer is unpacked where its chain is: the digest
of its files and of all that lie below them (OCI image specification, "Layer ChainID").
"""

import contextlib
import fcntl
import hashlib
import json
import re
import subprocess
import tarfile
import tempfile
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import IO, Any

from tools.devcluster import toolchain
from tools.devcluster.components import Component, output
from tools.devcluster.nodes import small_images
from tools.devcluster.waiting import READY_S
from tools.images import archives as images

DISCARDING = ("--local", "--discard-unpacked-layers")
"""Of `ctr images import`: layers are kept unpacked only."""
_IMPORTED = re.compile(r"^unpacking (\S+) \(", re.MULTILINE)
_KEPT = "localhost/scalecurve/kept:dev"
_COPIED = ("io.containerd.metadata.v1.bolt", "io.containerd.snapshotter.v1.overlayfs/metadata.db")
_SHARED = ("io.containerd.content.v1.content/blobs", "io.containerd.snapshotter.v1.overlayfs/snapshots")
_CHUNK = 4 << 20


def archives_of(chosen: Sequence[str]) -> list[Path]:
    """Archives as they are named: files, or images of this repository; of the latter all that are built, for none.

    Raises ValueError for what is neither.
    """
    if not chosen:
        return [archive for name in images.targets() if (archive := images.built(name))]
    archives = []
    for each in chosen:
        archive = images.built(each) if each in images.targets() else Path(each).absolute()
        if not archive or not archive.exists():
            make = f"`make images IMAGES={each}` builds it" if each in images.targets() else "there is no such archive"
            raise ValueError(f"{each}: {make}; images of this repository are {', '.join(images.targets())}")
        archives.append(archive)
    return archives


class Store:
    """The store in `folder`, by default the one of the build cache. One process at a time may use it."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or toolchain.cache() / "images" / ".store"
        self._root = self.folder / "root"
        self._loaded = self.folder / "loaded.json"
        """image name → which archive it came from"""

    def add(self, archives: Sequence[Path]) -> list[str]:
        """Load what is not there yet; the names of the images of all these archives, and of the pause image.

        Raises FileNotFoundError for an archive that is not there, ValueError for one that names no image.
        """
        names: list[str] = []
        with self._hold_lock():
            for archive in [small_images.pause(), *archives]:
                mark = _mark(archive)
                loaded: dict[str, str] = json.loads(self._loaded.read_text()) if self._loaded.exists() else {}
                found = [name for name, origin in loaded.items() if origin == mark]
                if not found:
                    found = self._load(archive)
                    self._loaded.write_text(json.dumps({**loaded, **dict.fromkeys(found, mark)}, indent=1))
                names += found
        return names

    def _load(self, archive: Path) -> list[str]:
        """Import one archive, with a containerd that does nothing else; the names of its images."""
        with tempfile.TemporaryDirectory(prefix="scalecurve-images-") as folder:
            socket, settings = Path(folder) / "s", Path(folder) / "containerd.toml"
            settings.write_text(
                f'version = 3\nroot = "{self._root}"\nstate = "{folder}/state"\n'
                f'disabled_plugins = ["io.containerd.internal.v1.opt", "io.containerd.grpc.v1.cri"]\n'
                f'[grpc]\naddress = "{socket}"\n'
            )
            ctr = [str(toolchain.binary("ctr")), f"--address={socket}", "--namespace=k8s.io"]

            def answers() -> bool:
                return subprocess.run([*ctr, "version"], capture_output=True, check=False).returncode == 0

            command: list[str | Path] = [toolchain.binary("containerd"), "--config", settings]
            containerd = Component("containerd", command, Path(folder) / "log", answers)
            containerd.start()
            try:
                containerd.wait(READY_S)
                # What an image of the same name has unpacked must stay until this one has it too.
                there = [name for name in output(*ctr, "images", "list", "-q").split() if not name.startswith(_KEPT)]
                kept = {name: f"{_KEPT}-{index}" for index, name in enumerate(there)}
                for name, other in kept.items():
                    output(*ctr, "images", "tag", "--force", name, other)
                chains = output(*ctr, "snapshots", "list").split()
                names = _IMPORTED.findall(
                    _import_archive([*ctr, "images", "import", *DISCARDING, "-"], archive, chains)
                )
                if not names:
                    raise ValueError(f"{archive}: it contains no named image")
                # Layers as they came are not needed any more; they go now, for this containerd ends at once.
                output(*ctr, "images", "tag", "--force", names[0], _KEPT)
                output(*ctr, "images", "rm", "--sync", _KEPT, *kept.values())
            finally:
                containerd.kill()
        return names

    def copy(self, root: Path) -> None:
        """Give a node, whose containerd does not run yet, all images of the store, as its root folder."""
        for part in _SHARED:
            (root / part).parent.mkdir(parents=True, exist_ok=True)
            output("cp", "-al", self._root / part, root / part)
        for part in _COPIED:
            (root / part).parent.mkdir(parents=True, exist_ok=True)
            output("cp", "-a", self._root / part, root / part)

    @contextlib.contextmanager
    def _hold_lock(self) -> Iterator[None]:
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def _mark(archive: Path) -> str:
    """Changes when the archive does."""
    known = archive.resolve(strict=True)
    return f"{known} {known.stat().st_size} {known.stat().st_mtime_ns}"


def _import_archive(command: Sequence[str], archive: Path, chains: Collection[str]) -> str:
    """What the import of an archive says."""
    try:
        leaving_out = find_known_layers(archive, chains)
    except (tarfile.TarError, KeyError) as error:
        raise ValueError(f"{archive}: not an image archive: {error}") from error
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as ctr:
        assert ctr.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it has read enough, or says why it has not
            _copy(archive, ctr.stdin, leaving_out)
        said, errors = ctr.communicate()
    if ctr.returncode:
        raise ValueError(f"{archive}: {errors.decode().strip().splitlines()[-1]}")
    return said.decode()


def find_known_layers(archive: Path, chains: Collection[str]) -> set[str]:
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
    return {layer for layer, chain in zip(layers, _chains(files), strict=True) if chain in chains}


def _copy(archive: Path, to: IO[bytes], leaving_out: Collection[str]) -> None:
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
