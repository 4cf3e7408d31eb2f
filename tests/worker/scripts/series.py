"""Trials one after another in the same ranks, right or with a fault; a folder for each.

CASES is a JSON list of [name, fault, trial].
"""

import json
import os
from collections.abc import Callable
from pathlib import Path

from scalecurve_api.spec.trial import TrialSpec
from scalecurve_worker.steps import schedule

# Cases are compared with each other: each takes the same steps, however slow the machine is.
schedule.ENOUGH_S, schedule.SECTIONED_STEPS = 1e9, 1
OUT = Path(os.environ["SCALECURVE_OUT"])


def trials() -> list[TrialSpec]:
    """All that this series will run."""
    return [TrialSpec.model_validate(wire) for _, _, wire in json.loads(os.environ["CASES"])]


def run_series(run_case: Callable[[str, TrialSpec], None]) -> None:
    """Run each case, and leave ``failed`` in the folder of the one that ends these ranks.

    Without MASTER_ADDR the ranks of each trial meet in that trial's folder.
    """
    for name, fault, wire in json.loads(os.environ["CASES"]):
        folder = OUT / name
        os.environ["SCALECURVE_OUT"] = str(folder)
        os.environ["SCALECURVE_TRIAL"] = json.dumps(wire)
        folder.mkdir(exist_ok=True)
        try:
            run_case(fault, TrialSpec.model_validate(wire))
        except BaseException:
            (folder / "failed").touch()
            raise
