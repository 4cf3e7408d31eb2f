"""A case of a series that fails names itself, and the others have their results."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.worker.trial_series import run_series
from tests.worker.worker_ranks import make_trial

pytestmark = pytest.mark.processes

SCRIPT = """
import os, signal
import scalecurve_worker as scalecurve
from series import run_series

def run_case(fault, trial):
    if os.environ["RANK"] == "1":
        if fault == "raises":
            raise RuntimeError("the second rank has had enough")
        if fault == "is killed":
            os.kill(os.getpid(), signal.SIGKILL)
    bench = scalecurve.attach(checksum="before")
    while bench.step(samples=4):
        pass
    bench.finish("after")

run_series(run_case)
"""


def test_a_case_that_fails_leaves_the_others_their_results(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    faults = {"first": "none", "second": "raises", "third": "none", "fourth": "is killed", "fifth": "none"}
    custom = {"program": "custom", "command": ["x"]}
    cases = {name: (fault, make_trial(2, workload=custom)) for name, fault in faults.items()}
    results = run_series(tmp_path, 2, script, cases)
    for name in ("first", "third", "fifth"):
        ranks, _ = results[name]
        assert [record.topology.rank for record in ranks] == [0, 1]
    with pytest.raises(AssertionError, match=r"(?s)case second: exit 1.*the second rank has had enough"):
        results["second"]
    with pytest.raises(AssertionError, match="case fourth: exit -9"):
        results["fourth"]
