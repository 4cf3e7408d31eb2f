"""``scalecurve run -- COMMAND``: a curve of a script without an experiment file."""

import re
import shlex
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from scalecurve.cli.run_jobs import why_nothing_is_valid
from scalecurve_api.spec.measure import Measure
from scalecurve_api.spec.trial import TrialPhase

from .conftest import Desk, busy
from .recorded_lines import cases

LOOP = Path(__file__).parent / "programs" / "ddp_loop.py"
TORCHRUN = "torchrun --nproc-per-node {workers} ddp_loop.py --batch-size"


@pytest.fixture
def scripts(desk: Desk) -> Desk:
    """A desk with a script in its folder."""
    (desk.folder / "ddp_loop.py").write_text(LOOP.read_text())
    return desk


@pytest.mark.processes
def test_a_script_gets_its_curve_and_a_report(scripts: Desk) -> None:
    typed = f"--workers 1,2 --modes weak --repetitions 1 --batch 16 --yaml e.yaml -- {TORCHRUN} {{batchPerWorker}}"
    ran = scripts("run", *shlex.split(typed))
    assert "2 trials; batch 16 per worker" in ran.out
    if not busy(ran):
        assert ran.code == 0
        table = [line.split() for line in ran.out.splitlines() if line.startswith("weak ")]
        assert [row[1:4] for row in table] == [["1", "1x1", "1/1"], ["2", "1x2", "1/1"]]
        assert (scripts.folder / "results/ddp-loop/report/report.html").is_file()
    written = yaml.safe_load((scripts.folder / "e.yaml").read_text())
    assert written["spec"]["workload"]["launcher"] == "torchrun"
    again = scripts("validate", "e.yaml", code=0)
    assert "ok (ddp-loop)" in again.out


@pytest.mark.parametrize(
    ("typed", "parts"),
    cases("wrong_run_calls.txt"),
)
def test_a_wrong_call_gets_one_line(scripts: Desk, typed: str, parts: list[str]) -> None:
    ran = scripts.here("run", *shlex.split(typed))
    assert ran.code in (2, 3)
    assert [part for part in parts if part not in ran.err] == []
    assert ran.err.count("\n") == 1
    assert not (scripts.folder / "results").exists()


@pytest.mark.processes
@pytest.mark.parametrize(
    ("text", "options", "fragments"),
    [
        (
            "import no_such_module",
            "",
            ("; the only one that ended: RankFailed: ", "No module named 'no_such_module'"),
        ),
        ("import os; os._exit(3)", "", ("exited with code 3", "printed nothing", "logs: ")),
        (
            "import torch; m = torch.nn.Linear(4, 4); o = torch.optim.SGD(m.parameters(), 0.1)\n"
            "for _ in range(9): m(torch.ones(8, 4)).sum().backward(); o.step()",
            "",
            ("ended after 9 optimizer steps", "; --steps sets fewer"),
        ),
        ("import torch", "", ("without an optimizer step", "--yaml FILE writes an experiment")),
        ("import time; time.sleep(3600)", "--budget 1s", ("no trial finished within --budget, 1 s", "lower --steps")),
    ],
)
def test_a_script_that_gives_no_valid_trial_gets_one_line(
    desk: Desk, text: str, options: str, fragments: tuple[str, ...]
) -> None:
    """No table of nothing, no report: why, and what to do or where to look."""
    (desk.folder / "own.py").write_text(text)
    ran = desk("run", *shlex.split(f"-q --workers 1 --repetitions 1 {options} -- python own.py -b 8"), code=1)
    assert [fragment for fragment in fragments if fragment not in ran.err] == []
    assert ran.err.count("\n") == 1
    assert ran.out.count("\n") == 1, "the plan, and nothing else"


@pytest.mark.processes
def test_a_script_that_fails_by_itself_is_started_once(desk: Desk) -> None:
    (desk.folder / "own.py").write_text("open('started', 'a').write('x'); import no_such_module")
    ran = desk("run", "-q", "--workers", "1,2", "--", "python", "own.py", "-b", "8", code=1)
    assert len((desk.folder / "started").read_text()) in (1, 2), "by every rank of the first trial"
    assert ": 5 trials (" in ran.err
    assert ": --workers 2); logs: " in ran.err, "a script may need more than one"


@pytest.mark.parametrize(
    ("phase", "reason", "message"),
    [(TrialPhase.invalid, "NoisyNeighbor", "others"), (TrialPhase.failed, "RankFailed", "rank 0")],
)
def test_the_line_of_a_run_without_a_valid_trial_names_the_reason(phase: TrialPhase, reason: str, message: str) -> None:
    """A test that excuses a busy machine finds it there."""
    records = {"a": SimpleNamespace(phase=phase, reason=reason, message=message)}
    status = SimpleNamespace(phases=(phase,))
    result: Any = SimpleNamespace(records=records, bundle=Path("b"), status=status, out_of_time=False, futile=False)
    assert f": {reason}: {message}; logs: b/" in why_nothing_is_valid(result, Measure(), 60.0)


def test_a_budget_that_is_too_short_shows_how_long_a_step_takes() -> None:
    pace = SimpleNamespace(steps_per_second=0.8)
    result: Any = SimpleNamespace(records={}, pace=pace)
    line = why_nothing_is_valid(result, Measure(), 60.0)
    assert all(part in line for part in ("--budget, 60 s", "--steps", " 1.2 s each"))


def test_what_the_machine_lacks_is_named_by_the_option(scripts: Desk) -> None:
    ran = scripts.here("run", *shlex.split(f"--workers 1,4096 -- {TORCHRUN} {{batchPerWorker}}"), code=3)
    assert ran.err.startswith("scalecurve: --workers: ")
    assert ran.err.count("\n") == 1


@pytest.mark.parametrize("words", ["--workers 1,2", "--steps=9"])
def test_an_option_behind_the_command_goes_to_the_script_and_is_noted(scripts: Desk, words: str) -> None:
    ran = scripts.here("run", "--dry-run", *shlex.split(f"--workers 1 -- python ddp_loop.py -b 8 {words}"), code=0)
    (note,) = [line for line in ran.out.splitlines() if "went to ddp_loop.py" in line]
    assert note.startswith(f"note: {words.split()[0]} went to ")


def test_the_plan_of_a_run_names_no_option_of_another_verb(scripts: Desk) -> None:
    ran = scripts.here("run", "--dry-run", *shlex.split("--workers 1 -- python ddp_loop.py -b 8"), code=0)
    assert [word for word in ("--step-time", "--from", "perWorkerHour") if word in ran.out] == []
    assert "--budget ends the run after 600 s" in ran.out


def test_the_plan_of_a_command(scripts: Desk) -> None:
    command = "A=1 mpirun --bind-to none python ddp_loop.py --batch {batchPerWorker}"
    ran = scripts.here("run", *shlex.split(f"--workers 1,2 --dry-run --batch 4 --budget 90s -- {command}"), code=0)
    assert "strong and weak scaling on 1, 2 workers, 12 trials" in ran.out
    assert "90 s at the latest" in ran.out
    assert "dropped, since the ranks are started here: --bind-to none" in ran.out
    assert len(re.findall(r"^ ?\d+  (?:strong|weak)-", ran.out, re.MULTILINE)) == 12
    fewer = scripts.here("run", *shlex.split(f"--workers 1 --dry-run --steps 7 -o csv -- {command}"), code=0)
    assert {row["steps"] for row in fewer.rows} == {"14"}, "5 of warm-up, and 3 windows of 3"
    assert not (scripts.folder / "results").exists()


@pytest.mark.processes
def test_a_record_that_is_rewritten_at_exit_does_not_end_with_success(scripts: Desk) -> None:
    program = """
import atexit, json, os, time
from pathlib import Path
from scalecurve_worker import attach

def halve():
    path = Path(os.environ["SCALECURVE_OUT"]) / "rank-0.json"
    record = json.loads(path.read_text())
    for window in record["windows"]:
        window["wallNs"] //= 2
    path.write_text(json.dumps(record))

atexit.register(halve)
with attach() as bench:
    for _ in bench.steps([[0] * 4] * 10, samples=4):
        time.sleep(0.005)
"""
    (scripts.folder / "rewriting.py").write_text(program)
    options = "--workers 1 --repetitions 1 --steps 9 --batch 4 --modes weak"
    ran = scripts.here("run", *shlex.split(options), "--", "python", "rewriting.py", code=1)
    assert "no trial is valid; the only one that ended: Contradictory: steps.parquet has" in ran.err
