"""Jobs: the first sign of a failure."""

from __future__ import annotations

from scalecurve_api.lifecycle import Job
from scalecurve_api.spec.job_kinds import Runner
from scalecurve_operator.runners import RUNNERS
from tests.operator.runners.recordings import seen


def test_the_first_sign_of_a_job_that_fails_counts() -> None:
    job = seen("job-oom")["job"]
    job["status"]["conditions"] = [each for each in job["status"]["conditions"] if each["type"] == "FailureTarget"]
    assert job["status"]["conditions"]
    reading = RUNNERS[Runner.job].read(job)
    assert (reading.state, reading.succeeded) == (Job.ended, False)
