"""The GPUs this process may use, by UUID: NVML where its bindings are installed, else ``nvidia-smi``."""

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scalecurve_local.errors import UnavailableError


@dataclass(frozen=True)
class Gpu:
    """A GPU by UUID."""

    uuid: str
    name: str


def survey_gpus(environment: Mapping[str, str]) -> tuple[Gpu, ...]:
    """The GPUs that ``CUDA_VISIBLE_DEVICES`` selects, in its order.

    Raises:
        UnavailableError: when it names a GPU that does not exist.
    """
    return visible(_list_gpus(), environment.get("CUDA_VISIBLE_DEVICES"))


def visible(gpus: Sequence[Gpu], setting: str | None) -> tuple[Gpu, ...]:
    """Apply ``CUDA_VISIBLE_DEVICES``: indices or prefixes of UUIDs; empty or -1 hides all.

    Raises:
        UnavailableError: for an entry that matches no GPU. (CUDA silently drops it and all entries after it.)
    """
    if setting is None:
        return tuple(gpus)
    chosen: list[Gpu] = []
    for entry in (part.strip() for part in setting.split(",")):
        if entry in ("", "-1", "NoDevFiles", "none", "void"):
            break
        if entry.startswith("MIG-"):
            matches = [Gpu(entry, "MIG instance")]
        elif entry.isdigit():
            matches = list(gpus[int(entry) : int(entry) + 1])
        else:
            matches = [gpu for gpu in gpus if gpu.uuid.startswith(entry)]
        if len(matches) != 1:
            have = ", ".join(f"{index} {gpu.uuid}" for index, gpu in enumerate(gpus)) or "none"
            raise UnavailableError(
                f"CUDA_VISIBLE_DEVICES={setting}: {entry!r} does not name exactly one GPU; this machine has: {have}"
            )
        chosen += matches
    return tuple(dict.fromkeys(chosen))


def _list_gpus() -> tuple[Gpu, ...]:
    try:
        import pynvml
    except ImportError:
        return query_smi()
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return query_smi()
    try:
        handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
        return tuple(Gpu(pynvml.nvmlDeviceGetUUID(handle), pynvml.nvmlDeviceGetName(handle)) for handle in handles)
    finally:
        pynvml.nvmlShutdown()


def query_smi() -> tuple[Gpu, ...]:
    """The GPUs that ``nvidia-smi`` lists; none if it is missing or fails."""
    command = ["nvidia-smi", "--query-gpu=uuid,name", "--format=csv,noheader"]
    try:
        output = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return ()
    rows = (line.partition(",") for line in output.splitlines() if line.strip())
    return tuple(Gpu(uuid.strip(), name.strip()) for uuid, _, name in rows)
