"""Whole experiments against an API server in memory: kills at any request, watches that lose what they had to tell,
requests refused, two operators at once. Each job is made once, and the end is the same.
"""

from __future__ import annotations

import random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from scalecurve_operator.reconcile import job_probe
from tests.examples import examples
from tests.operator.simulated_cluster import PHASES, Process, World, run

MANY = settings(max_examples=examples(10, nightly=25))


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look closer at every job in every turn, and ask for it."""
    monkeypatch.setattr(job_probe, "_SILENCE_S", -1.0)


SCRIPTS = st.fixed_dictionaries(
    {name: st.lists(st.sampled_from(sorted(PHASES)), max_size=3) for name in ("weak-1-1x1", "weak-2-2x1")}
)


@MANY
@given(SCRIPTS, st.integers(1, 3), st.integers(0, 2**32))
def test_undisturbed(script: dict[str, list[str]], parallelism: int, seed: int) -> None:
    world = World(script, parallelism=parallelism)
    run(world, random.Random(seed), Process(world))


def test_killed_at_every_request() -> None:
    script = {"weak-1-1x1": ["bad"], "weak-2-2x1": ["silent"]}
    undisturbed = World(script, ["one"])
    process = Process(undisturbed)
    run(undisturbed, random.Random(0), process, pace=1.0)
    assert len(process.cluster.requests) > 50
    for point in range(len(process.cluster.requests)):
        for served in (False, True):
            world = World(script, ["one"])
            run(world, random.Random(0), Process(world, point, served), pace=1.0)


@MANY
@given(SCRIPTS, st.integers(1, 3), st.integers(0, 2**32), st.sampled_from([0.02, 0.1, 0.3]))
@example({"weak-1-1x1": [], "weak-2-2x1": []}, 1, 0, 0.3)
def test_streams_lost_requests_refused_processes_gone(
    script: dict[str, list[str]], parallelism: int, seed: int, troubles: float
) -> None:
    world = World(script, parallelism=parallelism)
    run(world, random.Random(seed), Process(world), troubles=troubles)


@MANY
@given(SCRIPTS, st.integers(1, 2), st.integers(0, 2**32), st.sampled_from([0.0, 0.1]))
def test_two_operators_at_once(script: dict[str, list[str]], parallelism: int, seed: int, troubles: float) -> None:
    world = World(script, parallelism=parallelism)
    run(world, random.Random(seed), Process(world), Process(world), troubles=troubles)
