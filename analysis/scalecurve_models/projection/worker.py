"""One measured worker: seconds of its step at each batch, by the trials that computed what is to be predicted."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scalecurve.bundle.measurement import steps_of
from scalecurve.bundle.open import Bundle
from scalecurve.hardware.devices import device_name as canonical_name
from scalecurve.hardware.devices import devices
from scalecurve.hardware.names import known_as
from scalecurve_api.record.rank import WindowKind
from scalecurve_api.record.step_program import ComputeSegment, StepProgram
from scalecurve_api.record.trial_record import TrialRecord
from scalecurve_api.spec.trial import TrialSpec
from scalecurve_models.fitting.least_squares import FitError

# Fields that say how gradients travel; all others change what one worker computes.
_COMMUNICATION = ("strategy", "backend", "launcher", "image", "env", "envFrom", "allReduce", "parallelism")
_COMMUNICATION_OPTIONS = (
    *("bucketCapMb", "commHook", "commHookRank", "commHookDensity", "batchNorm", "gradientAsBucketView"),
    *("staticGraph", "fsdpGroupMb", "shard", "keepThreads", "reshuffle"),
)

# docs/evidence/predicted, cpu-batches with the all-reduces of gloo-two-cores: 10 to 27 % too fast, the exposed part
# six times what the all-reduces take, as the threads that exchange wait for a slice of the core that computes.
ON_CPUS = (
    "one worker on CPUs does not tell what several take, since their exchanges compete with computing for the same "
    "cores (10 to 27 % off where it was tried); measure this count"
)


@dataclass(frozen=True)
class Balance:
    """How FLOPs and bytes share a step's time among its kernels: so many of each take one unit."""

    flops: float
    moved_bytes: float
    source: str

    def weight(self, work: ComputeSegment) -> float:
        return work.flops / self.flops + work.moved_bytes / self.moved_bytes

    def total(self, program: StepProgram) -> float:
        return sum(map(self.weight, program.work))


@dataclass(frozen=True)
class MeasuredWorker:
    """The trials of one worker that compute the same, by batch.

    ``seconds`` are the mean of a step over repetitions, ``peak_bytes`` the most memory of any.
    """

    trial: TrialSpec
    seconds: Mapping[int, float]
    peak_bytes: Mapping[int, int]
    samples_per_item: float
    device_name: str

    def step_s(self, batch: int) -> tuple[float, str]:
        """Seconds of a step of this batch, and how they are known.

        Raises FitError for a batch that is neither measured nor between two that are.
        """
        if batch in self.seconds:
            return self.seconds[batch], f"one worker measured at batch {batch}"
        below, above = [n for n in self.seconds if n < batch], [n for n in self.seconds if n > batch]
        if below and above:
            low, high = max(below), min(above)
            share = (batch - low) / (high - low)
            seconds = self.seconds[low] + share * (self.seconds[high] - self.seconds[low])
            return seconds, f"one worker at batch {batch}: between those measured at {low} and {high}"
        known = ", ".join(map(str, sorted(self.seconds)))
        raise FitError(f"batch {batch} per worker: one worker was measured at {known} only; measure it at {batch}")

    def nearest(self, batch: int) -> int:
        return min(self.seconds, key=lambda known: (abs(known - batch), known))


def find_measured_worker(trial: TrialSpec, bundles: Sequence[Bundle]) -> MeasuredWorker:
    """The trials of one worker in these bundles that compute what ``trial`` does.

    Raises FitError where there is none, with the first difference of the nearest one.
    """
    requested = _computation(trial)
    alone = [r for b in bundles for t in b.trials if t.good and (r := t.record) and _is_one_worker(r)]
    if not alone:
        raise FitError("no bundle of --measured has a valid trial of one worker; measure one worker first")
    differences = [_difference(requested, _computation(record.trial)) for record in alone]
    same = [record for record, difference in zip(alone, differences, strict=True) if difference is None]
    if not same:
        raise FitError(f"no trial of one worker computes the same: {differences[0]}")
    same = _keep_one_strategy(same, trial)
    if any(record.topology[0].device.startswith("cpu") for record in same):
        raise FitError(ON_CPUS)
    names = {record.topology[0].device_name for record in same if record.topology}
    if len(names) != 1:
        raise FitError(f"--measured: one worker was measured on {len(names)} devices ({', '.join(sorted(names))})")
    totals: dict[int, list[float]] = {}
    peaks: dict[int, int] = {}
    for record in same:
        batch = record.trial.point.batch_per_worker or 0
        if record.summary and record.summary.peak_memory_bytes:
            peaks[batch] = max(peaks.get(batch, 0), record.summary.peak_memory_bytes)
        timed = steps_of(record, WindowKind.train)
        totals.setdefault(batch, []).append(timed.total_wall_s / timed.total_samples)
    seconds = {batch: sum(values) / len(values) for batch, values in totals.items()}
    return MeasuredWorker(same[0].trial, seconds, peaks, _samples_per_item(same[0]), names.pop())


def balance_of(device_name: str, precision: str, program: StepProgram) -> Balance:
    """Peak and bandwidth of the shipped device that the driver calls so; without one, half of a step for each."""
    bare = device_name.removeprefix("NVIDIA ").removeprefix("Tesla ")
    key = known_as(bare, devices()) or canonical_name(device_name)
    device = devices().get(key)
    peaks = {str(kind): gflops for kind, gflops in device.gflops.items()} if device else {}
    if device is not None and precision in peaks:
        source = f"kernels share the measured step by the roofline of {key}"
        return Balance(peaks[precision] * 1e9, device.memory_gb_s * 1e9, source)
    source = f"no roofline of {device_name}: FLOPs and bytes take half of the measured step each"
    return Balance(max(1.0, program.flops) * 2, max(1.0, program.moved_bytes) * 2, source)


def _is_one_worker(record: TrialRecord) -> bool:
    timed = any(window.kind is WindowKind.train and window.steps and window.wall_ns > 0 for window in record.windows)
    return record.trial.point.workers == 1 and timed and bool(record.topology)


def _keep_one_strategy(records: Sequence[TrialRecord], trial: TrialSpec) -> list[TrialRecord]:
    """Those of the trial's own strategy, or all of the strategy that comes first: a wrapper costs time alone, too."""
    strategies = [record.strategy for record in records]
    chosen = trial.workload.wrapper() if trial.workload.wrapper() in strategies else strategies[0]
    return [record for record in records if record.strategy == chosen]


def _samples_per_item(record: TrialRecord) -> float:
    """Samples that a record counts for each item of a batch: its tokens, or 1."""
    timed = [window for window in record.windows if window.kind is WindowKind.train and window.steps]
    items = sum(window.steps for window in timed) * (record.trial.point.global_batch or 1)
    return sum(window.samples for window in timed) / items


def _computation(trial: TrialSpec) -> dict[str, Any]:
    """The workload without what says how gradients travel."""
    tree: dict[str, Any] = trial.workload.wire()
    for field in _COMMUNICATION:
        tree.pop(field, None)
    for field in _COMMUNICATION_OPTIONS:
        tree.get("options", {}).pop(field, None)
    return tree


def _difference(requested: Any, other: Any, path: str = "workload") -> str | None:
    """The first field in which two workloads differ, with both values."""
    if isinstance(requested, dict) and isinstance(other, dict):
        for key in sorted({*requested, *other}):
            if found := _difference(requested.get(key), other.get(key), f"{path}.{key}"):
                return found
        return None
    return None if requested == other else f"{path} is {requested!r}, measured with {other!r}"
