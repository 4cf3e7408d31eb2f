"""``attach`` for scripts that have loaded torch: the model's device decides how steps are timed."""

from collections.abc import Callable, Sequence
from typing import Any

import torch

from scalecurve_api.record.rank import RankTopology
from scalecurve_worker.record.session import Session
from scalecurve_worker.rendezvous.torch_store import backend_for
from scalecurve_worker.sdk.bench import Alternate, Bench
from scalecurve_worker.steps.timing import HostClock
from scalecurve_worker.torch.checksum import parameter_checksum
from scalecurve_worker.torch.clock import CudaClock
from scalecurve_worker.torch.device import device_identity, framework_versions

# torch leaves it without types.
cuda_in_use: Callable[[], bool] = torch.cuda.is_initialized


def attach_torch(
    model: Any = None, alternate: Alternate | None = None, topologies: Sequence[RankTopology] | None = None
) -> Bench:
    """Join the trial with a torch model, or without one.

    Without a model the current GPU is timed when the program has begun to use one. ``topologies`` are those of the
    workers that this process drives, where these are several.
    """
    device = device_of(model)
    session = Session(*device_identity(device), topologies=topologies, world=len(topologies) if topologies else None)
    session.facts.versions = framework_versions(device)
    session.facts.backend = backend_for(device)
    if hasattr(model, "parameters"):
        session.facts.parameters = sum(parameter.numel() for parameter in model.parameters())
        session.facts.strategy = wrapper_of(model)
    clock = CudaClock(session.unix, device) if device.type == "cuda" else HostClock(session.unix)
    named = hasattr(model, "named_parameters")
    return Bench(session, clock, alternate, (lambda: parameter_checksum(model)) if named else lambda: None)


def wrapper_of(model: Any) -> str | None:
    """The class that torch wrapped a model in, as ``DistributedDataParallel``; None for a bare one."""
    model = getattr(model, "_orig_mod", model)
    module = type(model).__module__
    return type(model).__name__ if module.startswith(("torch.nn.parallel", "torch.distributed")) else None


def device_of(model: Any) -> torch.device:
    """Where a model's parameters are; without a model the current GPU, if CUDA is in use, else the CPU."""
    if hasattr(model, "parameters"):
        first = next(iter(model.parameters()), None)
        if first is not None:
            return torch.device(first.device)
    if torch.cuda.is_available() and cuda_in_use():
        return torch.device("cuda", torch.cuda.current_device())
    return torch.device("cpu")
