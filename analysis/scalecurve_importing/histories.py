"""Rows with a step, an epoch or a time are one run over time: a trial for each run of a table, and no repetitions."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from scalecurve_importing.numbers import number
from scalecurve_importing.reading import Reading
from scalecurve_importing.run_lines import StepLine, runs_of
from scalecurve_importing.series import readings_of

ORDERS = ("step", "epoch", "timestamp")
"""Fields that say when in a run a row was written."""
Row = tuple[Mapping[str, str], Reading]


def histories(file: str, rows: Iterable[Row]) -> list[Reading]:
    """Group a table's rows into runs, which are told apart by everything but their numbers.

    Rows of a run that are all of the same time, such as its last step, are repetitions, as in any table.
    """
    groups: dict[str, list[Row]] = {}
    for cells, reading in rows:
        groups.setdefault(repr(replace(reading, place="", stretches=())), []).append((cells, reading))
    return [reading for group in groups.values() for reading in _run_readings(file, group, len(groups) > 1)]


def _run_readings(file: str, rows: Sequence[Row], several: bool) -> list[Reading]:
    times = [tuple(cells.get(name) for name in ORDERS) for cells, _ in rows]
    first = rows[0][1]
    if len(set(times)) == 1:
        return [reading for _, reading in rows]
    reading = replace(first, place=f"{file}, from {first.place.rpartition(', ')[2]}" if several else file)
    steps = steps_of([cells for cells, _ in rows])
    runs, notes = runs_of([_entry(row, step) for row, step in zip(rows, steps, strict=True)], file)
    return readings_of(reading, runs, notes)


def _entry(row: Row, step: int | None) -> StepLine:
    cells, reading = row
    (stretch,) = reading.stretches
    place = int(reading.place.rpartition(" ")[2])
    process = f"rank {cells['rank']}" if "rank" in cells else ""
    if stretch.steps is None:
        return StepLine(place, step, rate=stretch.work / stretch.seconds, process=process)
    return StepLine(place, step, stretch.seconds, work=stretch.work, process=process)


def steps_of(rows: Sequence[Mapping[str, str]]) -> list[int | None]:
    """Return the step of every row: as it stands there, over all epochs, or else its number since the start."""
    steps: list[int | None] = []
    done, before, epoch_before = 0, None, None
    for cells in rows:
        epoch = number(cells["epoch"], "epoch", zero=True) if "epoch" in cells else None
        if "step" in cells:
            step = number(cells["step"], "step", zero=True)
            if before is not None and step < before and epoch is not None and (epoch_before or 0) < epoch:
                done += int(before)  # steps of each epoch are counted anew
            steps.append(done + int(step))
            before, epoch_before = step, epoch
            continue
        at = epoch if epoch is not None else _seconds(cells.get("timestamp", ""))
        if at is None:
            steps.append(None)
            continue
        done = done + 1 if before is not None and at > before else done if at == before else 1
        steps.append(done)
        before = at
    return steps


def _seconds(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        pass
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return None
