"""A trace of a few steps, and the share of them in which only communication ran.

The share is for programs whose step without communication cannot be run, as the all-gathers of FSDP are a part of its
forward pass. On a GPU communication are the kernels of NCCL, and everything else on the device is computing; on a CPU
they are the collectives' spans from their start to their end, and computing is every operation of aten, on any thread.
"""

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import torch

from scalecurve_api.record.step_trace import StepTrace
from scalecurve_api.record.trace_kernels import TraceEvent, exposed_share, is_collective, summarize
from scalecurve_api.record.trace_skew import Calls, calls_of, waited, with_waits
from scalecurve_api.spec.measure import Measure
from scalecurve_worker.record.recorder import keep_trace
from scalecurve_worker.record.session import Facts
from scalecurve_worker.rendezvous.communicator import Communicator
from scalecurve_worker.torch.profiler_session import ProfilerSession, tensor_list_bytes

METHOD = "profiler-pass"
ALL_TRACED = 16
"""Ranks of which each keeps its trace; of more, the first, the slowest and the median one do."""


def least(communicator: Communicator, share: float | None) -> float | None:
    """Return the smallest share of all ranks; None where one has none. Collective.

    The rank that comes last to a collective waits for none: what it spends is the communication's own.
    """
    shares = [each for each in communicator.all_gather(share) if each is not None]
    return min(shares) if len(shares) == communicator.world else None


def why_unmeasured(communicator: Communicator, problem: str | None) -> str | None:
    """Return the first rank's reason for having no share, as a record states it; None if all have one. Collective."""
    problems = communicator.all_gather(problem)
    return next((f"rank {rank}: {each}" for rank, each in enumerate(problems) if each), None)


def keeping(shares: list[float | None]) -> set[int]:
    """Choose the ranks that keep their traces, by exposed communication: the slowest rank waits least."""
    ranks = range(len(shares))
    if len(shares) <= ALL_TRACED:
        return set(ranks)
    order = sorted(ranks, key=lambda rank: (shares[rank] or 0.0, rank))
    return {0, order[0], order[(len(order) - 1) // 2]}


class Trace:
    """The profiler over a few steps: torch's own, of CPUs and, where the program uses one, of the GPU.

    ``share`` is that of the traced time in which only communication ran; None where no trace could be had or no
    communication was seen, and ``problem`` then says which.
    """

    def __init__(self, device: torch.device, measure: Measure) -> None:
        self.share: float | None = None
        self.problem: str | None = "no step was traced"
        self._device: Literal["cpu", "cuda"] = "cuda" if device.type == "cuda" else "cpu"
        self._request = measure.trace
        self._profiler = ProfilerSession()
        self._steps = 0
        self._found: StepTrace | None = None
        self._calls: Calls = {}
        self._file: Path | None = None

    @property
    def requested(self) -> bool:
        """Whether the experiment asks for a trace, whatever else needs one."""
        return self._request is not None

    def begin(self, steps: int) -> None:
        """Begin to trace the next ``steps`` steps."""
        self._steps = steps
        self._profiler.begin(use_device="cuda" if self._device == "cuda" else None, record_shapes=self.requested)

    def end(self, wall_ns: int) -> None:
        """End the traced steps, which took ``wall_ns`` nanoseconds."""
        if self._request is not None and self._request.keep:
            with tempfile.NamedTemporaryFile(suffix=".json", delete=False) as file:
                self._file = Path(file.name)
        events = self._profiler.end(save=self._file)
        if events is None:
            self.problem = self._profiler.problem
            return
        traced = [*_events(events)]
        self._found = summarize(traced, self._device, self._steps, wall_ns)
        self._calls = calls_of(traced, self._device) if self.requested else {}
        self.share = exposed_share(self._found)
        self.problem = None if self.share is not None else self._explain_absence(traced)

    def note(self, facts: Facts, communicator: Communicator) -> None:
        """Put the trace into the record of the ranks that keep theirs. Collective, where a trace was requested."""
        if self._request is None:
            return
        keeps = communicator.rank in keeping(communicator.all_gather(self.share))
        waits = waited(communicator.all_gather(self._calls), communicator.rank)
        if self._found is None:
            facts.options["trace"] = f"not traced: {self._profiler.problem or self.problem}"
        elif keeps:
            kept = self._file is not None and keep_trace(self._file, facts.trial, communicator.rank)
            collectives = with_waits(self._found.collectives, waits)
            facts.trace = self._found.model_copy(update={"kept": kept, "collectives": collectives})
        if self._file is not None:
            self._file.unlink(missing_ok=True)

    def _explain_absence(self, traced: Sequence[TraceEvent]) -> str:
        """What the trace holds instead of communication."""
        if self._device == "cpu":
            return f"no collective among {len(traced)} events"
        kernels = sum(event.on_device for event in traced)
        if not kernels:
            return f"the profiler saw nothing on the GPU, and {len(traced)} events of the host"
        calls = sum(is_collective(event.name) for event in traced)
        return f"no kernel of NCCL among {kernels} events of the GPU; the host began {calls} collectives"


def _events(events: Iterable[Any]) -> Iterator[TraceEvent]:
    for event in events:
        name, start, on_device = event.name(), event.start_ns(), str(event.device_type()).endswith("CUDA")
        if on_device and event.is_user_annotation():
            continue  # a range of the host's, drawn over the kernels that it began
        size = tensor_list_bytes(event) if is_collective(name) else 0
        yield TraceEvent(name, start, start + event.duration_ns(), event.start_thread_id(), on_device, size)
