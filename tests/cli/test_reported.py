"""A program that is measured by what it prints, from ``run`` to ``report`` and ``compare``."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from .conftest import Desk

pytestmark = pytest.mark.processes
PRINTS = Path(__file__).parents[1] / "local" / "programs" / "prints.py"


def test_from_run_to_report_and_compare(desk: Desk):
    command = [sys.executable, str(PRINTS), "megatron", "--batch", "{batchPerWorker}", "--global", "{globalBatch}"]
    log = {"instrument": "log", "log": {"format": "megatron"}}
    file = desk.write(workload={"program": "custom", "device": "cpu", "command": command, **log})
    told = "reported: 2 of 2 points: times are those that the program printed, unchecked, at 1, 2 workers"

    ran = desk.here("run", file, "--bundle", "b", code=0)
    assert told in ran.out
    assert ran.out.count("Reported") == 2, "in the table"
    report = desk.here("report", "b", "--out", "out", "--format", "md", "--format", "html", code=0)
    pages = [path.read_text() for path in (desk.folder / "out").glob("report.*") if path.suffix in (".md", ".html")]
    assert pages
    assert all(told in page for page in pages)
    assert "differs between" not in report.err, "the settings of both points are the same"
    compared = desk.here("compare", "b", "b", code=2)
    assert "reported: 4 of 4 points" in compared.err
    assert (
        "points that are unproved, reported or impossible are excluded; --include-unproved includes them"
        in compared.err
    )
    assert "weak" in desk.here("compare", "b", "b", "--include-unproved", code=0).out
    for verb in ("recommend", "predict"):
        refused = desk.here(verb, "b", code=2)
        assert ": its points are unproved, reported or impossible; --include-unproved includes them" in refused.err
    assert told in desk.here("fit", "b", "--include-unproved").out


@pytest.mark.parametrize(
    ("workload", "says"),
    [
        (
            {"instrument": "log"},
            "spec.workload.log: required: {format: ...} or {pattern: ...} for instrument log",
        ),
        ({"log": {"format": "nemo"}}, 'spec.workload.instrument: got "auto"; not supported beside workload.log'),
        (
            {"instrument": "log", "log": {"pattern": "time (.*)"}},
            'spec.workload.log.pattern: got "time (.*)"; expected a regular expression with a named group step_time,',
        ),
        ({"startsRanks": True}, "spec.workload.startsRanks: got true; not supported with instrument auto"),
        (
            {"instrument": "log", "log": {"format": "nemo"}, "startsRanks": True, "launcher": "torchrun"},
            'spec.workload.launcher: got "torchrun"; not supported beside startsRanks; use processes',
        ),
        ({"singleProcess": True, "launcher": "torchrun"}, "not supported beside singleProcess; use processes"),
        ({"singleProcess": True, "device": "cpu"}, "not supported on device cpu, which is one device for a process"),
        (
            {"instrument": "log", "log": {"format": "nemo"}, "singleProcess": True},
            "spec.workload.singleProcess: got true; not supported with instrument log; use startsRanks",
        ),
        (
            {"instrument": "log", "log": {"format": "megatron-lm"}},
            "expected 'torchtitan', 'megatron', 'nemo', 'maxtext', 'huggingface', 'lightning' or 'mllog'",
        ),
        (
            {"instrument": "log", "log": {"format": "torchtitan", "tokensPerSample": "{seqlen}"}},
            "spec.workload.log.tokensPerSample: unknown placeholder {seqlen}",
        ),
    ],
)
def test_what_validate_refuses(desk: Desk, workload: dict[str, object], says: str):
    whole = {"program": "custom", "command": ["a"], "parameters": {"seqLen": 64}, **workload}
    ran = desk.here("validate", desk.write(workload=whole), code=2)
    assert says in ran.out + ran.err
