"""A trainer of the shape of nanoGPT through the engine to its report; and the code of the tutorial."""

from __future__ import annotations

import os
import random
import re
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

import scalecurve
from scalecurve_api.record.rank import WindowKind
from scalecurve_api.record.trial_record import TrialRecord
from scalecurve_local.devices.locks import LOCKS_ENV

from .conftest import PROGRAMS, Lab

pytest.importorskip("torch", reason="torch is not installed")
pytestmark = pytest.mark.processes
QUICK = {"warmupSteps": 2, "maxWarmupSteps": 2, "windows": 2, "stepsPerWindow": 4, "repetitions": 1}
PAGE = Path(__file__).parents[2] / "docs" / "tutorials" / "custom-script.md"


@pytest.fixture(scope="module")
def language(tmp_path_factory: pytest.TempPathFactory) -> Lab:
    """Strong scaling over 1 and 2 workers: two trials that load torch."""
    folder = tmp_path_factory.mktemp("language")
    lab = Lab(folder)
    (folder / "train.bin").write_bytes(random.Random(0).randbytes(20_000))
    lab.write(
        scaling={"modes": ["strong"], "workers": [1, 2], "batch": {"global": 8}},
        measure={**QUICK, "maxForeignLoad": 1.0, "trace": {"steps": 2, "keep": True}},
        workload={
            "command": [sys.executable, str(PROGRAMS / "language.py")],
            "env": {"TOKENS": str(folder / "train.bin"), "CUDA_VISIBLE_DEVICES": ""},
        },
    )
    code, _, said = lab.drive(environment={LOCKS_ENV: str(folder / "locks")})
    lab.end()
    assert code == 0, said
    return lab


@pytest.mark.parametrize("workers", [1, 2])
def test_a_language_models_trainer_is_explained(language: Lab, workers: int) -> None:
    (name,) = [name for name in language.published() if f"-{workers}-" in name]
    record = TrialRecord.model_validate(language.record(name))
    assert (record.phase, record.message) == ("Succeeded", "")
    assert record.summary is not None
    assert record.summary.sample_unit == "tokens"
    assert {(window.samples, window.sequences) for window in record.windows} == {(4 * 8 * 64, 4 * 8)}
    assert record.summary.loader_s is not None
    assert record.summary.loader_s > 0
    assert record.summary.peak_memory_bytes is not None
    assert record.summary.last_loss is not None
    assert record.parameters == 256 * 64 + 64 * 64 + 2 * (4 * 64 + 12 * 64 * 64 + 9 * 64) + 2 * 64
    # Of a token: six for every weight of a product; 4 n d to score and to weigh, forward, and five products of those
    # two backward.
    attention = 2 * 7 * 2 * 64 * 64
    assert record.flops_per_sample == pytest.approx(6 * (256 * 64 + 2 * 12 * 64 * 64) + attention)
    assert record.peak_flops is None
    assert [trace and (trace.steps, trace.kept) for trace in record.traces] == [(2, True)] * workers
    kept = sorted(file.name for file in (language.bundle / "trials" / name / "logs").glob("trace-*"))
    assert kept == [f"trace-rank-{rank}.json.gz" for rank in range(workers)]
    if workers == 2:
        assert record.summary.exposed is not None
        assert record.summary.exposed.method == "ddp-no-sync"
        assert record.strategy == "DistributedDataParallel"
    kinds = [WindowKind.train, WindowKind.no_communication][:workers]
    assert [window.kind for window in record.windows] == kinds * 2


def test_its_report_has_tokens_and_samples_memory_waiting_and_communication(language: Lab, tmp_path: Path) -> None:
    (bundle,) = scalecurve.open_bundles([str(language.bundle)])
    curves = scalecurve.scaling([bundle])
    (series,) = curves.series
    assert series.sample_unit == "tokens"
    for point in series.points:
        assert point.throughput is not None
        assert point.sequences is not None
        assert point.throughput.value == pytest.approx(64 * point.sequences.value)
        assert point.peak_memory_bytes
        assert point.loader_s
    assert series.points[1].exposed_s is not None
    assert series.points[1].computing is not None
    (written,) = scalecurve.report([bundle], tmp_path, ["html"])
    page = written.read_text()
    for text in ("tokens/s", "samples/s", "Waiting for data", "Exposed communication", "Peak memory", "ddp-no-sync"):
        assert text in page, text


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE.read_text(), flags=re.DOTALL | re.MULTILINE)


def test_the_code_of_the_tutorial_runs_as_it_stands(lab: Lab) -> None:
    """train.py and custom.yaml are copied; only their steps and repetitions are fewer."""
    (lab.folder / "train.py").write_text(blocks("python")[0])
    tree: dict[str, Any] = yaml.safe_load(blocks("yaml")[0])
    tree["spec"]["measure"] = {**QUICK, "maxForeignLoad": 1.0}
    spec = {name: value for name, value in tree["spec"].items() if name != "workload"}
    lab.write(**spec, workload={"device": "auto", "workingDir": str(lab.folder), **tree["spec"]["workload"]})
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    code, results, said = lab.drive(environment={"PATH": path, "CUDA_VISIBLE_DEVICES": ""})
    assert code == 0, said
    assert [result[0] for result in results.values()] == ["Succeeded"] * 2
    two = TrialRecord.model_validate(lab.record(next(name for name in results if "-2-" in name)))
    assert {check.name for check in two.checks if check.passed is False} == set()
    assert two.summary is not None
    assert two.summary.exposed is not None
    assert two.summary.last_loss is not None
