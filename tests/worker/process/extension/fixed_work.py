"""A program of another package: the workload, and the function that runs it on every rank."""

from __future__ import annotations

from typing import ClassVar, Literal

import scalecurve_worker
from scalecurve_api.programs.workload import Workload
from scalecurve_api.spec.trial import TrialSpec


class FixedWork(Workload):
    runs: ClassVar[str] = "fixed_work:run"

    program: Literal["fixed-work"]
    additions: int


def run(trial: TrialSpec) -> None:
    assert isinstance(trial.workload, FixedWork)
    bench = scalecurve_worker.attach()
    while bench.step():
        sum(range(trial.workload.additions))
    bench.finish()
