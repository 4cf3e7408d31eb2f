"""Files of a stopwatch: a line ``# stopwatch``, then a line ``WORKERS SECONDS SAMPLES`` for every run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from scalecurve_importing.columns import Statements
from scalecurve_importing.importer import Importer
from scalecurve_importing.reading import Reading, SourceError, Stretch
from scalecurve_importing.stated import stated

_FIRST = "# stopwatch"


def recognized(path: Path, head: str) -> bool:
    """Whether a stopwatch wrote this."""
    return head.startswith(_FIRST)


def read(path: Path, statements: Statements) -> list[Reading]:
    """Read every run; raises SourceError for a line that is none."""
    readings = []
    for number, line in enumerate(path.read_text().splitlines()[1:], start=2):
        place = f"{path.name}:{number}"
        try:
            workers, seconds, samples = line.split()
            stretch = Stretch(float(samples), float(seconds))
        except ValueError:
            raise SourceError(f"{place}: got {line!r}, expected WORKERS SECONDS SAMPLES") from None
        facts = {**statements.facts, "workers": workers}
        readings.append(replace(stated(facts, place, lambda _, at=place: at, {}), stretches=(stretch,)))
    return readings


STOPWATCH = Importer(recognized, read)
