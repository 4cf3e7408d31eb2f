"""Specs as they are read from the API server."""

from __future__ import annotations

from typing import Any

import pytest

from scalecurve_operator.reconcile.read_spec import NotRunnableError, read_experiment
from tests.operator.attempt_remains import stored_experiment


def test_an_experiment_is_read_as_the_api_server_stores_it() -> None:
    found = read_experiment(stored_experiment(runner="PyTorchJob"))
    assert (found.metadata.name, found.spec.runner) == ("exp", "PyTorchJob")


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"parallelism": 0}, ["spec.parallelism"]),
        ({"scaling": {"modes": ["weak"], "workers": [1, 2]}}, ["spec.scaling.batch"]),
        ({"matrix": {"precision": ["fp32", "fp7"]}}, ["precision", "fp7"]),
        ({"matrix": {"nonsense": [1]}}, ["nonsense"]),
        (
            {"scaling": {"modes": ["weak"], "workers": [-1, -2, -3, -4, -5]}},
            ["spec.scaling.workers[0]", "; and 2 more"],
        ),
    ],
)
def test_what_cannot_run_is_named(spec: dict[str, Any], said: list[str]) -> None:
    with pytest.raises(NotRunnableError) as refusal:
        read_experiment(stored_experiment(**spec))
    for part in said:
        assert part in str(refusal.value)


def test_a_part_that_is_missing_is_said_too() -> None:
    with pytest.raises(NotRunnableError, match="spec"):
        read_experiment({name: value for name, value in stored_experiment().items() if name != "spec"})
