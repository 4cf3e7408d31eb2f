"""Whether each point's training fits the memory of a stated device."""

from collections.abc import Iterator

from scalecurve_api.planning.axes import AxisError
from scalecurve_api.planning.plan import expand_points, workload_at
from scalecurve_api.problem import Description, Path, Problem, expected
from scalecurve_api.programs.memory import GB, Memory, memory_of
from scalecurve_api.spec.experiment import ExperimentSpec
from scalecurve_api.spec.trial import Point
from scalecurve_api.text import count

DEVICE: Path = ("spec", "resources", "deviceMemoryGb")


def memory_at(spec: ExperimentSpec, point: Point) -> Memory | None:
    """The estimate for one worker at a point; None where it is not known."""
    try:
        workload = workload_at(spec, point.axes)
    except AxisError:
        return None
    batch = point.parallelism.group_batch if point.parallelism is not None else point.batch_per_worker
    return memory_of(workload, point.parallelism, point.workers, batch)


def too_large(spec: ExperimentSpec, device_gb: float | None, path: Path = DEVICE) -> Iterator[Problem]:
    """A problem for each kind of point whose total, without a margin, is above the device's memory."""
    if device_gb is None:
        return
    seen: set[str] = set()
    for point in expand_points(spec):
        if point.rung:
            continue  # a ladder goes on until one does not fit; its first batch has to
        memory = memory_at(spec, point)
        if memory is None or memory.total <= device_gb * GB:
            continue
        if memory.arithmetic not in seen:
            seen.add(memory.arithmetic)
            needs = f"{point.series} at {count(point.workers, 'worker')} needs {memory.arithmetic} on each"
            yield Problem(path, Description(f"{device_gb:g} GB"), expected(f"a layout that fits: {needs}"))
