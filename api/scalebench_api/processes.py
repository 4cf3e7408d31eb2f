"""How many processes carry a trial's workers, where that is not one each."""

from __future__ import annotations

from scalebench_api.experiment import Program, Strategy, Workload
from scalebench_api.legality import strategy_of


def one_process(workload: Workload) -> bool:
    """Whether one process drives every worker: each worker is then a replica of it, with a record of its own."""
    return workload.program is Program.tensorflow and strategy_of(workload) is Strategy.mirrored


def processes_of(workload: Workload, workers: int) -> int:
    """Processes that carry ``workers`` workers of one machine or one pod."""
    return 1 if one_process(workload) else workers
