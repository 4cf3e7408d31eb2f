"""What a search did, for reports and terminals: a row for each round, and sentences on what it cost and saved."""

from collections.abc import Iterator

from scalecurve.features.search.bundle_file import SearchRecord, SearchRung
from scalecurve.render import formatting
from scalecurve.render.table import Column, Table, table_of
from scalecurve_api.text import count

_WHY = {
    "illegal": "as illegal",
    "memory": "as too large for the device's memory",
    "same": "as they run what another one runs",
}


def search_table(record: SearchRecord) -> Table:
    """Tabulate the rungs, a row each."""
    return table_of(
        "search",
        "Search",
        record.rungs,
        (
            (Column("rung", "Rung", "count"), lambda rung: rung.number),
            (Column("trials", "Trials", "count"), lambda rung: rung.trials),
            (Column("steps", "Steps each", "count"), lambda rung: rung.steps),
            (Column("repetitions", "Repetitions", "count"), lambda rung: rung.repetitions),
            (Column("worker_hours", "Worker-hours", "number", "h"), lambda rung: rung.worker_hours),
            (Column("dropped", "Dropped", "count"), lambda rung: len(rung.dropped)),
            (Column("closest", "Closest dropped, of the best", "percent"), _closest),
        ),
    )


def search_in_words(record: SearchRecord) -> Iterator[str]:
    """Yield sentences on what was refused, what the search cost, and what that saved."""
    for ground, why in _WHY.items():
        refused = [each for each in record.refused if each.ground == ground]
        if refused:
            first = f"{refused[0].layout} at {refused[0].workers}: {refused[0].why}"
            yield f"{len(refused)} of {record.candidates} candidates dropped before a trial, {why}; first {first}"
    cost = f"{count(record.trials, 'trial')}, {formatting.number(record.worker_hours)} worker-hours"
    hours = formatting.number(record.grid_worker_hours)
    grid = f"{count(record.grid_trials, 'trial')}, {hours} worker-hours (estimated)"
    share = record.cost_share
    saved = f": {formatting.percent(1 - share)} saved" if share is not None and share < 1 else ": nothing saved"
    yield f"the search took {cost}; the full grid takes {grid}{saved}"
    if record.grid_unknown:
        yield f"{count(record.grid_unknown, 'trial')} of the grid have no known time and are missing from that estimate"
    failed = sum(each.of_best is None for rung in record.rungs for each in rung.dropped)
    if failed:
        yield f"{failed} candidates were dropped without a valid trial"
    yield "a dropped candidate ran once and briefly: how sure the winner is holds among the finalists"


def _closest(rung: SearchRung) -> float | None:
    return max((each.of_best for each in rung.dropped if each.of_best is not None), default=None)
