"""Projections and their scores as tables."""

from collections.abc import Sequence

from scalecurve.render.table import Cell, Column, Table, columns_of, table_of
from scalecurve_models.projection.error_ledger import Score
from scalecurve_models.projection.projection import Projection

MS, GB = 1e3, 1e9


def projection_table(projections: Sequence[Projection], name: str) -> Table:
    """One row a point, predicted or refused."""
    notes = dict.fromkeys(line for each in projections for line in each.assumptions)
    return table_of(
        "projection",
        f"Projection of {name}",
        projections,
        (
            (Column("series", "Series"), lambda each: each.trial.point.series),
            (Column("workers", "Workers", "count"), lambda each: each.trial.point.workers),
            (Column("layout", "Layout"), lambda each: each.trial.point.layout),
            (Column("step_ms", "Step", "number", "ms"), lambda each: _replay_ms(each, "step_s")),
            (Column("throughput", "Throughput", "number", "samples/s"), lambda each: each.throughput),
            (Column("efficiency", "Efficiency", "percent"), lambda each: each.efficiency),
            (Column("compute_ms", "Compute", "number", "ms"), lambda each: _replay_ms(each, "compute_s")),
            (Column("exchange_ms", "Exchanges", "number", "ms"), lambda each: _replay_ms(each, "exchange_s")),
            (Column("exposed_ms", "Exposed", "number", "ms"), lambda each: _replay_ms(each, "exposed_s")),
            (Column("sent_gb", "Exchanged", "number", "GB"), _exchange_gb),
            (Column("memory_gb", "Memory", "number", "GB"), lambda each: _scale(each.memory_bytes, 1 / GB)),
            (Column("status", "Status"), lambda each: "refused" if each.refused else "predicted"),
            (Column("reason", "Reason"), lambda each: each.refused or None),
        ),
        tuple(f"Assumed: {line}." for line in notes),
    )


def exchange_table(projections: Sequence[Projection]) -> Table:
    """The collectives of each point's step, by kind and dimension."""
    rows: list[tuple[Cell, ...]] = []
    for each in projections:
        grouped: dict[tuple[str, str, int], list[int]] = {}
        for exchange in each.program.exchanges if each.program else ():
            grouped.setdefault((exchange.kind, exchange.axis, exchange.ranks), []).append(exchange.bytes)
        point = each.trial.point
        rows += [
            (point.series, point.workers, kind, axis, ranks, len(sizes), sum(sizes) / GB)
            for (kind, axis, ranks), sizes in grouped.items()
        ]
    columns = (
        Column("series", "Series"),
        Column("workers", "Workers", "count"),
        *columns_of("text", kind="Collective", axis="Axis"),
        *columns_of("count", ranks="Ranks", calls="Calls"),
        Column("gb", "Vectors", "number", "GB"),
    )
    return Table("exchanges", "Collectives of a step", columns, tuple(rows))


def score_table(scored: Sequence[Score]) -> Table:
    """Recorded predictions against what was measured."""
    return table_of(
        "scores",
        "Recorded predictions",
        scored,
        (
            (Column("model", "Model"), lambda each: each.model),
            (Column("series", "Series"), lambda each: each.predicted.series),
            (Column("workers", "Workers", "count"), lambda each: each.predicted.workers),
            (Column("nodes", "Nodes", "count"), lambda each: each.predicted.nodes),
            (Column("predicted_ms", "Predicted", "number", "ms"), lambda each: each.predicted.step_s * MS),
            (Column("measured_ms", "Measured", "number", "ms"), lambda each: each.step_s * MS),
            (Column("error", "Error", "percent"), lambda each: each.step_error),
            (Column("memory_gb", "Memory", "number", "GB"), lambda each: _scale(each.memory_bytes, 1 / GB)),
            (Column("memory_error", "Memory error", "percent"), lambda each: each.memory_error),
            (Column("before", "Before the run", "flag"), lambda each: each.before),
        ),
        () if scored else ("No recorded prediction of a point that was measured since.",),
    )


def _replay_ms(projection: Projection, name: str) -> float | None:
    return None if projection.replayed is None else float(getattr(projection.replayed, name)) * MS


def _exchange_gb(projection: Projection) -> float | None:
    return None if projection.program is None else projection.program.count_exchanged_bytes() / GB


def _scale(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor
