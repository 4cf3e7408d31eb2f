"""``attach``: join a trial from any training script, with the framework that it has loaded."""

import sys
from typing import Any

from scalecurve_api.registry import load
from scalecurve_worker.process.failure import report_uncaught
from scalecurve_worker.process.identity import identify
from scalecurve_worker.process.trial_spec import out_folder
from scalecurve_worker.record.session import Session
from scalecurve_worker.sdk.bench import Bench
from scalecurve_worker.steps.timing import HostClock

FRAMEWORKS = {"torch": "scalecurve_worker.torch.attach:attach_torch"}
"""What attaches a script that has imported the module; scripts without any of them are timed by the host's clock."""


def attach(model: Any = None) -> Bench:
    """Join the trial that the environment names, or measure alone; call it after torch.distributed is initialised.

    ``model`` is optional: a torch module says which device to time, and its parameters are compared over all ranks
    at the end. Errors that end the process from here on are reported to the engine.

    Raises:
        WorkloadError: a trial that cannot be read.
        CommunicatorError: ranks that cannot meet.
        MetricsError: a metrics port that cannot be had.
    """
    report_uncaught(out_folder(), identify().rank)
    for module, target in FRAMEWORKS.items():
        if module in sys.modules:
            bench: Bench = load(target)(model)
            return bench
    session = Session()
    return Bench(session, HostClock(session.unix))
