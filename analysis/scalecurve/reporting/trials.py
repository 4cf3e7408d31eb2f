"""Every trial of a report, and where its record and its logs are."""

from collections.abc import Sequence

from scalecurve.bundle.open import Bundle
from scalecurve.bundle.problem import FileError
from scalecurve.bundle.record_file import RECORD_FILE
from scalecurve.bundle.trial import TRIALS_FOLDER, Trial
from scalecurve.render.table import Cell, Column, Table, experiment_column

RECORD, LOGS = "record", "logs"
"""The columns whose cells a page links to what they name."""
TRIALS = "trials"
PLACE = ("series", "workers", "layout")
"""What tells the points of an experiment apart, in every table that has a row for each."""


def trial_table(bundles: Sequence[Bundle]) -> Table:
    """One row a trial in the order of the plan: its point, how it ended, its throughput, its record and its logs."""
    columns = (
        experiment_column(bundle.label for bundle in bundles),
        *(Column(name, name.capitalize(), detail=True) for name in PLACE),
        Column("trial", "Trial"),
        Column("phase", "Phase"),
        Column("reason", "Reason"),
        Column("throughput", "Throughput", "number", "per second"),
        Column(RECORD, "Record"),
        Column(LOGS, "Logs"),
    )
    rows = tuple((bundle.label, *_row(trial)) for bundle in bundles for trial in bundle.trials)
    return Table(TRIALS, "Trials", columns, rows)


def record_path(trial: Trial) -> str:
    """The path of its record within the bundle; step table and logs are beside it."""
    return f"{TRIALS_FOLDER}/{trial.folder.name}/{RECORD_FILE}"


def logs_path(trial: Trial) -> str | None:
    """The path of its logs within the bundle; None where it has none."""
    folder = f"{TRIALS_FOLDER}/{trial.folder.name}/logs/"
    try:
        return folder if trial.files and trial.files.entries(folder.rstrip("/")) else None
    except FileError:
        return None


def _row(trial: Trial) -> tuple[Cell, ...]:
    record = trial.record
    point = trial.spec.point
    place = point.series, str(point.workers), point.layout
    if record is None:
        return *place, trial.name, None, None, None, None, None
    rate = record.summary.throughput if record.summary else None
    phase = "set aside" if trial.set_aside else record.phase.value if record.phase else None
    return *place, trial.name, phase, record.reason or None, rate, record_path(trial), logs_path(trial)
