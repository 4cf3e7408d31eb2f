"""Requests that no job can be made of."""

from __future__ import annotations

import pytest

from scalecurve_api.spec.job_kinds import Runner
from scalecurve_operator.runners import JobRequestError
from tests.operator.runners.runner_cases import job


def test_an_image_is_missing() -> None:
    with pytest.raises(JobRequestError, match=r"spec\.workload\.image: missing, .* for program 'custom'"):
        job(Runner.job, workload={"program": "custom", "command": ["true"]})


def test_workers_that_do_not_divide_over_pods_are_refused() -> None:
    with pytest.raises(JobRequestError, match=r"spec\.placement\.podsPerNode: 3: 8 workers do not divide over 3 pods"):
        job(Runner.pytorch_job, workers=8, placement={"podsPerNode": 3})
