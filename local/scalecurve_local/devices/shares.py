"""Which devices and cores each worker gets. Pure. A worker's share is the same at every worker count.

Within a repetition the share of N workers is a prefix of the share of any larger N, so points differ by the workers
added, not by where they run. From one repetition to the next small counts move to other devices, so that a curve does
not hang on one device that every baseline ran on; the record has the devices of each trial.
"""

import itertools
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from scalecurve_api.planning.rotation import rotated
from scalecurve_api.programs.workload import Backend, DeviceType
from scalecurve_api.spec import quantity
from scalecurve_api.spec.experiment import Resources
from scalecurve_api.spec.trial import TrialSpec
from scalecurve_api.text import count
from scalecurve_local.devices.cores import Cores
from scalecurve_local.devices.gpus import Gpu
from scalecurve_local.errors import InputError, UnavailableError

GPU_RESOURCE = "nvidia.com/gpu"
_ONE_THREAD = (
    "OMP_NUM_THREADS is 1 at every worker count unless your environment sets it, as torchrun has it for several ranks; "
    "one worker started alone would compute on every core"
)


@dataclass(frozen=True)
class Machine:
    """The devices to divide."""

    cores: Cores
    gpus: tuple[Gpu, ...] = ()


@dataclass(frozen=True)
class Share:
    """What each worker of a trial gets; ``cores`` is empty if they are not pinned, ``gpus`` if they have none.

    Where the user's own launcher would set threads (``launched``), ``threads`` is what counts where their environment
    says nothing; 0 leaves it so.
    """

    threads: int
    cores: tuple[tuple[int, ...], ...] = ()
    gpus: tuple[str, ...] = ()
    oversubscribed: bool = False
    launched: bool = False

    @property
    def devices(self) -> list[str]:
        """Devices as ranks report them: GPU UUIDs, or ``cpu:0,1``."""
        return list(self.gpus) or ["cpu:" + ",".join(map(str, sorted(cores))) for cores in self.cores]


@dataclass(frozen=True)
class Allotment:
    """The shares of an experiment's trials, the devices to lock, and notes for the user."""

    shares: dict[str, Share]
    locks: tuple[str, ...]
    notes: tuple[str, ...]


def allot(trials: Sequence[TrialSpec], machine: Machine, oversubscribe: bool) -> Allotment:
    """Divide the machine among the workers of every trial of a plan.

    Raises:
        InputError: for trials that can never run on one machine.
        UnavailableError: for more workers than devices or cores (``oversubscribe`` allows it), or missing devices.
    """
    for trial in trials:
        if trial.point.nodes > 1:
            raise InputError(
                f"spec.placement: the layout {trial.point.layout} of trial {trial.name} needs {trial.point.nodes} "
                "nodes, and `scalecurve run` has one machine; leave placement out, or run the experiment on a cluster"
            )
    uses_gpu = {trial.name: _uses_gpu(trial, machine) for trial in trials}
    notes: list[str] = []
    shares: dict[str, Share] = {}
    for on_gpu in (True, False):
        group = [trial for trial in trials if uses_gpu[trial.name] is on_gpu]
        if not group:
            continue
        workers = max(trial.point.workers for trial in group)
        limit = _cpu_limit(group[0].resources)
        pinned = not on_gpu or limit is not None
        width, order = _cores_per_worker(limit, workers, machine.cores, pinned)
        if on_gpu:
            what, there = f"{count(workers, 'worker')} need {count(workers, 'GPU')}", len(machine.gpus)
            _enough(workers, there, f"{what}, and {there} are visible", oversubscribe)
        if pinned:
            needed = workers * width
            what = f"{workers} workers with {count(width, 'core')} each need {needed} cores"
            _enough(needed, len(order), f"{what}, and {len(order)} may be used", oversubscribe)
        fitting = min(
            workers, len(machine.gpus) if on_gpu else workers, max(1, len(order) // width) if pinned else workers
        )
        for trial in group:
            slots = [*rotated(fitting, trial.measure.seed, trial.repetition), *range(fitting, workers)]
            gpus = machine.gpus if on_gpu else ()
            share = _share(slots[: trial.point.workers], width, order, gpus, pinned)
            if not pinned and not trial.workload.built_in:
                share = replace(share, threads=int(workers > 1), launched=True)
            shares[trial.name] = share
        notes += _notes(on_gpu, workers, width, order, machine, pinned)
        if any(shares[trial.name].launched for trial in group) and workers > 1:
            notes.append(_ONE_THREAD)
    locked = {f"gpu-{uuid}" for share in shares.values() for uuid in share.gpus}
    locked |= {f"core-{core}" for share in shares.values() for core in itertools.chain(*share.cores)}
    return Allotment(shares, tuple(sorted(locked)), tuple(notes))


def _uses_gpu(trial: TrialSpec, machine: Machine) -> bool:
    workload = trial.workload
    limit = trial.resources.limits.get(GPU_RESOURCE)
    if limit is not None and str(limit) not in ("0", "1"):
        raise InputError(
            f"spec.resources.limits.{GPU_RESOURCE}: got {limit}; expected 1, since a worker drives one GPU"
        )
    if workload.device is DeviceType.cpu:
        if workload.backend is Backend.nccl:
            raise InputError("spec.workload.backend: got nccl; not supported on device cpu; use gloo or mpi")
        return False
    if workload.host_only:
        return False
    needs = {
        "spec.workload.device: gpu": workload.device is DeviceType.gpu,
        "spec.workload.backend: nccl": workload.backend is Backend.nccl,
        f"spec.resources.limits.{GPU_RESOURCE}: {limit}": str(limit) == "1",
    }
    for name, needed in needs.items():
        if needed and not machine.gpus:
            raise UnavailableError(f"{name} needs a GPU, and this machine has no visible GPU")
    return bool(machine.gpus)


def _cpu_limit(resources: Resources) -> int | None:
    """``resources.limits.cpu`` of one worker, in cores; ``2000m`` is accepted too."""
    limit = resources.limits.get("cpu")
    if limit is None:
        return None
    with suppress(ValueError):
        cores = quantity.value(limit)
        if cores >= 1 and cores == int(cores):
            return int(cores)
    raise InputError(f"spec.resources.limits.cpu: got {limit!r}; expected a whole number of cores on one machine")


def _cores_per_worker(limit: int | None, workers: int, cores: Cores, pinned: bool) -> tuple[int, list[int]]:
    """``(cores of one worker, cores in the order of assignment)`` for the largest worker count.

    One thread of each physical core if that is enough, else physical cores with all their threads, so that a worker's
    share is worth the same at every count.
    """
    firsts = [siblings[0] for siblings in cores.siblings][: cores.budget]
    threads = list(itertools.chain(*cores.siblings))[: cores.budget]
    if limit is None and workers <= len(firsts):
        return len(firsts) // workers, firsts
    width = limit if limit is not None else max(1, len(threads) // workers)
    if width * workers <= len(firsts) or not pinned:
        return width, firsts
    if width == 1:
        rest = [thread for siblings in cores.siblings for thread in siblings[1:]]
        return width, (firsts + rest)[: cores.budget]
    return width, threads


def _enough(needed: int, there: int, text: str, oversubscribe: bool) -> None:
    if needed > there and not oversubscribe:
        anyway = "--oversubscribe runs it anyway, and its trials come out Invalid"
        raise UnavailableError(f"spec.scaling.workers: {text}; {anyway}")


def _share(slots: Sequence[int], width: int, order: Sequence[int], gpus: Sequence[Gpu], pinned: bool) -> Share:
    step, workers = min(width, len(order)), len(slots)
    cores = tuple(tuple(order[(slot * step + offset) % len(order)] for offset in range(step)) for slot in slots)
    chosen = tuple(gpus[slot % len(gpus)].uuid for slot in slots) if gpus else ()
    over = (pinned and workers * width > len(order)) or (bool(gpus) and workers > len(gpus))
    return Share(threads=width, cores=cores if pinned else (), gpus=chosen, oversubscribed=over)


def _notes(on_gpu: bool, workers: int, width: int, order: Sequence[int], machine: Machine, pinned: bool) -> list[str]:
    cores, notes = machine.cores, []
    if on_gpu:
        names = sorted({gpu.name for gpu in machine.gpus[:workers]})
        notes.append(f"GPUs: {min(workers, len(machine.gpus))} of {len(machine.gpus)} ({', '.join(names)})")
    notes.append(f"each worker has {count(width, 'core')} at every worker count" + ("" if pinned else ", not pinned"))
    used = set(order[: width * workers])
    shared = any(len(used.intersection(siblings)) > 1 for siblings in cores.siblings)
    if pinned and cores.threads > len(cores.siblings):
        notes.append(
            "two workers may share a physical core: there are more workers than physical cores"
            if shared and width == 1
            else "workers have physical cores with all their hardware threads"
            if shared
            else "one hardware thread of each physical core is used, its siblings stay idle"
        )
    if cores.quota is not None and cores.budget < cores.threads:
        notes.append(f"a cgroup allows {cores.quota:g} of {cores.threads} cores: {cores.budget} are used")
    return notes
