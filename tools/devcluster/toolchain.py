"""Build the real components that the cluster tests run, once, from pinned Go modules.

Each folder of `upstreams/` is an otherwise empty Go module that requires one upstream module and names its commands as
tools, so that upstreams whose own go.mod has `replace` lines build too (`go install pkg@version` refuses those), and
each keeps its own dependency versions. Two hold a small program of ours. What is built lands in a cache folder named by
the digest of go.mod, go.sum, sources, link flags and tags: a later run on the same machine finds it, a changed pin
builds anew. Standard library only: this runs before anything is installed.

    python -m tools.devcluster.toolchain                 build everything, and say where it is
    python -m tools.devcluster.toolchain helm kwok       build these only
"""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

MODULES = Path(__file__).parent / "upstreams"
KUBERNETES = "1.36.3"
GO = (1, 26)
_WANTED = f"Go {GO[0]}.{GO[1]} builds the cluster's components; tests that need them are skipped"
_STAMP = " ".join(
    f"-X {package}.gitVersion=v{KUBERNETES}"
    for package in ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
)


@dataclass(frozen=True)
class Upstream:
    """One pinned module: the binaries it gives, and files of its source tree that are kept beside them."""

    binaries: dict[str, str]
    """binary name → Go package"""
    module: str = ""
    files: tuple[str, ...] = ()
    """paths inside the module's source tree, such as its CRDs"""
    ldflags: str = ""
    tags: str = field(default="", repr=False)
    """build tags, by comma"""
    folder: str = field(default="", repr=False)
    """its module among `upstreams/`, where that is not of the same name"""


def _read() -> dict[str, Upstream]:
    read = tomllib.loads((MODULES / "upstreams.toml").read_text())
    return {
        name: Upstream(
            made.get("binaries", {}), made.get("module", ""), tuple(made.get("files", ())),
            made.get("ldflags", "").format(stamp=_STAMP), made.get("tags", ""), made.get("folder", ""),
        )
        for name, made in read.items()
    }  # fmt: skip


UPSTREAMS = _read()


def cache() -> Path:
    """The folder that holds every build: `$SCALECURVE_CACHE`, or `~/.cache/scalecurve`."""
    return Path(os.environ.get("SCALECURVE_CACHE") or Path.home() / ".cache" / "scalecurve")


def built(name: str) -> Path:
    """The folder of one upstream's build; it is complete if it exists."""
    digest = hashlib.sha256(f"{UPSTREAMS[name]!r}{UPSTREAMS[name].tags}".encode())
    for file in sorted(_module(name).iterdir()):
        digest.update(file.read_bytes())
    return cache() / f"{name}-{digest.hexdigest()[:12]}"


def _module(name: str) -> Path:
    return MODULES / (UPSTREAMS[name].folder or name)


def missing(names: Sequence[str] = tuple(UPSTREAMS)) -> list[str]:
    """Those of `names` that are not built yet."""
    return [name for name in names if not built(name).is_dir()]


def binary(name: str) -> Path:
    """The path of one built binary, such as `kubectl`."""
    for upstream, source in UPSTREAMS.items():
        if name in source.binaries:
            return built(upstream) / name
    raise KeyError(name)


def source_file(upstream: str, name: str) -> Path:
    """A file kept from an upstream's source tree, by its last name."""
    return built(upstream) / name


def crds(upstream: str) -> list[Path]:
    """Files of the custom resource definitions among those kept: GROUP_PLURAL.yaml."""
    kept = [built(upstream) / Path(file).name for file in UPSTREAMS[upstream].files]
    return [file for file in kept if "." in file.stem]


def build(names: Sequence[str] = tuple(UPSTREAMS)) -> float:
    """Build what is missing of `names`, one at a time; the seconds it took.

    Raises `FileNotFoundError` if there is no Go, or too old a one; `subprocess.CalledProcessError` if a build fails.
    """
    started = time.monotonic()
    if missing(names):
        _check_go()
    for name in names:
        with _hold_lock(name):
            if missing([name]):
                made = UPSTREAMS[name].binaries or [Path(file).name for file in UPSTREAMS[name].files]
                print(f"building {name} ({', '.join(made)})", file=sys.stderr, flush=True)
                _build(name)
    return time.monotonic() - started


def _check_go() -> None:
    if not shutil.which("go"):
        raise FileNotFoundError(f"go: not found on PATH; {_WANTED}")
    said = subprocess.run(["go", "env", "GOVERSION"], capture_output=True, text=True, check=True).stdout.strip()
    version = re.match(r"go(\d+)\.(\d+)", said)
    if version and tuple(map(int, version.groups())) < GO:
        raise FileNotFoundError(f"go: {said} is too old; {_WANTED}")


def _build(name: str) -> None:
    source, folder = UPSTREAMS[name], built(name)
    work = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=cache()))
    try:
        environment = os.environ | {"GOTOOLCHAIN": "local", "GOFLAGS": "-mod=readonly", "CGO_ENABLED": "0"}
        for output, package in source.binaries.items():
            flags = f"-s -w {source.ldflags}".strip()
            command = [
                "go", "build", "-trimpath", "-buildvcs=false", "-tags", source.tags, "-ldflags", flags,
                "-o", str(work / output), package,
            ]  # fmt: skip
            subprocess.run(command, cwd=_module(name), env=environment, check=True)
        if source.files:
            subprocess.run(["go", "mod", "download", source.module], cwd=_module(name), env=environment, check=True)
            tree = subprocess.run(
                ["go", "list", "-m", "-f", "{{.Dir}}", source.module],
                cwd=_module(name), env=environment, check=True, capture_output=True, text=True,
            ).stdout.strip()  # fmt: skip
            for file in source.files:
                shutil.copyfile(Path(tree) / file, work / Path(file).name)
        work.chmod(0o755)
        work.rename(folder)
    finally:
        shutil.rmtree(work, ignore_errors=True)


@contextmanager
def _hold_lock(name: str) -> Iterator[None]:
    """Two test runs at once build each upstream once."""
    cache().mkdir(parents=True, exist_ok=True)
    with (cache() / f".{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def main(names: Sequence[str]) -> int:
    unknown = [name for name in names if name not in UPSTREAMS]
    if unknown:
        print(f"no such upstream: {', '.join(unknown)}; there are {', '.join(UPSTREAMS)}", file=sys.stderr)
        return 2
    wanted = list(names) or list(UPSTREAMS)
    try:
        seconds = build(wanted)
    except FileNotFoundError as error:
        print(error, file=sys.stderr)
        return 3
    print(f"{len(wanted)} upstreams in {cache()}, {seconds:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
