"""The speed model over workers and servers as a table, with the time to a loss if the loss curve is known."""

from collections.abc import Sequence

import numpy as np

from scalecurve.render.table import Cell, Column, Table, columns_of
from scalecurve_models.fitting.least_squares import FitError
from scalecurve_models.optimus.loss import MODEL, steps_at
from scalecurve_models.optimus.speed import EQUATIONS, Kind, speed


def speed_table(
    theta: Sequence[float],
    workers: Sequence[int],
    servers: Sequence[int],
    batch: float | None = None,
    loss: Sequence[float] | None = None,
    target_loss: float | None = None,
) -> Table:
    """Steps/s of every number of workers and servers; ``loss`` are b0, b1, b2.

    Raises FitError for another number of coefficients than five (sync) or four (async), no batch for sync, or a loss
    curve that is none.
    """
    kind = kind_of(theta)
    steps = steps_to_loss(loss, target_loss)
    columns = (
        *columns_of("count", servers="Servers", workers="Workers"),
        Column("steps_per_s", "Speed", "number", "steps/s"),
        Column("samples_per_s", "Throughput", "number", "samples/s"),
        Column("seconds", "Time to loss", "number", "s"),
        Column("best", "Fastest", "flag"),
    )
    rows: list[tuple[Cell, ...]] = []
    for p in servers:
        rates = {w: speed(kind, theta, w, servers=p, batch=batch) for w in workers}
        # An asynchronous step belongs to one worker; throughput needs a batch of all workers.
        fastest = max(rates, key=lambda w: (rates[w], -w))
        for w, rate in rates.items():
            samples = rate * batch if batch is not None and kind == "sync" else None
            seconds = None if steps is None else steps / rate
            rows.append((p, w, rate, samples, seconds, w == fastest))
    notes = [EQUATIONS[kind].equation, "Fastest is per number of servers."]
    if steps is not None:
        notes.append(f"{steps:.6g} steps to the loss.")
    return Table("optimus", "Training speed", columns, tuple(rows), tuple(notes))


def kind_of(theta: Sequence[float]) -> Kind:
    """Of five coefficients synchronous training, of four asynchronous. Raises FitError for others."""
    if len(theta) not in (4, 5) or min(theta) < 0:
        raise FitError(f"speed model: expected five (sync) or four (async) nonnegative coefficients, got {len(theta)}")
    return "sync" if len(theta) == 5 else "async"


def steps_to_loss(loss: Sequence[float] | None, target: float | None) -> float | None:
    """Steps until the curve of b0, b1, b2 meets the target; None without either. Raises FitError if it never does."""
    if loss is None or target is None:
        return None
    if len(loss) != 3 or min(loss) < 0:
        raise FitError(f"{MODEL}: expected three nonnegative coefficients, got {', '.join(f'{b:g}' for b in loss)}")
    steps = float(steps_at(np.array([loss], dtype=np.float64), target)[0])
    if not np.isfinite(steps):
        raise FitError(f"{MODEL}: flattens at {loss[2]:g} and never reaches the target of {target:g}")
    return steps
