"""Memory of one worker at every point of a plan, by what takes it, against a device."""

from scalecurve.hardware.devices import HardwareError, find_device
from scalecurve.render.table import Column, Table, table_of
from scalecurve_api.planning.plan import expand_points
from scalecurve_api.programs.memory import GB, Memory
from scalecurve_api.spec.experiment import ExperimentSpec
from scalecurve_api.spec.trial import Point
from scalecurve_api.validation.fits import memory_at

NOTES = (
    "An estimate in GB of one worker. Without accumulation, gradients grow while activations go: the larger of both "
    "counts. The margin is 1 GB and 5 %; validate refuses what is too large without it.",
)
_UNKNOWN = "Activations of models other than transformers are not known: their totals are lower bounds."


def device_gb(name: str) -> float:
    """Memory of a device by its key, in GB.

    Raises:
        HardwareError: the device is unknown, or its entry has no memory.
    """
    device = find_device(name)
    if device.memory_gb is None:
        raise HardwareError(f"device {device.key}: its entry has no memory_gb")
    return device.memory_gb


def memory_table(spec: ExperimentSpec, limit_gb: float | None) -> Table | None:
    """One row a point whose memory is known; ``limit_gb`` is the device's. None where nothing is known."""
    rows: list[tuple[Point, Memory]] = []
    for point in expand_points(spec):
        memory = memory_at(spec, point)
        if memory is not None:
            rows.append((point, memory))
    if not rows:
        return None
    unknown = any(memory.activations is None for _, memory in rows)
    return table_of(
        "memory",
        "Memory per worker (estimate, GB)",
        rows,
        (
            (Column("series", "Series"), lambda row: row[0].series),
            (Column("workers", "Workers", "count"), lambda row: row[0].workers),
            (Column("parallelism", "Parallelism"), lambda row: _degrees(row[0])),
            (Column("parameters", "Parameters", "number"), lambda row: row[1].parameters / GB),
            (Column("gradients", "Gradients", "number"), lambda row: row[1].gradients / GB),
            (Column("optimizer", "Optimizer", "number"), lambda row: row[1].optimizer / GB),
            (Column("activations", "Activations", "number"), lambda row: _activations_gb(row[1].activations)),
            (Column("buffers", "Buffers", "number"), lambda row: row[1].buffers / GB),
            (Column("total", "Total", "number"), lambda row: row[1].total / GB),
            (Column("margin", "Margin", "number"), lambda row: row[1].margin / GB),
            (Column("fits", "Fits"), lambda row: _fits(row[1], limit_gb)),
        ),
        (*NOTES, *((_UNKNOWN,) if unknown else ())),
    )


def _degrees(point: Point) -> str | None:
    return point.parallelism.spelled if point.parallelism is not None else None


def _activations_gb(activations: float | None) -> float | None:
    return activations / GB if activations is not None else None


def _fits(memory: Memory, limit_gb: float | None) -> str | None:
    if limit_gb is None:
        return None
    if memory.total > limit_gb * GB:
        return f"no: {limit_gb:g} GB"
    return "yes" if memory.total + memory.margin <= limit_gb * GB else "without a margin only"
