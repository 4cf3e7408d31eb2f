"""Parameters as table cells, the same for every model."""

from __future__ import annotations

from scalecurve.render.table import Cell, Column
from scalecurve_models.fitting.least_squares import Parameter

PARAMETER_COLUMNS = (
    Column("parameter", "Parameter"),
    Column("value", "Value", "number"),
    Column("low", "from", "number"),
    Column("high", "to", "number"),
    Column("unit", "Unit"),
    Column("note", "Note"),
)
PARAMETER_NOTE = (
    "Intervals are of 95 %. A parameter without a value cannot be told from these points; the note says why."
)


def parameter_cells(parameter: Parameter) -> tuple[Cell, ...]:
    """As many as ``PARAMETER_COLUMNS``."""
    return (
        parameter.name,
        parameter.value,
        parameter.low,
        parameter.high,
        parameter.unit or None,
        parameter.note or None,
    )
