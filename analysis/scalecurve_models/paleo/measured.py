"""Measured steps from a CSV file with the columns ``batch``, ``step_ms`` and optionally ``workers``."""

import csv
from pathlib import Path

from scalecurve_models.fitting.least_squares import FitError
from scalecurve_models.networks.graph import Network
from scalecurve_models.paleo.calibration import MeasuredStep

COLUMNS = ("batch", "step_ms", "workers")


def read_measured(file: Path, network: Network) -> list[MeasuredStep]:
    """Every row of a file as a step of ``network``; ``batch`` is each worker's.

    Raises FitError with the file and the line where it cannot be read, or a column or a value is wrong.
    """
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise FitError(f"{file}: cannot be read: {getattr(error, 'strerror', None) or 'not UTF-8 text'}") from error
    rows = csv.DictReader(lines)
    names = rows.fieldnames or []
    wrong = [name for name in names if name not in COLUMNS] or [name for name in COLUMNS[:2] if name not in names]
    if wrong:
        raise FitError(f"{file}: column {wrong[0]!r}: expected columns batch, step_ms and optionally workers")
    return [_step(row, f"{file}:{number}", network) for number, row in enumerate(rows, start=2)]


def _step(row: dict[str, str], where: str, network: Network) -> MeasuredStep:
    try:
        if any(name not in COLUMNS for name in row):  # more values than the header has columns
            raise ValueError
        workers = int(row.get("workers") or 1)
        return MeasuredStep(network, int(row["batch"]), float(row["step_ms"]), workers)
    except FitError as error:
        raise FitError(f"{where}: {error}") from error
    except (TypeError, ValueError) as error:
        raise FitError(
            f"{where}: expected an integer batch and milliseconds, got {', '.join(map(str, row.values()))}"
        ) from error
