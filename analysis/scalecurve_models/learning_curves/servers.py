"""Optimus' speed over workers and servers, fed by measured parameter servers, and the time to a target that follows.

Eq. 4 (synchronous) and Eq. 3 (asynchronous) are fitted to the steps of every curve of one program that differs in
nothing but ``parameterServer.servers``; the steps to the target are those that the runs took. Time is their quotient.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from scalecurve.bundle.open import Bundle
from scalecurve.render.table import Cell, Column, Table, columns_of
from scalecurve_api.programs.torch_options import Updates
from scalecurve_api.spec.scaling import Mode
from scalecurve_models.fitting.least_squares import FitError
from scalecurve_models.fitting.observations import ObservedPoint, ObservedSeries, observed_series
from scalecurve_models.fitting.parameter_tables import PARAMETER_COLUMNS, PARAMETER_NOTE, parameter_cells
from scalecurve_models.learning_curves.fit import LearningFit
from scalecurve_models.optimus.speed import EQUATIONS, Kind, SpeedFit, fit_speed

SERVERS = "parameterServer.servers"


@dataclass(frozen=True)
class ServedPoint:
    """A measured point: workers, servers, samples of a step, steps/s of every repetition, seconds to the target."""

    workers: int
    servers: int
    batch: float
    steps_per_s: tuple[float, ...]
    to_target_s: float | None


@dataclass(frozen=True)
class ServedProgram:
    """One program with several numbers of servers, and its fit; ``failure`` says why there is none.

    ``steps`` are those to the target: the median over points whose runs all reached it, where the global batch is one
    and so the steps do not depend on the workers.
    """

    name: str
    kind: Kind
    points: tuple[ServedPoint, ...]
    fit: SpeedFit | None
    failure: str
    steps: float | None

    @property
    def servers(self) -> list[int]:
        return sorted({point.servers for point in self.points})

    def seconds(self, workers: int, servers: int) -> float | None:
        """Predicted seconds to the target; None where steps or speed are not known."""
        if self.fit is None or self.steps is None:
            return None
        rate = self.fit.predict(workers, servers=servers, batch=self.points[0].batch).value
        return self.steps / rate


def server_programs(bundle: Bundle, learning: LearningFit) -> tuple[ServedProgram, ...]:
    """Every program of a bundle that parameter servers trained."""
    workloads = {trial.spec.point.series: trial.spec.workload for trial in bundle.trials}
    groups: dict[tuple[object, ...], list[tuple[ObservedSeries, int]]] = {}
    for series in observed_series(bundle):
        workload = workloads[series.name]
        options = workload.parameter_servers
        if options is not None and series.has_steps:
            others = tuple((name, str(value)) for name, value in series.axes if name != SERVERS)
            key = (series.mode, options.updates, *others)
            groups.setdefault(key, []).append((series, options.servers))
    return tuple(program_of(key, curves, learning) for key, curves in groups.items())


def program_of(
    key: tuple[object, ...], curves: Sequence[tuple[ObservedSeries, int]], learning: LearningFit
) -> ServedProgram:
    """The curves of one program with the servers of each, fitted; ``key`` is (mode, updates, further axes...)."""
    mode, updates, *others = key
    kind: Kind = "sync" if updates is Updates.synchronous else "async"
    reached = {point.point.name: point for point in learning.points}
    points = [
        ServedPoint(
            workers=point.workers,
            servers=servers,
            batch=point.batch,
            steps_per_s=_speeds(point, kind),
            to_target_s=reached[point.point.name].reached_s if point.point.name in reached else None,
        )
        for series, servers in curves
        for point in series.points
    ]
    names = {point.point.name for series, _ in curves for point in series.points}
    taken = [fit.reached_steps for name, fit in reached.items() if name in names and fit.reached_steps]
    rows = [(point, rate) for point in points for rate in point.steps_per_s]
    fit, failure = None, ""
    try:
        fit = fit_speed(
            kind,
            [point.workers for point, _ in rows],
            [rate for _, rate in rows],
            servers=[point.servers for point, _ in rows],
            batch=[point.batch for point, _ in rows],
        )
    except FitError as error:
        failure = str(error)
    named = [f"{name}={value}" for name, value in (pair for pair in others if isinstance(pair, tuple))]
    name = " ".join([str(getattr(mode, "value", mode)), *named])
    # Of weak scaling a step has more samples with more workers, and so fewer of them are needed.
    steps = median(taken) if taken and mode is Mode.strong else None
    return ServedProgram(name, kind, tuple(points), fit, failure, steps)


def _speeds(point: ObservedPoint, kind: Kind) -> tuple[float, ...]:
    """Steps/s; asynchronously every worker makes its own, and Eq. 3 counts those of all."""
    times = point.workers if kind == "async" else 1
    return tuple(times / each.step_s for each in point.repetitions)


def served_tables(programs: Sequence[ServedProgram]) -> tuple[Table, ...]:
    """Speed and time to the target over workers and servers, measured and by the fit; and its coefficients."""
    tables = (_speed(programs), _coefficients(programs))
    return tuple(table for table in tables if table.rows)


def _speed(programs: Sequence[ServedProgram]) -> Table:
    columns = (
        Column("series", "Series"),
        *columns_of("count", servers="Servers", workers="Workers"),
        *columns_of("number", "steps/s", measured="Speed", predicted="By the equation"),
        Column("error", "Error", "percent"),
        *columns_of("number", "s", to_target_s="Time to target", predicted_s="Predicted time"),
    )
    rows: list[tuple[Cell, ...]] = []
    for program in programs:
        for point in sorted(program.points, key=lambda point: (point.servers, point.workers)):
            measured, fit = median(point.steps_per_s), program.fit
            rate = None
            if fit is not None:
                rate = fit.predict(point.workers, servers=point.servers, batch=point.batch).value
            rows.append(
                (
                    *(program.name, point.servers, point.workers, measured, rate),
                    None if rate is None else rate / measured - 1,
                    *(point.to_target_s, program.seconds(point.workers, point.servers)),
                )
            )
    notes = [EQUATIONS[kind].equation for kind in dict.fromkeys(program.kind for program in programs)]
    notes += dict.fromkeys(note for program in programs if program.fit for note in program.fit.notes)
    notes += dict.fromkeys(f"{program.name}: {program.failure}" for program in programs if program.failure)
    notes.append("The error is that of the fit at its own points. Predicted time: median steps to the target / speed.")
    return Table("servers", "Speed and time to the target with parameter servers", columns, tuple(rows), tuple(notes))


def _coefficients(programs: Sequence[ServedProgram]) -> Table:
    rows = [
        (program.name, *parameter_cells(parameter))
        for program in programs
        if program.fit is not None
        for parameter in program.fit.parameters
    ]
    columns = (Column("series", "Series"), *PARAMETER_COLUMNS)
    return Table(
        "servers_parameters", "Coefficients of the speed with servers", columns, tuple(rows), (PARAMETER_NOTE,)
    )
