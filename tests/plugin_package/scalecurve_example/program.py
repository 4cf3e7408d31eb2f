"""``program: sleep``: steps that only wait, as long as the experiment says."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import ClassVar, Literal

from pydantic import Field

from scalecurve_api.model import Model, Real
from scalecurve_api.problem import Problem, unsupported
from scalecurve_api.programs.workload import DeviceType, Workload
from scalecurve_api.spec.trial import TrialSpec
from scalecurve_example.fact import OVERSLEEP, Oversleep


class SleepOptions(Model):
    """Options of program sleep."""

    step_ms: Real = Field(default=1.0, gt=0, le=10_000, description="Milliseconds that a step takes.")


class SleepWorkload(Workload):
    """Steps that only wait."""

    runs: ClassVar[str] = "scalecurve_example.program:run"

    program: Literal["sleep"]
    options: SleepOptions = Field(default=SleepOptions(), description="Options of the program.")

    def problems(self, workers: int, nodes: int) -> Iterator[Problem]:
        """Every rule that this workload breaks."""
        yield from super().problems(workers, nodes)
        if self.device is DeviceType.gpu:
            yield self.problem("device", unsupported("with program sleep, which computes nothing", "cpu or auto"))


def run(trial: TrialSpec) -> None:
    """Run a trial on this rank."""
    from scalecurve_worker import attach  # the validator imports this module where no worker is installed

    asked = trial.workload_as(SleepWorkload).options.step_ms / 1000
    bench, slept = attach(), Oversleep(steps=0, seconds=0)
    while bench.step(trial.point.batch_per_worker or 1):
        began = time.perf_counter()
        time.sleep(asked)
        slept = Oversleep(steps=slept.steps + 1, seconds=slept.seconds + time.perf_counter() - began - asked)
    OVERSLEEP.put(bench.session.facts, slept)
    bench.finish()
