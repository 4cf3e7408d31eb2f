"""Tidy pandas frames of a bundle, for ``groupby`` and ``pivot``: one row a point, a trial, or a step of a rank."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from scalecurve.bundle.open import Bundle
from scalecurve.bundle.steps import every_column
from scalecurve.bundle.trial import Trial
from scalecurve.curves.compute import scaling
from scalecurve.curves.results import PointResult
from scalecurve.statistics.estimate import Estimate
from scalecurve_api.record.tables import STEPS_FILE
from scalecurve_api.spec.trial import Point

if TYPE_CHECKING:
    import pandas as pd

AXIS = "axis."
"""How the name of a column begins that holds the values of an axis of the matrix, e.g. ``axis.allReduce``."""
_ENDS = ("", "_low", "_high")


@dataclass(frozen=True)
class FrameColumn:
    """A column that every frame of its kind has."""

    name: str
    dtype: str
    meaning: str


def _columns(dtype: str, /, **meanings: str) -> tuple[FrameColumn, ...]:
    return tuple(FrameColumn(name, dtype, meaning) for name, meaning in meanings.items())


_POINT = (
    *_columns("string", series="the curve: everything but the worker count", mode="`strong` or `weak`"),
    *_columns(
        "Int64",
        workers="worker count",
        nodes="machines",
        workers_per_node="workers on each",
        global_batch="planned samples of a step over all workers",
        batch_per_worker="planned samples of a step on each worker",
    ),
)
_ESTIMATES = {
    "throughput": "samples/s over all workers",
    "step_s": "step time, s",
    "speedup": "S(N) = T(N)/T(N0)",
    "efficiency": "E(N) = S(N)·N0/N, 1 for ideal",
    "exposed_share": "exposed communication as a share of the step",
    "mfu": "model FLOPs utilization, a share",
    "energy_j": "energy of a sample, J",
}
POINTS = (
    *_POINT,
    *_columns(
        "float64",
        **{
            name + end: meaning if not end else f"{end[1:]} end of its 95 % interval; missing where it is not known"
            for name, meaning in _ESTIMATES.items()
            for end in _ENDS
        },
    ),
    *_columns("Int64", planned="trials planned", succeeded="trials that count"),
    *_columns("string", marks="why it is not measured and proved here, such as `Imported`; empty if it is"),
)
_SUMMARY = {
    "throughput": "samples/s over all workers",
    "wall_s": "time of the timed windows, s",
    "loader_s": "time of a step spent waiting for the data loader, s",
    "mfu": "model FLOPs utilization, a share",
    "energy_j": "energy of the timed windows, J",
    "peak_memory_bytes": "peak memory of the worker that used most",
    "last_loss": "last loss of the timed windows",
    "final_accuracy": "validation accuracy after the last epoch, a share",
    "best_accuracy": "best validation accuracy, a share",
    "seconds_to_target": "training time to the target accuracy, s",
}
TRIALS = (
    *_columns("string", trial="its name"),
    *_POINT,
    *_columns("Int64", repetition="from 0", session="from 0"),
    *_columns("string", phase="how it ended; missing if it has not", reason="why, such as `NoCommunication`"),
    *_columns("string", sample_unit="what a sample is: `samples`, `tokens`, ..."),
    *_columns("float64", step_s="mean step time, s", exposed_s="exposed communication of a step, s", **_SUMMARY),
)
STEPS = (
    *_columns("string", trial="its name"),
    *_columns("int32", rank="number of the worker, from 0", step="number of the step, from 0"),
    *_columns("int32", window="number of the window, -1 outside of any, as in warm-up"),
    *_columns(
        "string",
        kind="`train`, or `no-communication` without the all-reduce; missing outside windows",
    ),
    *_columns("int64", start_ns="when it began, Unix time, ns", duration_ns="duration, ns"),
    *_columns("int32", samples="samples of the rank"),
    *_columns("float32", loss="training loss; missing where it was not read"),
)


@dataclass(frozen=True)
class Frames:
    """The frames of a bundle, each made when it is first asked for.

    Beside their columns of `docs/reference/frames.md`, points and trials have one for each axis of the matrix.
    """

    bundle: Bundle

    @cached_property
    def points(self) -> pd.DataFrame:
        """One row a point, with what `scalecurve status` and `report` say of it."""
        points = [point for series in scaling([self.bundle]).series for point in series.points]
        return _frame(POINTS, ((point.point, _point_row(point)) for point in points))

    @cached_property
    def trials(self) -> pd.DataFrame:
        """One row a planned trial, whether it succeeded or not."""
        return _frame(TRIALS, ((trial.spec.point, _trial_row(trial)) for trial in self.bundle.trials))

    @cached_property
    def steps(self) -> pd.DataFrame:
        """One row a step of a rank, of the trials that succeeded and have a step table.

        Raises:
            FileError: when a table does not match the digest in its record.
        """
        import pandas as pd

        recorded = [trial for trial in self.bundle.trials if trial.good and _has_steps(trial)]
        frames = [_add_window_kind(every_column(trial).to_pandas(), trial) for trial in recorded]
        steps = pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()
        return _set_column_types(STEPS, steps)


def frame(bundle: Bundle) -> Frames:
    """Read a bundle as tidy pandas frames: ``points``, ``trials`` and ``steps``.

    Args:
        bundle: What `open_bundle` returned.

    Returns:
        The frames, with the columns and dtypes of `docs/reference/frames.md`; pandas is imported with the first.
    """
    return Frames(bundle)


def _point_row(point: PointResult) -> dict[str, Any]:
    return {
        **{name + end: value for name in _ESTIMATES for end, value in _ends(getattr(point, name))},
        "planned": point.counts.planned,
        "succeeded": point.counts.succeeded,
        "marks": ", ".join(point.marks),
    }


def _ends(estimate: Estimate | None) -> Iterable[tuple[str, float | None]]:
    if estimate is None:
        return ((end, None) for end in _ENDS)
    interval = (None, None) if estimate.unknown else (estimate.low, estimate.high)
    return zip(_ENDS, (estimate.value, *interval), strict=True)


def _trial_row(trial: Trial) -> dict[str, Any]:
    row: dict[str, Any] = {"trial": trial.name, "repetition": trial.spec.repetition, "session": trial.spec.session}
    if (record := trial.record) is None:
        return row
    row |= {"phase": record.phase.value, "reason": record.reason}
    if (summary := record.summary) is None:
        return row
    row |= {name: getattr(summary, name) for name in ("sample_unit", *_SUMMARY)}
    row["step_s"] = summary.step and summary.step.mean
    row["exposed_s"] = summary.exposed and summary.exposed.exposed_s
    return row


def _frame(columns: Sequence[FrameColumn], rows: Iterable[tuple[Point, Mapping[str, Any]]]) -> pd.DataFrame:
    import pandas as pd

    described = [{**_point_fields(point), **row} for point, row in rows]
    return _set_column_types(columns, pd.DataFrame.from_records(described))


def _point_fields(point: Point) -> dict[str, Any]:
    fields = point.model_dump(include={column.name for column in _POINT}, mode="json")
    return fields | {f"{AXIS}{axis}": value for axis, value in point.axes.items()}


def _set_column_types(columns: Sequence[FrameColumn], frame: pd.DataFrame) -> pd.DataFrame:
    axes = [name for name in frame if str(name).startswith(AXIS)]
    frame = frame.reindex(columns=[*(column.name for column in columns), *axes])
    return frame.astype({column.name: column.dtype for column in columns})


def _has_steps(trial: Trial) -> bool:
    return trial.record is not None and STEPS_FILE in trial.record.files


def _add_window_kind(steps: pd.DataFrame, trial: Trial) -> pd.DataFrame:
    kinds = {window.index: window.kind.value for window in trial.record.windows} if trial.record else {}
    return steps.assign(trial=trial.name, kind=steps["window"].map(kinds))
