"""Which devices and cores each worker gets: pure. The same share for every worker count, or scaling means nothing.

The share of N workers is the beginning of the share of any larger N, so a point differs from the next by what is added
and not by where it runs.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from scalecurve_api.programs.workload import Backend, DeviceType
from scalecurve_api.spec.experiment import Resources
from scalecurve_api.spec.trial import TrialSpec
from scalecurve_local.devices.cores import Cores
from scalecurve_local.devices.gpus import Gpu
from scalecurve_local.errors import BadInput, Unavailable

GPU_RESOURCE = "nvidia.com/gpu"


@dataclass(frozen=True)
class Machine:
    """What there is to share out."""

    cores: Cores
    gpus: tuple[Gpu, ...] = ()


@dataclass(frozen=True)
class Share:
    """What the workers of one trial get: entry i is worker i's.

    ``cores`` is empty where workers are not pinned, ``gpus`` where they compute on cores.
    """

    threads: int
    cores: tuple[tuple[int, ...], ...] = ()
    gpus: tuple[str, ...] = ()
    oversubscribed: bool = False

    @property
    def devices(self) -> list[str]:
        """As a rank names its device: a GPU UUID, or ``cpu:0,1``."""
        return list(self.gpus) or ["cpu:" + ",".join(map(str, sorted(cores))) for cores in self.cores]


@dataclass(frozen=True)
class Allotment:
    """The shares of a whole experiment: by trial, what is to be locked, and what was done, for people."""

    shares: dict[str, Share]
    locks: tuple[str, ...]
    notes: tuple[str, ...]


def allot(trials: Sequence[TrialSpec], machine: Machine, oversubscribe: bool) -> Allotment:
    """Share the machine out to every trial of a plan.

    Raises:
        BadInput: for what can never run on one machine.
        Unavailable: for more workers than devices or cores (``oversubscribe`` allows it), or devices that are not here.
    """
    for trial in trials:
        _refuse_foreign(trial)
    on_gpu = {trial.name: _wants_gpu(trial, machine) for trial in trials}
    largest = {
        kind: max((t.point.workers for t in trials if on_gpu[t.name] is kind), default=0) for kind in (True, False)
    }
    notes: list[str] = []
    shares: dict[str, Share] = {}
    for kind in (True, False):
        if not largest[kind]:
            continue
        kindred = [trial for trial in trials if on_gpu[trial.name] is kind]
        asked = _whole_cores(kindred[0].resources)
        each, order = _cores_each(asked, largest[kind], machine.cores, pinned=not kind or asked is not None)
        if kind:
            _enough_gpus(largest[True], len(machine.gpus), oversubscribe)
        else:
            _enough_cores(largest[False], each, len(order), oversubscribe)
        pinned = not kind or asked is not None
        if kind and pinned:
            _enough_cores(largest[True], each, len(order), oversubscribe)
        for trial in kindred:
            shares[trial.name] = _share(trial.point.workers, each, order, machine.gpus if kind else (), pinned)
        notes += _notes(kind, largest[kind], each, order, machine, pinned)
    locked = {f"gpu-{uuid}" for share in shares.values() for uuid in share.gpus}
    locked |= {f"core-{core}" for share in shares.values() for core in itertools.chain(*share.cores)}
    return Allotment(shares, tuple(sorted(locked)), tuple(notes))


def _refuse_foreign(trial: TrialSpec) -> None:
    if trial.point.nodes > 1:
        raise BadInput(
            f"spec.placement: the layout {trial.point.layout} of trial {trial.name} needs {trial.point.nodes} nodes, "
            "and this engine has one machine; leave placement out, or run the experiment on a cluster"
        )


def _wants_gpu(trial: TrialSpec, machine: Machine) -> bool:
    workload = trial.workload
    asked = trial.resources.limits.get(GPU_RESOURCE)
    if asked is not None and str(asked) not in ("0", "1"):
        raise BadInput(f"spec.resources.limits.{GPU_RESOURCE}: given {asked}; allowed: 1, as a worker drives one GPU")
    needs = {
        "spec.workload.device: gpu": workload.device is DeviceType.gpu,
        "spec.workload.backend: nccl": workload.backend is Backend.nccl,
        f"spec.resources.limits.{GPU_RESOURCE}: {asked}": str(asked) == "1",
    }
    why = [name for name, needed in needs.items() if needed]
    if workload.device is DeviceType.cpu:
        if workload.backend is Backend.nccl:
            raise BadInput("spec.workload.backend: given nccl; allowed on device cpu: gloo or mpi, as NCCL needs GPUs")
        return False
    if workload.over_mpi:
        return False
    if why and not machine.gpus:
        raise Unavailable(f"{why[0]} asks for a GPU, and none is visible on this machine")
    return bool(machine.gpus)


def _whole_cores(resources: Resources) -> int | None:
    """``resources.limits.cpu`` of one worker in whole cores; Kubernetes' ``2000m`` is understood."""
    given = resources.limits.get("cpu")
    if given is None:
        return None
    text = str(given)
    try:
        value = float(text[:-1]) / 1000 if text.endswith("m") else float(text)
    except ValueError:
        value = 0.0
    if value < 1 or value != int(value):
        raise BadInput(f"spec.resources.limits.cpu: given {given!r}; allowed on one machine: whole cores, as 2")
    return int(value)


def _cores_each(asked: int | None, largest: int, cores: Cores, pinned: bool) -> tuple[int, list[int]]:
    """``(cores of one worker, cores in the order they are given out)``.

    One thread a physical core while that is enough for the largest count. Where it is not, whole physical cores with
    all their threads, so that a worker's share is worth the same at every count.
    """
    firsts = [group[0] for group in cores.siblings][: cores.budget]
    every = list(itertools.chain(*cores.siblings))[: cores.budget]
    if asked is None and largest <= len(firsts):
        each = len(firsts) // largest
        return each, firsts
    each = asked if asked is not None else max(1, len(every) // largest)
    if each * largest <= len(firsts) or (not pinned and asked is None):
        return each, firsts
    if each == 1:
        rest = [thread for group in cores.siblings for thread in group[1:]]
        return each, (firsts + rest)[: cores.budget]
    return each, every


def _enough_gpus(workers: int, gpus: int, oversubscribe: bool) -> None:
    if workers > gpus and not oversubscribe:
        raise Unavailable(
            f"spec.scaling.workers: {workers} workers need {workers} GPUs, and {gpus} are visible; "
            "--oversubscribe runs it nevertheless, and its trials come out Invalid"
        )


def _enough_cores(workers: int, each: int, usable: int, oversubscribe: bool) -> None:
    if workers * each > usable and not oversubscribe:
        share = f"{each} core{'s' if each > 1 else ''}"
        raise Unavailable(
            f"spec.scaling.workers: {workers} workers with {share} each need {workers * each} cores, and {usable} may "
            "be used; --oversubscribe runs it nevertheless, and its trials come out Invalid"
        )


def _share(workers: int, each: int, order: Sequence[int], gpus: Sequence[Gpu], pinned: bool) -> Share:
    width = min(each, len(order))
    cores = tuple(
        tuple(order[(worker * width + offset) % len(order)] for offset in range(width)) for worker in range(workers)
    )
    chosen = tuple(gpus[worker % len(gpus)].uuid for worker in range(workers)) if gpus else ()
    over = (pinned and workers * each > len(order)) or (bool(gpus) and workers > len(gpus))
    return Share(threads=each, cores=cores if pinned else (), gpus=chosen, oversubscribed=over)


def _notes(on_gpu: bool, largest: int, each: int, order: Sequence[int], machine: Machine, pinned: bool) -> list[str]:
    cores = machine.cores
    said = []
    if on_gpu:
        names = sorted({gpu.name for gpu in machine.gpus[:largest]})
        said.append(f"GPUs: {min(largest, len(machine.gpus))} of {len(machine.gpus)} ({', '.join(names)})")
    count = f"{each} core{'s' if each != 1 else ''}"
    said.append(f"each worker computes with {count}, at every worker count" + ("" if pinned else "; not pinned"))
    used = set(order[: each * largest])
    shared = [group for group in cores.siblings if len(used.intersection(group)) > 1]
    if pinned and cores.threads > len(cores.siblings):
        said.append(
            "two workers may share a physical core: there are fewer of those than workers"
            if shared and each == 1
            else "workers have whole physical cores with all their hardware threads"
            if shared
            else "one hardware thread of a physical core is used, its siblings are left idle"
        )
    if cores.quota is not None and cores.budget < cores.threads:
        said.append(f"a control group allows {cores.quota:g} of {cores.threads} cores: {cores.budget} are used")
    return said
