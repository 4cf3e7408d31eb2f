"""Images of one static program, made without a builder: `pause`, which every pod needs, and busybox, for tests."""

import hashlib
import io
import json
import os
import shutil
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tools.devcluster import toolchain

PAUSE = "localhost/scalecurve/pause:dev"
BUSYBOX = "localhost/scalecurve/busybox:dev"
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def pause() -> Path:
    """An archive of the image `PAUSE`: our own program, and nothing else."""
    return archive(PAUSE, {"pause": toolchain.binary("pause")}, {"Entrypoint": ["/pause"]})


def busybox() -> Path:
    """An archive of the image `BUSYBOX`: this machine's busybox. Raises FileNotFoundError without a static one."""
    program = Path(shutil.which("busybox") or "busybox")
    if b"ld-linux" in program.read_bytes()[:4096]:  # where the name of the loader is, if it has one
        raise FileNotFoundError(f"{program}: needs shared libraries; install Debian's busybox-static")
    shell = {"bin/busybox": program, "bin/sh": program}
    return archive(BUSYBOX, shell, {"Env": ["PATH=/bin"], "Cmd": ["sh"]})


def archive(name: str, programs: Mapping[str, Path], config: Mapping[str, Any], folder: Path | None = None) -> Path:
    """A docker archive of one layer, in `folder` or the build cache, under the digest of its content."""
    layer = _tar({where: program.read_bytes() for where, program in programs.items()})
    digest = hashlib.sha256(layer).hexdigest()
    short = name.rpartition("/")[2].partition(":")[0]
    written = (folder or toolchain.cache() / "images") / f"{short}-{digest[:12]}" / f"{short}.tar"
    if not written.exists():
        architecture = _ARCHITECTURES.get(os.uname().machine, os.uname().machine)
        rootfs = {"type": "layers", "diff_ids": [f"sha256:{digest}"]}
        described = {"architecture": architecture, "os": "linux", "rootfs": rootfs, "config": config}
        manifest = [{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]
        documents = {"manifest.json": json.dumps(manifest).encode(), "config.json": json.dumps(described).encode()}
        written.parent.mkdir(parents=True, exist_ok=True)
        partial = written.with_suffix(".partial")
        partial.write_bytes(_tar({**documents, "layer.tar": layer}))
        partial.rename(written)
    return written


def _tar(files: Mapping[str, bytes]) -> bytes:
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w") as tar:
        for folder in sorted({str(Path(name).parent) for name in files} | {"tmp"} - {"."}):
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if folder == "tmp" else 0o755
            tar.addfile(entry)
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), 0o755
            tar.addfile(entry, io.BytesIO(content))
    return written.getvalue()
