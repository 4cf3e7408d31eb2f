"""MPIJobs that their operator rejects."""

from __future__ import annotations

from scalecurve_api.lifecycle import Job
from scalecurve_api.spec.job_kinds import Runner
from scalecurve_operator.reconcile import pod_diagnosis
from scalecurve_operator.runners import RUNNERS
from tests.operator.runners.recordings import seen


def test_a_job_that_its_operator_rejects_says_nothing_itself() -> None:
    found = seen("mpijob-rejected")
    assert "conditions" not in (found["job"].get("status") or {})
    assert RUNNERS[Runner.mpi_job].read(found["job"]).state is Job.starting
    assert "must be no more than 63" in (pod_diagnosis.rejected(found["events"]) or "")
    assert pod_diagnosis.rejected(seen("mpijob-quota")["events"]) is None
