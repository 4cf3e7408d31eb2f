"""Where a rank really runs, and with what software; never taken from the request."""

import os
import platform
import socket
from contextlib import suppress
from pathlib import Path

from scalecurve_api.record.rank import RankTopology
from scalecurve_api.release import release
from scalecurve_api.spec.secrets import secret_name
from scalecurve_worker.process.identity import RankIdentity
from scalecurve_worker.process.startup import allowed_cores

_RECORDED = ("NCCL_", "OMP_", "MKL_", "KMP_", "GLOO_", "CUDA_", "CUBLAS_", "TORCH_", "PYTORCH_", "UCX_", "OMPI_MCA_")
# What Open MPI's mpirun tells its ranks of itself: nobody's choice, and another at every worker count.
_MPIRUNS_OWN = tuple(
    f"OMPI_MCA_{name}" for name in ("PREFIXES", "cpu_type", "initial_wdir", "num_procs", "opal_abort_delay")
)


def topology(identity: RankIdentity, device: str | None = None, device_name: str | None = None) -> RankTopology:
    """Describe the host, process, cores and device of this rank; without a device its cores are one."""
    cores = allowed_cores()
    threads = os.environ.get("OMP_NUM_THREADS", "")
    return RankTopology(
        rank=identity.rank,
        local_rank=identity.local_rank,
        host=socket.gethostname(),
        pid=os.getpid(),
        pod=os.environ.get("POD_NAME"),
        node=os.environ.get("NODE_NAME"),
        device=device or f"cpu:{','.join(map(str, cores))}",
        device_name=device_name or _processor_name(),
        cores=cores,
        threads=int(threads) if threads.isdigit() else None,
    )


def _processor_name() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def versions() -> dict[str, str]:
    """Return the versions of Python, kernel and ScaleCurve; a program adds its framework's."""
    return {"python": platform.python_version(), "kernel": platform.release(), "scalecurve": release()}


def environment() -> dict[str, str]:
    """Return variables that change how fast a step is, by prefix; neither mpirun's own nor what looks like a secret."""
    return {
        name: value
        for name, value in sorted(os.environ.items())
        if name.startswith(_RECORDED) and name not in _MPIRUNS_OWN and not secret_name(name)
    }
