"""``attach`` for scripts that have loaded torch: the model's device decides how steps are timed."""

from collections.abc import Sequence
from typing import Any

import torch

from scalecurve_api.record.checks.proof import drives_all
from scalecurve_api.record.rank import RankTopology
from scalecurve_worker.process.failure import WorkloadError
from scalecurve_worker.process.trial_spec import read_trial
from scalecurve_worker.record.session import Session
from scalecurve_worker.rendezvous.torch_store import backend_for
from scalecurve_worker.sdk.batches import LoaderTime
from scalecurve_worker.sdk.bench import Bench
from scalecurve_worker.sdk.counts import Unit
from scalecurve_worker.sdk.explainer import Alternate, Explainer
from scalecurve_worker.steps.timing import Clock, HostClock
from scalecurve_worker.torch.clock import CudaClock
from scalecurve_worker.torch.device import data_parallel_of, device_identity, framework_versions, topologies_on
from scalecurve_worker.torch.explain.explainer import TorchExplainer, cuda_in_use
from scalecurve_worker.torch.explain.wrappers import enclosing, wrapper_of
from scalecurve_worker.torch.observation import TorchObserver, watch_loaders
from scalecurve_worker.torch.parameters import parameter_checksum


def attach_torch(
    model: Any = None,
    alternate: Alternate | None = None,
    topologies: Sequence[RankTopology] | None = None,
    explainer: Explainer | None = None,
) -> Bench:
    """Join the trial with a torch model, or without one.

    Without a model the current GPU is timed when the program has begun to use one. ``topologies`` are those of the
    workers that this process drives, where these are several.
    """
    session, clock = _join(device_of(model), topologies)
    facts = session.facts
    if hasattr(model, "parameters"):
        facts.parameters = sum(parameter.numel() for parameter in model.parameters())
        facts.strategy = wrapper_of(model)
    named = hasattr(model, "named_parameters")
    checksum = (lambda: parameter_checksum(model)) if named else lambda: None
    return Bench(session, clock, alternate, checksum, explainer=explainer)


def attach_script(model: Any, checksum: str | None, unit: Unit, *, sectioned: bool = True) -> Bench:
    """Join the trial with a script of anyone's, which must show that it trained as one job.

    ``sectioned`` is whether it can have further steps after its last window, whose sections are timed.
    """
    device = device_of(model)
    observer = TorchObserver(model, device, checksum)
    session, clock = _join(device, _driven(model, device))
    explainer = TorchExplainer(model, device, session.measure, observer, sectioned=sectioned)
    return Bench(
        session,
        clock,
        checksum=explainer.checksum,
        observer=observer,
        loading=watch_loaders(LoaderTime()),
        explainer=explainer,
        unit=unit,
    )


def _join(device: torch.device, topologies: Sequence[RankTopology] | None = None) -> tuple[Session, Clock]:
    session = Session(*device_identity(device), topologies=topologies, world=len(topologies) if topologies else None)
    session.facts.versions = framework_versions(device)
    session.facts.backend = backend_for(device)
    return session, CudaClock(session.unix, device) if device.type == "cuda" else HostClock(session.unix)


def _driven(model: Any, device: torch.device) -> list[RankTopology] | None:
    """The workers of a process that drives every GPU; None where a process is one worker."""
    trial = read_trial()
    if trial is None or not drives_all(trial) or trial.point.workers == 1:
        return None
    parallel = data_parallel_of(enclosing(model) if isinstance(model, torch.nn.Module) else None)
    used = len(parallel.device_ids) if parallel is not None else 0
    if parallel is None or used != trial.point.workers:
        why = (
            "the model is on the CPU, one device for a process, where nn.DataParallel does nothing"
            if device.type == "cpu"
            else f"nn.DataParallel uses {used or 'none'} of the {trial.point.workers} GPUs that the script sees: "
            "nn.DataParallel(model) without device_ids uses all"
        )
        raise WorkloadError(f"workload.singleProcess (--processes 1): {why}")
    return topologies_on(parallel.device_ids)


def device_of(model: Any) -> torch.device:
    """Tell where a model's parameters are; without a model the current GPU, if CUDA is in use, else the CPU."""
    first = next(iter(model.parameters()), None) if hasattr(model, "parameters") else None
    if first is not None:
        return torch.device(first.device)
    if torch.cuda.is_available() and cuda_in_use():
        return torch.device("cuda", torch.cuda.current_device())
    return torch.device("cpu")
