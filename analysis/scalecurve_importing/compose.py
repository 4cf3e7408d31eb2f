"""Readings -> one experiment that describes them, and a sealed record of each, as an engine would have left them.

A stated rate becomes one window of that rate: of a step where the batch is known, else of a second's work.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

from scalecurve_api.features.collectives.facts import ALLREDUCE, COLLECTIVES
from scalecurve_api.model import canonical_json
from scalecurve_api.planning.axes import AxisError
from scalecurve_api.planning.plan import MAX_TRIALS, count_trials, make_plan
from scalecurve_api.record.rank import WindowKind
from scalecurve_api.record.trial_record import Origin, Summary, TrialRecord, TrialWindow
from scalecurve_api.spec.experiment import ScalingExperiment
from scalecurve_api.spec.scaling import Mode
from scalecurve_api.spec.trial import InvalidReason, TrialPhase, TrialSpec
from scalecurve_api.text import count as counted
from scalecurve_api.text import few
from scalecurve_importing.collectives import merge_collectives
from scalecurve_importing.reading import Reading, SourceError, Stretch, Unit, Value

ENGINE = "import"
_LEAST_NS = 1_000_000_000  # a window of a second at least keeps nine digits of a rate
_MOST_NS = 10**17
_NOT_STATED = "not stated"


@dataclass(frozen=True)
class Composed:
    """An experiment as it stands in ``experiment.yaml``, and the records of its trials.

    ``formats`` has the format of each source, ``units`` how its columns were read: ``rate: tokens/s of one worker``.
    """

    experiment: ScalingExperiment
    records: tuple[TrialRecord, ...]
    notes: tuple[str, ...]
    formats: Mapping[str, str] = field(default_factory=dict)
    units: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Placed:
    """A reading with everything that a point needs."""

    reading: Reading
    mode: Mode
    nodes: int
    axes: Mapping[str, Value]
    repetition: int = 0

    @property
    def run(self) -> tuple[str, int, int, str, int]:
        return (*self.point, self.repetition)

    @property
    def point(self) -> tuple[str, int, int, str]:
        each = self.reading.workers // self.nodes
        return self.mode.value, self.nodes, each, canonical_json(dict(self.axes))


def compose(name: str, readings: Sequence[Reading]) -> Composed:
    """Compose the experiment ``name`` that has these readings as its trials.

    Raises SourceError when they do not describe one experiment: they lack the mode, or have two prices or units.
    """
    if not readings:
        raise SourceError("no run in the sources")
    collective = {reading.times_collectives for reading in readings}
    if len(collective) > 1:
        raise SourceError("the sources have collectives and trainings; import them into a bundle each")
    if collective == {True}:
        readings = _require_one_benchmark(readings)
        if any(reading.collectives for reading in readings):
            readings = merge_collectives(readings)
    placed, constants = _place_readings(readings)
    counts: dict[tuple[str, int, int, str], int] = {}
    numbered, places = [], dict[object, str]()
    for each in placed:
        if each.reading.repetition is not None:
            copied = (each.point, each.reading.repetition, each.reading.stretches, each.reading.allreduce)
            if (earlier := places.setdefault(copied, each.reading.place)) != each.reading.place:
                repetition = f"repetition {each.reading.repetition} of {counted(each.reading.workers, 'worker')}"
                raise SourceError(
                    f"{each.reading.place}: has {repetition} again, as {earlier} has it: remove one of them"
                )
        number = counts.get(each.point, 0)
        counts[each.point] = number + 1
        numbered.append(_Placed(each.reading, each.mode, each.nodes, each.axes, number))
    workload = _allreduce(readings, constants) if collective == {True} else _training(readings, constants)
    experiment = _experiment(name, numbered, workload, max(counts.values()))
    planned = {_run_of(trial): trial for trial in make_plan(experiment).trials}
    records = tuple(_record(planned[each.run], each.reading) for each in numbered)
    notes = [f"{reading.place}: {reading.wrong}" for reading in readings if reading.wrong]
    notes += [] if all(reading.nodes for reading in readings) else ["nodes not stated: taken as one node"]
    return Composed(experiment, records, tuple(notes))


def _place_readings(readings: Sequence[Reading]) -> tuple[list[_Placed], dict[str, Value]]:
    """Every reading with its mode and axes; and the factors that are the same in all of them."""
    factors: list[dict[str, Value]] = [{**r.factors, **({"model": r.model} if r.model else {})} for r in readings]
    _tell_accumulations_apart(readings, factors)
    names = list(dict.fromkeys(name for each in factors for name in each))
    values = {name: {each.get(name, _NOT_STATED) for each in factors} for name in names}
    varied = [name for name in names if len(values[name]) > 1]
    groups: dict[str, list[int]] = {}
    for index, each in enumerate(factors):
        key = canonical_json([str(each.get(name, _NOT_STATED)) for name in varied])
        groups.setdefault(key, []).append(index)
    modes = {i: mode for group in groups.values() for i, mode in _modes([readings[i] for i in group], group)}
    batches: dict[Mode, set[int | None]] = {}
    for index, reading in enumerate(readings):
        batches.setdefault(modes[index], set()).add(_batch_of_mode(reading, modes[index]))
    placed = []
    for index, (reading, each) in enumerate(zip(readings, factors, strict=True)):
        axes = {_axis(name): each.get(name, _NOT_STATED) for name in varied}
        mode = modes[index]
        if len(batches[mode]) > 1:
            if (batch := _batch_of_mode(reading, mode)) is None:
                raise SourceError(f"{reading.place}: states no batch, and other runs do")
            axes[f"batch.{_HELD[mode]}"] = batch
        placed.append(_Placed(reading, mode, reading.nodes or 1, axes))
    if len({canonical_json(sorted(each.axes)) for each in placed}) > 1:
        raise SourceError("strong and weak runs have several batches each; import them into a bundle each")
    constants = {name: value for name in names if name not in varied for value in values[name]}
    return placed, constants


def _tell_accumulations_apart(readings: Sequence[Reading], factors: Sequence[dict[str, Value]]) -> None:
    """Make accumulation a factor where runs that are alike otherwise differ in it; a curve at one batch may vary it."""
    alike: dict[str, set[int]] = {}
    for reading, each in zip(readings, factors, strict=True):
        key = canonical_json([reading.workers, reading.nodes, reading.mode, reading.global_batch, each])
        alike.setdefault(key, set()).add(reading.accumulation)
    if any(len(accumulations) > 1 for accumulations in alike.values()):
        for reading, each in zip(readings, factors, strict=True):
            each["accumulation"] = reading.accumulation


_HELD = {Mode.strong: "global", Mode.weak: "perWorker"}


def _batch_of_mode(reading: Reading, mode: Mode) -> int | None:
    """The batch that a mode keeps along the worker counts."""
    return reading.global_batch if mode is Mode.strong else reading.batch_per_worker


def _axis(name: str) -> str:
    return name if name == "model" or "." in name else f"parameters.{name}"


def _modes(readings: Sequence[Reading], indices: Sequence[int]) -> list[tuple[int, Mode]]:
    """The mode of each run of a curve: as stated, or by the batch that stays the same."""
    unstated = [reading for reading in readings if reading.mode is None]
    inferred = Mode.strong
    if unstated and len({reading.workers for reading in unstated}) > 1 and not unstated[0].times_collectives:
        shares, totals = ({getattr(r, name) for r in unstated} for name in ("batch_per_worker", "global_batch"))
        if None in shares:
            place = unstated[0].place
            raise SourceError(f"{place}: strong or weak scaling? add a column mode or the batch, or --set mode=weak")
        if len(shares) > 1 and len(totals) > 1:
            held = f"batches per worker {few(sorted(shares))}, global {few(sorted(totals))}"
            raise SourceError(f"{unstated[0].place}: strong or weak scaling? neither batch stays the same ({held})")
        inferred = Mode.weak if len(shares) == 1 else Mode.strong
    elif unstated and unstated[0].batch_per_worker and not unstated[0].global_batch:
        inferred = Mode.weak
    return [(index, reading.mode or inferred) for index, reading in zip(indices, readings, strict=True)]


def _training(readings: Sequence[Reading], constants: Mapping[str, Value]) -> dict[str, Any]:
    if len(units := {reading.unit for reading in readings}) > 1:
        raise SourceError(f"the sources count in {few(sorted(units))}; import each into a bundle of its own")
    rest = {name: value for name, value in constants.items() if name != "model"}
    model = {"model": str(constants["model"])[:100]} if "model" in constants else {}
    return {"program": "imported", **model, **({"parameters": rest} if rest else {})}


def _require_one_benchmark(readings: Sequence[Reading]) -> Sequence[Reading]:
    """All-reduces whose data type may be an axis; raises SourceError for what one curve cannot hold."""
    typed = all("sizes.dtype" in reading.factors for reading in readings)
    for name in dict.fromkeys(name for reading in readings for name in reading.benchmark):
        values = dict.fromkeys(reading.benchmark[name] for reading in readings if name in reading.benchmark)
        if len(values) > 1 and not (typed and name == "data type"):
            raise SourceError(
                f"{readings[0].place}: the benchmarks differ in {name} ({few(values)}), and a curve has one: import "
                "each into a bundle of its own, and give all of them to allreduce or fit"
            )
    return readings if typed else [replace(reading, factors={}) for reading in readings]


def _allreduce(readings: Sequence[Reading], constants: Mapping[str, Value]) -> dict[str, Any]:
    rows = [row for reading in readings for row in (*reading.allreduce, *reading.collectives)]
    sizes, iterations = [row.bytes for row in rows], max(row.iterations for row in rows)
    backends = {reading.backend for reading in readings}
    backend = {"backend": backends.pop()} if len(backends) == 1 and None not in backends else {}
    measured: dict[str, Value] = {"minBytes": min(sizes), "maxBytes": max(sizes), "iterations": max(1, iterations)}
    measured |= {"dtype": constants["sizes.dtype"]} if "sizes.dtype" in constants else {}
    kinds = list(dict.fromkeys(row.collective.value for reading in readings for row in reading.collectives))
    program = {"program": "collectives", "collectives": kinds} if kinds else {"program": "allreduce"}
    return {**program, **backend, "sizes": measured}


def _experiment(name: str, placed: Sequence[_Placed], workload: dict[str, Any], repetitions: int) -> ScalingExperiment:
    readings = [each.reading for each in placed]
    prices = {each.price for each in readings}
    if len(prices) > 1:
        spelled = few(sorted(f"{p.per_worker_hour:g} {p.currency}" if p else "none" for p in prices))
        raise SourceError(
            f"the sources have several prices of a worker's hour ({spelled}), a bundle has one: import each device "
            "into a bundle of its own, and give all of them to report, cost or fit"
        )
    batch = {}
    for mode in dict.fromkeys(each.mode for each in placed):
        held = {_batch_of_mode(each.reading, mode) for each in placed if each.mode is mode}
        if len(held) == 1 and (value := held.pop()) is not None:
            batch[_HELD[mode]] = value
    matrix: dict[str, list[Value]] = {}
    for each in placed:
        for axis, level in each.axes.items():
            if level not in matrix.setdefault(axis, []):
                matrix[axis].append(level)
    layouts = sorted({(each.reading.workers, each.nodes) for each in placed})
    price = prices.pop()
    tree = {
        "apiVersion": "scalecurve.dev/v1alpha1",
        "kind": "ScalingExperiment",
        "metadata": {"name": name},
        "spec": {
            "scaling": {
                "modes": list(dict.fromkeys(each.mode.value for each in placed)),
                "workers": sorted({reading.workers for reading in readings}),
                **({"batch": batch} if batch else {}),
            },
            "placement": {"layouts": [f"{nodes}x{workers // nodes}" for workers, nodes in layouts]},
            "workload": workload,
            **({"matrix": matrix} if matrix else {}),
            "measure": {"repetitions": repetitions, "windows": 1, "exposedCommunication": False},
            **({"cost": {"perWorkerHour": price.per_worker_hour, "currency": price.currency}} if price else {}),
        },
    }
    try:
        experiment = ScalingExperiment.model_validate(tree)
        if count_trials(experiment.spec, MAX_TRIALS) > MAX_TRIALS:
            raise SourceError(f"its factors span more than {MAX_TRIALS} combinations; drop some with --ignore")
        return experiment
    except AxisError as error:
        raise SourceError(str(error)) from error
    except ValueError as error:
        if isinstance(error, SourceError):
            raise
        first = error.errors()[0] if hasattr(error, "errors") else {"loc": (), "msg": str(error)}
        where = ".".join(str(part) for part in first["loc"])
        raise SourceError(f"the sources make no experiment: {where}: {first['msg']}") from error


def _record(trial: TrialSpec, reading: Reading) -> TrialRecord:
    windows = _windows(reading.stretches)
    samples, wall_s = sum(w.samples for w in windows), sum(w.wall_ns for w in windows) / 1e9
    busbw = max((row.busbw for row in reading.allreduce), default=None)
    summary = Summary(
        samples=samples,
        wall_s=wall_s,
        throughput=samples / wall_s if wall_s else 0.0,
        sample_unit=reading.unit.value,
        final_accuracy=reading.final_accuracy,
        seconds_to_target=reading.seconds_to_target,
        peak_busbw=busbw,
    )
    return TrialRecord(
        trial=trial,
        phase=TrialPhase.invalid if reading.wrong else TrialPhase.succeeded,
        reason=InvalidReason.wrong_math.value if reading.wrong else None,
        message="; ".join([reading.wrong] if reading.wrong else reading.notes),
        engine=ENGINE,
        origin=Origin.imported,
        source=reading.place,
        topology=list(reading.topology),
        backend=reading.backend,
        versions=dict(reading.versions),
        environment=dict(reading.environment),
        options={"datasetSamples": 1} if reading.unit is Unit.runs else {},
        windows=windows,
        facts={ALLREDUCE.name: list(reading.allreduce), COLLECTIVES.name: list(reading.collectives)},
        transports=[reading.transport] if reading.transport else [],
        summary=summary if windows or reading.times_collectives else None,
    ).sealed()


def _windows(stretches: Sequence[Stretch]) -> list[TrialWindow]:
    windows: list[TrialWindow] = []
    start = step = 0
    for index, stretch in enumerate(stretches):
        copies = _copies(stretch)
        wall_ns, steps = round(stretch.seconds * copies * 1e9), (stretch.steps or 0) * copies
        windows.append(
            TrialWindow(
                index=index,
                kind=WindowKind.train,
                start_ns=start,
                wall_ns=wall_ns,
                fastest_ns=wall_ns,
                slowest_rank=0,
                first_step=step,
                steps=steps,
                samples=round(stretch.work * copies),
            )
        )
        start, step = start + wall_ns, step + steps
    return windows


def _copies(stretch: Stretch) -> int:
    """How often a stretch is taken so that its work is whole and its nanoseconds have enough digits."""
    copies = 1
    exact = Decimal(repr(stretch.work))
    while stretch.seconds * copies * 1e9 < _MOST_NS / 10 and (
        stretch.seconds * copies * 1e9 < _LEAST_NS or exact * copies != (exact * copies).to_integral_value()
    ):
        copies *= 10
    return copies


def _run_of(trial: TrialSpec) -> tuple[str, int, int, str, int]:
    point = trial.point
    return point.mode.value, point.nodes, point.workers_per_node, canonical_json(dict(point.axes)), trial.repetition
