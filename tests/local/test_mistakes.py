"""Mistakes of newcomers with a script of their own: each is made, and what it prints is the line of its page."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from scalecurve_api.record.assemble import assemble
from scalecurve_api.record.outcome import Outcome
from scalecurve_api.record.rank import RankRecord, WindowKind
from scalecurve_api.record.trial_record import TrialRecord
from scalecurve_local.devices.locks import LOCKS_ENV
from tests.waiting import PATIENCE_S
from tests.worker.worker_ranks import launch, make_trial, records, torchrun

from .conftest import PROGRAMS, Lab
from .programs import mistakes

pytestmark = pytest.mark.processes
PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "custom-script-mistakes.md"
SCRIPT = str(PROGRAMS / "mistakes.py")
SCRIPT_OF_RANKS = str(PROGRAMS / "mistakes_of_ranks.py")
MEASURE = {"warmupSteps": 2, "maxWarmupSteps": 2, "windows": 3, "stepsPerWindow": 4, "repetitions": 1}
ALONE = {
    "never calls `attach()`": "forgets_attach",
    "never calls `finish()`": "forgets_finish",
    "leaves the loop before the last window": "leaves_the_loop",
    "calls `finish()` in the loop": "finishes_in_the_loop",
    "calls `attach()` in every epoch": "attaches_in_every_epoch",
    "has another batch than the experiment": "has_another_batch",
    "has a small last batch in short epochs": "has_a_small_last_batch",
    "has batches with the sequence first": "puts_the_sequence_first",
    "has lists and mappings in its batches": "nests_its_batches",
    "passes a generator to `bench.steps`": "loads_by_a_generator",
    "has an empty loader": "loads_nothing",
    "calls `bench.step()` in `bench.steps`": "steps_twice",
    "passes `bench.loss` a tensor of many elements": "reports_a_loss_of_many_elements",
    "diverges": "reports_no_number",
    "calls `bench.tokens` and counts samples": "counts_tokens_without_the_unit",
    "misspells the unit": "misspells_the_unit",
    "counts tokens in batches that show none": "counts_no_tokens",
    "opens a relative path": "opens_a_relative_path",
    "imports what is not installed": "imports_what_is_not_installed",
    "crashes in evaluation, before `finish()`": "crashes_in_evaluation",
    "crashes after `finish()`": "crashes_after_finish",
    "exits with an error of its own": "exits_with_an_error",
    "calls `sys.exit()` in the loop": "exits_in_the_loop",
    "calls `os._exit()`": "exits_the_process",
    "fails and prints nothing": "prints_nothing",
    "runs out of memory": "runs_out_of_memory",
    "reads a variable that is not set": "wants_a_variable",
}
COMMANDS: dict[str, dict[str, Any]] = {
    # -S leaves out what is installed.
    "is run by a Python without ScaleCurve": {"command": [sys.executable, "-SE", SCRIPT, "forgets_attach"]},
    "does not exist": {"command": [sys.executable, "nowhere.py"]},
    "is run by a command that does not exist": {"command": ["pyhton", SCRIPT]},
    "has a working folder that does not exist": {"workingDir": "no/such", "command": [sys.executable, SCRIPT]},
    "hangs": {"command": [sys.executable, "-c", "import time; time.sleep(600)"]},
}
TOGETHER = {
    # The first, for the others find its group.
    "joins its group after `attach(model)`": "attaches-before-the-group",
    "never joins a group or wraps its model": "forgets-ddp",
    "wraps its model after `attach(model)`": "wraps-after-attach",
    "passes no model": "passes-no-model",
    "reads the same data on every rank": "reads-the-same-data",
    "never calls `optimizer.step()`": "never-steps",
}
RAISED = {
    "runs another number of steps on a rank": "ends-early-on-a-rank",
    "spawns ranks of its own": "spawns-ranks",
}


def rows() -> dict[str, str]:
    """What the page says of each mistake: the line."""
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    table = [[cell.strip() for cell in line.split("|")[1:3]] for line in lines]
    return {mistake: line.removeprefix("`").removesuffix("`") for mistake, line in table[1:]}


def expected(mistake: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, rows()[mistake].split("…"))), re.DOTALL)


def test_the_page_has_every_mistake_and_no_other() -> None:
    made = {**ALONE, **COMMANDS, **TOGETHER, **RAISED}
    assert list(rows()) == [name for name in rows() if name in made]
    assert set(rows()) == set(made)
    assert len(made) >= 30
    assert set(ALONE.values()) == {
        name
        for name, value in vars(mistakes).items()
        if getattr(value, "__module__", "") == mistakes.__name__ and name not in ("Tensor", "train")
    }


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[str, str]]:
    """Message and log of every mistake of one worker: a trial is a second, so each core runs a part of them."""
    cores = sorted(os.sched_getaffinity(0))[:4]
    labs = [Lab(tmp_path_factory.mktemp("mistakes")) for _ in cores]
    for number, (lab, core) in enumerate(zip(labs, cores, strict=True)):
        write(
            lab,
            workload={"command": [sys.executable, SCRIPT, "{mistake}"], "parameters": {"mistake": "none"}},
            matrix={"parameters.mistake": list(ALONE.values())[number :: len(cores)]},
        )
        begin_on(core, lab)
    results = {}
    for lab in labs:
        lab.started[0].communicate(timeout=PATIENCE_S)
        for name in lab.published():
            record = lab.record(name)
            log = lab.bundle / "trials" / name / "logs" / "rank-0.log"
            printed = log.read_text() if log.exists() else ""
            results[record["trial"]["workload"]["parameters"]["mistake"]] = record["message"], printed
    return results


def begin_on(core: int, lab: Lab) -> None:
    """Start the engine where it has no more than this core, and meets no other engine's locks."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        lab.begin(environment={LOCKS_ENV: str(lab.folder / "locks")})
    finally:
        os.sched_setaffinity(0, allowed)


def write(lab: Lab, workers: int = 1, **spec: Any) -> None:
    workload = {"instrument": "sdk", **spec.pop("workload")}
    lab.write(
        scaling={"modes": ["weak"], "workers": [workers], "batch": {"perWorker": 4}},
        measure={**MEASURE, "maxForeignLoad": 1.0},
        workload=workload,
        failurePolicy={"maxFailedTrials": 1000},
        **spec,
    )


@pytest.mark.parametrize("mistake", ALONE)
def test_a_mistake_of_one_worker(alone: dict[str, tuple[str, str]], mistake: str) -> None:
    message, printed = alone[ALONE[mistake]]
    assert expected(mistake).fullmatch(message) or expected(mistake).search(printed), message
    assert "\n" not in message


@pytest.mark.parametrize("mistake", COMMANDS)
def test_a_mistake_of_the_command(lab: Lab, mistake: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # The tests' own Python finds this project by it.
    monkeypatch.delenv("PYTHONPATH", raising=False)
    write(lab, workload=COMMANDS[mistake], **({"deadlineSeconds": 6} if mistake == "hangs" else {}))
    lab.run()
    (name,) = lab.published()
    assert expected(mistake).fullmatch(lab.record(name)["message"]), lab.record(name)["message"]


TRIAL = make_trial(
    2, workload={"program": "custom", "command": ["x"], "device": "cpu"}, measure={**MEASURE, "maxForeignLoad": 1.0}
)


@pytest.fixture(scope="module")
def together(tmp_path_factory: pytest.TempPathFactory) -> dict[str, TrialRecord]:
    """Every mistake of two ranks that is measured, one after another in the same processes."""
    pytest.importorskip("torch", reason="torch is not installed")
    out = tmp_path_factory.mktemp("ranks")
    cases = TOGETHER.values()
    launch(out, torchrun(2, SCRIPT_OF_RANKS), TRIAL, CASES=" ".join(cases))
    return {case: assemble(TRIAL, apart(out / case), {}, Outcome(engine="local")).record for case in cases}


def apart(out: Path) -> dict[int, RankRecord]:
    """The ranks' records, as if an engine had given each rank a core of its own."""
    return {
        rank: record.model_copy(
            update={"topology": record.topology.model_copy(update={"device": f"cpu:{rank}", "cores": [rank]})}
        )
        for rank, record in enumerate(records(out, 2))
    }


@pytest.mark.parametrize("mistake", TOGETHER)
def test_a_mistake_of_two_ranks(together: dict[str, TrialRecord], mistake: str) -> None:
    record = together[TOGETHER[mistake]]
    line = rows()[mistake]
    if not line:
        assert (record.reason, record.message) == (None, "")
        assert (record.strategy, record.backend) == ("DistributedDataParallel", "gloo")
        assert {window.kind for window in record.windows} == {WindowKind.train, WindowKind.no_communication}
    else:
        assert any(expected(mistake).fullmatch(check.detail) for check in record.checks if not check.passed)


@pytest.mark.parametrize("mistake", RAISED)
def test_a_mistake_of_two_ranks_that_is_raised(lab: Lab, mistake: str) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    workload = {"command": [sys.executable, SCRIPT_OF_RANKS], "env": {"CASES": RAISED[mistake]}}
    write(lab, workers=2, workload=workload)
    lab.run()
    (name,) = lab.published()
    assert lab.record(name)["phase"] == "Failed"
    printed = "".join(log.read_text() for log in lab.bundle.glob(f"trials/{name}/logs/rank-*.log"))
    assert expected(mistake).search(printed), printed[-2000:]
