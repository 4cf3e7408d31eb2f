"""Real ranks, started as an engine starts them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from scalecurve_api.contract import OUT_ENV, TRIAL_ENV, rank_file
from scalecurve_api.record.rank import RankRecord
from scalecurve_api.spec.trial import TrialSpec

SCRIPTS = Path(__file__).parent / "scripts"
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--local-addr=127.0.0.1"]
_CAUSE = re.compile(r"Error\b|Fatal|corrupted|invalid pointer|Signal ")
QUICK = {"warmupSteps": 2, "maxWarmupSteps": 2, "windows": 2, "stepsPerWindow": 3}


def make_trial(
    workers: int = 1, *, workload: Mapping[str, Any] | None = None, measure: Mapping[str, Any] | None = None
) -> TrialSpec:
    """A weak point of one node: a tiny MLP on CPUs unless the workload says otherwise."""
    tiny = {"program": "torch", "model": "mlp", "device": "cpu", "data": {"shape": [8], "classes": 3}}
    return TrialSpec.model_validate(
        {
            "experiment": "tests",
            "name": f"weak-{workers}-r1",
            "point": {
                "mode": "weak",
                "workers": workers,
                "nodes": 1,
                "workersPerNode": workers,
                "batchPerWorker": 4,
                "globalBatch": 4 * workers,
                "series": "weak",
                "name": f"weak-{workers}",
            },
            "repetition": 0,
            "seed": 7,
            "workload": {**tiny, **(workload or {})},
            "measure": {**QUICK, **(measure or {})},
        }
    )


def rank_environment(out: Path, trial: TrialSpec | None, **more: str) -> dict[str, str]:
    """What an engine sets, with one thread a rank: two ranks share two cores with everything else."""
    keep = {name: value for name, value in os.environ.items() if not name.startswith("SCALECURVE_")}
    threads = {"SCALECURVE_THREADS": "1", "OMP_NUM_THREADS": "1"}
    given = {OUT_ENV: str(out), "PYTHONFAULTHANDLER": "1", **threads, **more}
    if trial is not None:
        given[TRIAL_ENV] = json.dumps(trial.wire())
    return {**keep, **given}


def launch(
    out: Path, command: list[str], trial: TrialSpec | None = None, *, fails: bool = False, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, and show what it printed when it ends otherwise than expected."""
    done = subprocess.run(
        command, env=rank_environment(out, trial, **environment), capture_output=True, text=True, timeout=900
    )
    # The first line is what the gate keeps of a failure: it has the cause, which torchrun buries.
    cause = next(filter(_CAUSE.search, done.stderr.splitlines()), "")
    assert (done.returncode != 0) == fails, f"exit {done.returncode}: {cause}\n{done.stdout}\n{done.stderr}"
    return done


def torchrun(workers: int, *program: str) -> list[str]:
    """The command of a torchrun; without a program it is the built-in one."""
    return [*TORCHRUN, f"--nproc-per-node={workers}", *(program or ("-m", "scalecurve_worker"))]


def records(out: Path, workers: int) -> list[RankRecord]:
    """The rank records of an ended trial."""
    return [RankRecord.model_validate_json((out / rank_file(rank)).read_text()) for rank in range(workers)]
