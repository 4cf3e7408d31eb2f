"""The pages' code, copied and run by the real engine at 1 and 2 workers."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from scalecurve_api.record.trial_record import TrialRecord
from tests.page_commands import commands, files
from tests.proofs import unproved_at_any_load
from tests.worker.integrations.real.cases import needs

TUTORIALS = Path(__file__).parents[4] / "docs" / "tutorials"
# Two windows of three steps on a machine that others use; nothing else differs from the page.
QUICK = """
spec:
  measure: {warmupSteps: 2, maxWarmupSteps: 2, windows: 2, stepsPerWindow: 3, repetitions: 1, maxForeignLoad: 1}
  workload: {device: cpu}
"""


class Page(NamedTuple):
    """What a page's program must leave."""

    samples: int  # of one worker in one step, in the unit
    unit: str
    wrapper: str | None  # at 2 workers


PAGES = {
    "transformers": Page(8 * 64, "tokens", "DistributedDataParallel"),
    "lightning": Page(64, "samples", "DistributedDataParallel"),
    "accelerate": Page(64, "samples", "DistributedDataParallel"),
    "deepspeed": Page(64, "samples", "DeepSpeedEngine, ZeRO-2"),
    "keras": Page(64, "samples", None),
}


@pytest.mark.processes
@pytest.mark.timeout(1000)  # two trials: half a minute, and DeepSpeed compiles for as long at its first start
@pytest.mark.parametrize("name", [pytest.param(name, marks=needs(name, "torch")) for name in PAGES])
def test_a_page_runs_as_it_is_copied(name: str, tmp_path: Path) -> None:
    page, text = PAGES[name], (TUTORIALS / f"{name}.md").read_text(encoding="utf-8")
    for file, content in files(text).items():
        (tmp_path / file).write_text(content)
    (tmp_path / "quick.yaml").write_text(QUICK)
    (typed,) = [command.text for command in commands(name, text) if command.text.startswith("scalecurve run")]
    command = [sys.executable, "-m", *shlex.split(typed), "--overlay", "quick.yaml", "--quiet"]
    keep = {key: value for key, value in os.environ.items() if not key.startswith("SCALECURVE_")}
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**keep, "PATH": path, "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=900)
    logs = "\n".join(log.read_text()[-2000:] for log in tmp_path.glob("results/*/trials/*/logs/*"))
    assert done.returncode == 0, done.stdout + done.stderr + logs
    records = [TrialRecord.model_validate(json.loads(path.read_text())) for path in tmp_path.glob("**/trial.json")]
    assert sorted(record.trial.point.workers for record in records) == [1, 2]
    for record in records:
        workers = record.trial.point.workers
        assert (record.phase, record.message) == ("Succeeded", "")
        assert unproved_at_any_load(record) == ()
        assert record.summary is not None
        assert record.summary.sample_unit == page.unit
        train = [window for window in record.windows if window.kind == "train"]
        assert [window.samples for window in train] == [3 * page.samples * workers] * 2
        if workers == 2:
            assert record.strategy == page.wrapper
