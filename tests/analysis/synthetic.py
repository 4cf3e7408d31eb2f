"""Bundles of known truth in the real formats, for tests and benchmarks; vectorised, so that millions of rows are cheap.

Steps follow ``step_s(point) * (1 + x)`` with x an AR(1) series of mean 0; a rank drawn anew each step is the slowest
and the others are a little ahead. A window's wall time is the sum of its steps, so the true throughput is
samples a step / step_s(point), exactly in expectation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import yaml

from scalecurve_api.features.accuracy.facts import Evaluation, encode_evaluations
from scalecurve_api.features.collectives.facts import AllReduceRow
from scalecurve_api.planning.plan import make_plan
from scalecurve_api.record import journal
from scalecurve_api.record.envelope import digest
from scalecurve_api.record.rank import DeviceSamples, RankTopology, Warmup, WindowKind
from scalecurve_api.record.tables import EVALS_FILE, STEPS_FILE, encode_steps
from scalecurve_api.record.trial_record import Check, Exposed, StepTimes, Summary, Timeline, TrialRecord, TrialWindow
from scalecurve_api.spec.experiment import ScalingExperiment
from scalecurve_api.spec.trial import Point, TrialPhase, TrialSpec

EPOCH_NS = 1_790_000_000_000_000_000
Ending = tuple[TrialPhase, str | None, str]


def amdahl(serial: float = 0.02, step_s: float = 0.1, batch: int = 64) -> Callable[[Point], float]:
    """Weak scaling loses ``serial`` of a step for each doubling; strong scaling shares the step's time out."""

    def step(point: Point) -> float:
        loss = 1 + serial * np.log2(point.workers)
        share = (point.batch_per_worker or batch) / batch
        return float(step_s * share * loss)

    return step


@dataclass(frozen=True)
class Truth:
    """What a synthetic machine does."""

    step_s: Callable[[Point], float] = field(default_factory=amdahl)
    exposed_share: Callable[[Point], float] = lambda point: 0.0 if point.workers == 1 else 0.1
    step_cv: float = 0.05
    autocorrelation: float = 0.5
    repetition_cv: float = 0.01
    warmup_steps: int = 20
    slow_rank: int | None = None
    behind: float = 0.02
    """How far a rank is ahead of the slowest one of a step, as a share of the step (half-normal scale)."""
    shape: Callable[[TrialSpec, np.ndarray], np.ndarray] | None = None
    """A further factor for each step of a trial, given the steps' indices: drift, two modes, slow first steps."""
    energy_w: float | None = None
    device_name: str = "synthetic"


def experiment(
    name: str = "synthetic",
    *,
    modes: Sequence[str] = ("strong", "weak"),
    workers: Sequence[int] = (1, 2, 4),
    repetitions: int = 3,
    windows: int = 5,
    steps_per_window: int = 20,
    **spec: object,
) -> ScalingExperiment:
    """A ScalingExperiment; further parts of the spec by their wire names."""
    tree = {
        "apiVersion": "scalecurve.dev/v1alpha1",
        "kind": "ScalingExperiment",
        "metadata": {"name": name},
        "spec": {
            "scaling": {
                "modes": list(modes),
                "workers": list(workers),
                "batch": {"global": 64 * max(workers), "perWorker": 64},
            },
            "measure": {"windows": windows, "stepsPerWindow": steps_per_window, "repetitions": repetitions},
            **spec,
        },
    }
    return ScalingExperiment.model_validate(tree)


def write_bundle(
    folder: Path,
    of: ScalingExperiment,
    truth: Truth = Truth(),
    *,
    seed: int = 0,
    endings: Mapping[str, Ending] | None = None,
    absent: Sequence[str] = (),
    tables: bool = True,
    evaluations: Callable[[TrialSpec], list[Evaluation]] | None = None,
    allreduce: Callable[[TrialSpec], list[AllReduceRow]] | None = None,
    change: Callable[[TrialRecord], TrialRecord] | None = None,
    rename: Callable[[str], str] = str,
) -> Path:
    """Write the bundle; trials named in ``absent`` leave nothing, ``endings`` gives some another end than Succeeded.

    ``change`` may alter a record before it is sealed, ``rename`` gives trials other names than the plan's.
    """
    folder.mkdir(parents=True, exist_ok=True)
    tree = of.wire()
    (folder / "experiment.yaml").write_text(yaml.safe_dump(tree, sort_keys=True))
    for order, trial in enumerate(make_plan(of).trials):
        if trial.name in absent:
            continue
        phase, reason, message = (endings or {}).get(trial.name, (TrialPhase.succeeded, None, ""))
        trial = trial.model_copy(update={"name": rename(trial.name)})
        home = folder / "trials" / trial.name
        home.mkdir(parents=True, exist_ok=True)
        record, files = run(trial, truth, seed=[seed, order], tables=tables)
        extra = evaluations(trial) if evaluations else []
        if extra:
            files[EVALS_FILE] = encode_evaluations(extra)
        update: dict[str, object] = {
            "phase": phase,
            "reason": reason,
            "message": message,
            "facts": {"evaluations": extra, "allreduce": allreduce(trial) if allreduce else []},
            "files": {name: digest(data) for name, data in files.items()},
        }
        if allreduce:
            update |= {"windows": [], "summary": None}
        record = record.model_copy(update=update)
        seal(home, change(record) if change else record)
        for name, data in files.items():
            (home / name).write_bytes(data)
    return folder


def with_windows(record: TrialRecord, windows: Sequence[TrialWindow], later_ns: int = 0) -> TrialRecord:
    """The record of a run that had these windows, one after another: its summary says the same."""
    moved, start = [], windows[0].start_ns + later_ns
    for window in sorted(windows, key=lambda window: window.index):
        moved.append(window.model_copy(update={"start_ns": start, "fastest_ns": window.wall_ns}))
        start += window.wall_ns
    train = [window for window in moved if window.kind is WindowKind.train]
    samples, wall_s = sum(window.samples for window in train), sum(window.wall_ns for window in train) / 1e9
    told = {"samples": samples, "wall_s": wall_s, "throughput": samples / wall_s, "step": None}
    summary = record.summary.model_copy(update=told) if record.summary else None
    return record.model_copy(update={"windows": moved, "summary": summary, "timeline": []})


def seal(home: Path, record: TrialRecord) -> None:
    """Write ``trial.json`` as an engine does."""
    (home / "trial.json").write_text(record.sealed().model_dump_json(by_alias=True, exclude_none=True, indent=1))


def run(trial: TrialSpec, truth: Truth, seed: Sequence[int], tables: bool) -> tuple[TrialRecord, dict[str, bytes]]:
    """One trial: its record and its tables."""
    rng = np.random.default_rng(list(seed))
    point, measure = trial.point, trial.measure
    per_worker = point.batch_per_worker or 64
    kinds = _kinds(trial)
    window_of = np.concatenate(
        [np.full(truth.warmup_steps, -1), np.repeat(np.arange(len(kinds)), measure.steps_per_window)]
    ).astype(np.int32)
    slowest = _slowest_ns(trial, truth, kinds, window_of, rng)
    start = EPOCH_NS + int(seed[-1]) * 3_600_000_000_000
    ends = np.cumsum(slowest)
    windows = [
        _window(index, kind, window_of, slowest, ends, start, per_worker * point.workers, truth, point.workers)
        for index, kind in enumerate(kinds)
    ]
    files = {}
    if tables:
        journals = _journals(truth, point.workers, window_of, slowest, ends, start, per_worker, rng)
        files[STEPS_FILE] = encode_steps(journals)
    return _record(trial, truth, windows, slowest, window_of, start, int(ends[-1])), files


def _kinds(trial: TrialSpec) -> list[WindowKind]:
    other = WindowKind.plain if trial.point.workers == 1 else WindowKind.no_communication
    pair = [WindowKind.train, other] if trial.measure.exposed_communication else [WindowKind.train]
    return pair * trial.measure.windows


def _slowest_ns(
    trial: TrialSpec, truth: Truth, kinds: list[WindowKind], window_of: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    count = len(window_of)
    noise = _ar1(rng, count, truth.autocorrelation) * truth.step_cv
    sigma = np.sqrt(np.log1p(truth.repetition_cv**2))
    mean = truth.step_s(trial.point) * np.exp(sigma * rng.standard_normal() - sigma**2 / 2)
    factor = np.array([1.0 if k is WindowKind.train else 1 - truth.exposed_share(trial.point) for k in kinds] + [1.0])
    steps = mean * (1 + noise) * factor[window_of]
    if truth.shape is not None:
        steps = steps * truth.shape(trial, np.arange(count))
    return np.asarray(np.maximum(1, np.rint(steps * 1e9)), np.int64)


def _ar1(rng: np.random.Generator, count: int, phi: float) -> np.ndarray:
    """A stationary AR(1) series of variance 1, by repeated doubling of the filter (vectorised, exact)."""
    noise = rng.standard_normal(count) * np.sqrt(1 - phi**2)
    noise[0] = rng.standard_normal()
    lag, weight = 1, phi
    while lag < count and abs(weight) > 1e-12:
        noise[lag:] = noise[lag:] + weight * noise[:-lag]
        lag, weight = lag * 2, weight * weight
    return np.asarray(noise)


def _window(
    index: int,
    kind: WindowKind,
    window_of: np.ndarray,
    slowest: np.ndarray,
    ends: np.ndarray,
    start: int,
    batch: int,
    truth: Truth,
    workers: int,
) -> TrialWindow:
    steps = np.flatnonzero(window_of == index)
    wall = int(slowest[steps].sum())
    return TrialWindow(
        index=index,
        kind=kind,
        start_ns=start + int(ends[steps[0]] - slowest[steps[0]]),
        wall_ns=wall,
        fastest_ns=wall - wall // 1000,
        slowest_rank=0,
        first_step=int(steps[0]),
        steps=len(steps),
        samples=batch * len(steps),
        energy_j=None if truth.energy_w is None else truth.energy_w * workers * wall / 1e9,
    )


def _journals(
    truth: Truth,
    workers: int,
    window_of: np.ndarray,
    slowest: np.ndarray,
    ends: np.ndarray,
    start: int,
    per_worker: int,
    rng: np.random.Generator,
) -> dict[int, bytes]:
    count = len(slowest)
    last = rng.integers(0, workers, count) if truth.slow_rank is None else np.full(count, truth.slow_rank % workers)
    journals = {}
    for rank in range(workers):
        ahead = np.abs(rng.standard_normal(count, dtype=np.float32)) * truth.behind
        rows = np.zeros(count, dtype=np.dtype(journal.ROW_DTYPE))
        rows["step"] = np.arange(count)
        rows["window"] = window_of
        rows["start_ns"] = start + ends - slowest
        rows["duration_ns"] = np.where(last == rank, slowest, (slowest * (1 - np.minimum(ahead, 0.5))).astype(np.int64))
        rows["samples"] = per_worker
        rows["loss"] = np.nan
        journals[rank] = journal.HEADER.pack(journal.MAGIC, rank, journal.ROW.size) + rows.tobytes()
    return journals


def _record(
    trial: TrialSpec,
    truth: Truth,
    windows: list[TrialWindow],
    slowest: np.ndarray,
    window_of: np.ndarray,
    start: int,
    length: int,
) -> TrialRecord:
    point = trial.point
    train = [w for w in windows if w.kind is WindowKind.train]
    bare = [w for w in windows if w.kind is WindowKind.no_communication]
    samples, wall = sum(w.samples for w in train), sum(w.wall_ns for w in train) / 1e9
    timed = slowest[np.isin(window_of, [w.index for w in train])] / 1e9
    with_s = wall / sum(w.steps for w in train)
    without_s = sum(w.wall_ns for w in bare) / 1e9 / sum(w.steps for w in bare) if bare else None
    energy = None if truth.energy_w is None else sum(w.energy_j or 0 for w in train)
    return TrialRecord(
        trial=trial,
        phase=TrialPhase.succeeded,
        engine="local",
        topology=[
            RankTopology(
                rank=rank,
                local_rank=rank % point.workers_per_node,
                host=f"node-{rank // point.workers_per_node}",
                pid=1000 + rank,
                device=f"cpu:{rank}",
                device_name=truth.device_name,
                cores=[rank],
                threads=1,
            )
            for rank in range(point.workers)
        ],
        backend=trial.workload.carrier(on_gpu=False) or "gloo",
        strategy=trial.workload.wrapper() or "DistributedDataParallel",
        versions={"python": "3.11", "torch": "2.14.1"},
        environment={"OMP_NUM_THREADS": "1"},
        parameter_checksums=["c0ffee"] * point.workers,
        parameters=11_689_512,
        flops_per_sample=1.1e10,
        peak_flops=1e13,
        warmup=Warmup(steps=truth.warmup_steps, rule="20 steps, then stable", stable=True),
        windows=windows,
        checks=[Check(name="world size", passed=True, detail=f"{point.workers} of {point.workers}")],
        device_samples=[
            None if truth.energy_w is None else DeviceSamples(count=10, power_w_mean=truth.energy_w, sm_mhz_mean=1900.0)
        ]
        * point.workers,
        foreign_load=[0.01] * point.workers,
        summary=Summary(
            samples=samples,
            wall_s=wall,
            throughput=samples / wall,
            step=StepTimes(
                count=len(timed),
                mean=float(timed.mean()),
                median=float(np.median(timed)),
                p95=float(np.quantile(timed, 0.95)),
                p99=float(np.quantile(timed, 0.99)),
                maximum=float(timed.max()),
            ),
            exposed=None
            if without_s is None
            else Exposed(method="no_sync", with_s=with_s, without_s=without_s, exposed_s=with_s - without_s),
            energy_j=energy,
            energy_j_per_sample=None if energy is None else energy / samples,
        ),
        timeline=[Timeline(phase="Running", at_ns=start), Timeline(phase="Succeeded", at_ns=start + length)],
    )
