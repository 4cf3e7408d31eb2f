"""Parameters as table cells, in one form for every model."""

from scalecurve.render.table import Cell, Column, columns_of
from scalecurve_models.fitting.least_squares import Parameter

PARAMETER_COLUMNS = (
    Column("parameter", "Parameter"),
    *columns_of("number", value="Value", low="95 % low", high="95 % high"),
    *columns_of("text", unit="Unit", note="Note"),
)
PARAMETER_NOTE = "A parameter without a value is not identifiable from these points; the note says why."


def parameter_cells(parameter: Parameter) -> tuple[Cell, ...]:
    """The cells under ``PARAMETER_COLUMNS``."""
    return (
        *(parameter.name, parameter.value, parameter.low, parameter.high),
        *(parameter.unit or None, parameter.note or None),
    )
