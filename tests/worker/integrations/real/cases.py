"""Runs a script that uses a real framework, as an engine starts it or by hand."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from scalecurve_api.contract import journal_file
from scalecurve_api.record.rank import RankRecord
from tests.step_journal import read_rows
from tests.worker.worker_ranks import launch, make_trial, records

SCRIPTS = Path(__file__).parent / "scripts"
CUSTOM = {"program": "custom", "command": ["x"], "device": "cpu", "model": "resnet18"}
TRIAL = make_trial(1, workload=CUSTOM, measure={"maxForeignLoad": 1.0})
LEAST = 1 + 3 + 2 + 2 * (1 + 3)
"""Steps of this trial at least: four around counting, warm-up, and two windows with the step before each."""


def needs(*modules: str) -> pytest.MarkDecorator:
    """Skips where a framework is not installed."""
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    return pytest.mark.skipif(
        bool(missing), reason=f"not installed: {', '.join(missing)} (pip install -e '.[integrations]' in the clone)"
    )


def run(
    framework: str, out: Path, case: str, *, fails: bool = False, **environment: str
) -> subprocess.CompletedProcess[str]:
    """One case of a framework's script, in a process of its own."""
    command = [sys.executable, str(SCRIPTS / f"{framework}_cases.py"), str(out)]
    alone = {"CUDA_VISIBLE_DEVICES": "", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}
    return launch(out, command, TRIAL, fails=fails, CASE=case, **{**alone, **environment})


def printed(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """What the script says of itself at its end."""
    lines = [line for line in done.stdout.splitlines() if line.startswith('{"')]
    assert len(lines) == 1, done.stdout + done.stderr
    result: dict[str, Any] = json.loads(lines[0])
    return result


def measured(out: Path) -> tuple[RankRecord, int]:
    """The record of a trial, and how many steps ran from the first to the last that was of use to it."""
    (record,) = records(out, 1)
    return record, len(list(read_rows(out / journal_file(0))))


def samples(record: RankRecord, sizes: list[int]) -> bool:
    """Whether every window has the samples of its steps, where steps of these ``sizes`` take turns from the start."""
    return [window.samples for window in record.windows] == [
        sum(sizes[step % len(sizes)] for step in range(window.first_step, window.first_step + window.steps))
        for window in record.windows
    ]
