"""The bubble of a pipeline: what its workers compute in steps after the last window, against how long these take."""

from collections.abc import Callable, Sequence
from statistics import median
from time import perf_counter
from typing import Any

import torch
import torch.distributed as dist

from scalecurve_api.features.layouts.facts import PipelineTimes
from scalecurve_api.programs.degrees import Dimension
from scalecurve_api.programs.parallelism import Parallelism
from scalecurve_worker.features.layouts.updates import LayoutTrainer
from scalecurve_worker.torch.data import Batch

STEPS = 10
_UNCOUNTED = 1  # the first step after the windows: gradients are allocated anew


class OwnTime:
    """Seconds between the begin and the end of calls, on the host's clock or on the device's stream."""

    def __init__(self, device: torch.device) -> None:
        self._on_device = device.type == "cuda"
        self._marks: list[tuple[Any, Any]] = []

    def around(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap a call so that it is timed."""

        def timed(*args: Any, **kwargs: Any) -> Any:
            begin = self.mark()
            result = call(*args, **kwargs)
            self._marks.append((begin, self.mark()))
            return result

        return timed

    def mark(self) -> Any:
        """Mark this moment; on a device, the moment when the work before it is done."""
        if not self._on_device:
            return perf_counter()
        event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record()
        return event

    def between(self, begin: Any, end: Any) -> float:
        """Return the seconds from one mark to another, both reached."""
        return float(begin.elapsed_time(end)) / 1e3 if self._on_device else float(end - begin)

    def take(self) -> float:
        """Return the sum of all calls since the last time, in seconds."""
        marks, self._marks = self._marks, []
        return sum(self.between(begin, end) for begin, end in marks)


def observe_pipeline(
    trainer: LayoutTrainer, layout: Parallelism, batches: Sequence[Batch], device: torch.device
) -> PipelineTimes | None:
    """Observe untimed steps without an update; return None without a pipeline. Collective over each pipeline."""
    degrees = trainer.laid.meshes.degrees
    if degrees.pipeline == 1:
        return None
    group = trainer.laid.meshes.group(Dimension.pipeline)
    clock = OwnTime(device)
    times: list[list[tuple[float, float]]] = []
    with trainer.wrap_passes(clock.around):
        for _ in range(_UNCOUNTED + STEPS):
            times.append(_step(trainer, batches, clock, group, device))
    counted = times[_UNCOUNTED:]
    spans = [max(span for span, _ in step) for step in counted]
    busy = [sum(own for _, own in step) / len(step) for step in counted]
    return PipelineTimes(
        schedule=layout.schedule.value,
        workers=degrees.pipeline,
        stages_per_worker=layout.stages_per_worker,
        micro_batches=len(batches),
        steps=len(counted),
        span_s=median(spans),
        own_s=[median(step[place][1] for step in counted) for place in range(degrees.pipeline)],
        bubble=median(1 - own / span for own, span in zip(busy, spans, strict=True)),
    )


def _step(
    trainer: LayoutTrainer, batches: Sequence[Batch], clock: OwnTime, group: dist.ProcessGroup, device: torch.device
) -> list[tuple[float, float]]:
    """Span and own time of one step on every worker of the pipeline, in its order."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    dist.barrier(group)
    begin = clock.mark()
    trainer.passes(batches)
    end = clock.mark()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    own: tuple[float, float] = (clock.between(begin, end), clock.take())
    gathered: list[Any] = [None] * dist.get_world_size(group)
    dist.all_gather_object(gathered, own, group=group)
    return gathered
