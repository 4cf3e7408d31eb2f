"""The GPUs this process may use, by UUID: NVML where its bindings are installed, else ``nvidia-smi``."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scalecurve_local.errors import Unavailable


@dataclass(frozen=True)
class Gpu:
    """One device."""

    uuid: str
    name: str


def survey_gpus(environment: Mapping[str, str]) -> tuple[Gpu, ...]:
    """Every GPU that ``CUDA_VISIBLE_DEVICES`` leaves, in its order.

    Raises:
        Unavailable: when ``CUDA_VISIBLE_DEVICES`` names a GPU that is not there.
    """
    return visible(_listed(), environment.get("CUDA_VISIBLE_DEVICES"))


def visible(gpus: Sequence[Gpu], setting: str | None) -> tuple[Gpu, ...]:
    """Apply ``CUDA_VISIBLE_DEVICES``: indices, or UUIDs that may be cut short; empty or -1 hides all.

    Raises:
        Unavailable: for an entry that names no GPU. (CUDA itself silently drops it and all after it.)
    """
    if setting is None:
        return tuple(gpus)
    chosen: list[Gpu] = []
    for entry in (part.strip() for part in setting.split(",")):
        if entry in ("", "-1", "NoDevFiles", "none", "void"):
            break
        if entry.startswith("MIG-"):
            found = [Gpu(entry, "MIG instance")]
        elif entry.isdigit():
            found = list(gpus[int(entry) : int(entry) + 1])
        else:
            found = [gpu for gpu in gpus if gpu.uuid.startswith(entry)]
        if len(found) != 1:
            have = ", ".join(f"{index} {gpu.uuid}" for index, gpu in enumerate(gpus)) or "none"
            raise Unavailable(f"CUDA_VISIBLE_DEVICES={setting}: {entry!r} names no one GPU; this machine has: {have}")
        chosen += found
    return tuple(dict.fromkeys(chosen))


def _listed() -> tuple[Gpu, ...]:
    try:
        import pynvml
    except ImportError:
        return from_smi()
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return from_smi()
    try:
        handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
        return tuple(
            Gpu(_text(pynvml.nvmlDeviceGetUUID(handle)), _text(pynvml.nvmlDeviceGetName(handle))) for handle in handles
        )
    finally:
        pynvml.nvmlShutdown()


def from_smi() -> tuple[Gpu, ...]:
    """What ``nvidia-smi`` lists; nothing where it is not installed or fails."""
    program = shutil.which("nvidia-smi")
    if program is None:
        return ()
    try:
        said = subprocess.run(
            [program, "--query-gpu=uuid,name", "--format=csv,noheader"],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return ()
    rows = (line.partition(",") for line in said.splitlines() if line.strip())
    return tuple(Gpu(uuid.strip(), name.strip()) for uuid, _, name in rows)


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
