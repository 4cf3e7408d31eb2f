"""Real processes of ``program: tensorflow``, started as an engine starts them, and judged as an engine judges them."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from scalecurve_api.contract import ROLE_ENV, journal_file, rank_file
from scalecurve_api.record.outcome import Outcome
from scalecurve_api.record.rank import RankRecord
from scalecurve_api.record.verdict import Verdict, judge
from scalecurve_api.spec.trial import TrialSpec
from tests.step_journal import read_rows
from tests.worker.ports import free_port
from tests.worker.worker_ranks import make_trial, rank_environment

SCRIPTS = Path(__file__).parent / "scripts"
PROGRAM = ("-m", "scalecurve_worker")
MINUTES_S = 600
"""A busy machine imports TensorFlow in half a minute, and traces a training step in ten seconds."""

needs_tensorflow = pytest.mark.skipif(
    importlib.util.find_spec("tensorflow") is None,
    reason="TensorFlow is not installed (pip install -e '.[tensorflow]' in the clone)",
)


def tf_trial(workers: int, strategy: str, measure: Mapping[str, Any] | None = None, **workload: Any) -> TrialSpec:
    """A weak point of the smallest model on CPUs; other processes may take any share of them."""
    tiny = {"program": "tensorflow", "strategy": strategy, "model": "mlp", "device": "cpu"}
    tiny["data"] = {"shape": [1, 8, 8], "classes": 10}
    return make_trial(workers, workload={**tiny, **workload}, measure={"maxForeignLoad": 1, **(measure or {})})


def run_ranks(
    out: Path, trial: TrialSpec, program: tuple[str, ...] = PROGRAM, *, fails: bool = False, **variables: str
) -> list[str]:
    """Start every process of a trial, and give what each printed once all have ended as expected."""
    processes = trial.workload.processes(trial.point.workers)
    roles = [{"RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(processes)]
    roles += [{ROLE_ENV: role} for role in trial.workload.roles]
    sizes = {"WORLD_SIZE": str(processes), "LOCAL_WORLD_SIZE": str(processes)}
    world = {**sizes, "MASTER_PORT": str(free_port())}
    started = []
    for role in roles:
        own = {**world, "MASTER_ADDR": "127.0.0.1", **role, **variables}
        started.append(
            subprocess.Popen(
                [sys.executable, *program],
                env=rank_environment(out, trial, **own),
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        )
    try:
        said = [process.communicate(timeout=MINUTES_S)[0] for process in started]
    finally:
        for process in started:
            process.kill()
            process.wait()
    codes = [process.returncode for process in started]
    assert any(codes) == fails, "\n".join([str(codes), *said])
    return said


def judged(out: Path, trial: TrialSpec) -> tuple[list[RankRecord], Verdict]:
    """The records of a trial, and what an engine makes of them."""
    there = [rank for rank in range(trial.point.workers) if (out / rank_file(rank)).exists()]
    found = [RankRecord.model_validate_json((out / rank_file(rank)).read_text()) for rank in there]
    return found, judge(trial, dict(zip(there, found, strict=True)), Outcome(engine="tests", attempt=1))


def rows_of(out: Path, rank: int) -> int:
    """Steps in a rank's journal."""
    return len(list(read_rows(out / journal_file(rank))))


def checks(verdict: Verdict) -> dict[str, bool | None]:
    """Which checks passed, by name."""
    return {check.name: check.passed for check in verdict.checks}
