"""Which processes a trial has, where these are not one for each worker."""

from __future__ import annotations

from scalecurve_api.programs.legality import strategy_of
from scalecurve_api.programs.workload import Program, Strategy, Workload

CHIEF = "chief"
"""The ``SCALECURVE_ROLE`` of the process that leads parameter servers and their workers, and keeps the record."""


def one_process(workload: Workload) -> bool:
    """Whether one process drives every worker: each worker is then a replica of it, with a record of its own."""
    return (workload.program, strategy_of(workload)) in (
        (Program.tensorflow, Strategy.mirrored),
        (Program.torch, Strategy.dp),
    )


def asides(workload: Workload) -> tuple[str, ...]:
    """Processes of a trial that are no workers, by their ``SCALECURVE_ROLE``."""
    if workload.program is not Program.tensorflow or strategy_of(workload) is not Strategy.parameter_server:
        return ()
    return (CHIEF, *(f"server-{index}" for index in range(workload.parameter_server.servers)))


def processes_of(workload: Workload, workers: int) -> int:
    """Processes that carry ``workers`` workers of one machine or one pod."""
    return 1 if one_process(workload) else workers
