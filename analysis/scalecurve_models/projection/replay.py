"""A step of one rank replayed on two streams: what it computes, and its exchanges, each in their own order."""

from collections.abc import Sequence
from dataclasses import dataclass

from scalecurve_api.record.step_program import StepProgram


@dataclass(frozen=True)
class Replay:
    """Seconds of a step: in all, of its work, of its exchanges, and of these what the work does not hide."""

    step_s: float
    compute_s: float
    exchange_s: float

    @property
    def exposed_s(self) -> float:
        return self.step_s - self.compute_s


def replay(program: StepProgram, work_s: Sequence[float], exchange_s: Sequence[float]) -> Replay:
    """Play a step: exchanges start in order, when their work is done; work starts when what it reads has come."""
    work_ends: list[float] = []
    exchange_ends: list[float] = []
    for index, work in enumerate(program.work):
        start = work_ends[-1] if work_ends else 0.0
        for needed in work.waits:
            _run_exchanges(program, exchange_s, needed + 1, work_ends, exchange_ends)
            start = max(start, exchange_ends[needed])
        work_ends.append(start + work_s[index])
    _run_exchanges(program, exchange_s, len(program.exchanges), work_ends, exchange_ends)
    return Replay(max([0.0, *work_ends, *exchange_ends]), sum(work_s), sum(exchange_s))


def _run_exchanges(
    program: StepProgram, seconds: Sequence[float], until: int, work_ends: Sequence[float], ends: list[float]
) -> None:
    """Extend ``ends`` to the first ``until`` exchanges; the work that these need has been played."""
    for index in range(len(ends), until):
        after = program.exchanges[index].after
        ready = work_ends[after] if after >= 0 else 0.0
        ends.append(max(ends[-1] if ends else 0.0, ready) + seconds[index])
