"""``scalecurve run -- COMMAND``: a curve of a script without an experiment file."""

import re
import shlex
from pathlib import Path

import pytest
import yaml

from .conftest import Desk

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
    table = [line.split() for line in ran.out.splitlines() if line.startswith("weak ")]
    assert [row[1:3] for row in table] == [["1", "1x1"], ["2", "1x2"]]
    if "NoisyNeighbor" not in ran.out:  # which a busy machine makes of any trial
        assert ran.code == 0
        assert [row[3] for row in table] == ["1/1", "1/1"]
    assert (scripts.folder / "results/ddp-loop/report/report.html").is_file()
    written = yaml.safe_load((scripts.folder / "e.yaml").read_text())
    assert written["spec"]["workload"]["launcher"] == "torchrun"
    again = scripts("validate", "e.yaml", code=0)
    assert "ok (ddp-loop)" in again.out


@pytest.mark.parametrize(
    ("typed", "line"),
    [
        ("", "expected an experiment file, or a command after --"),
        ("--", "expected an experiment file, or a command after --"),
        ("e.yaml -- python ddp_loop.py", "got the file e.yaml and a command"),
        ("e.yaml --batch 8", "--batch applies to a command after -- only"),
        ("--overlay o.yaml -- python ddp_loop.py -b 1", "--overlay requires an experiment file"),
        ("--add-session -- python ddp_loop.py -b 1", "--add-session requires an experiment file"),
        ("--search -- python ddp_loop.py -b 1", "--search requires an experiment file"),
        ("-- python trian.py -b 1", "trian.py: no such file"),
        ("-- no-such-program -b 1", "no-such-program: no such program"),
        ("-- torchrun --nnodes 2 ddp_loop.py -b 1", "--nnodes 2: expected one node"),
        ("-- torchrun --nproc ddp_loop.py", "torchrun --nproc: not supported here; did you mean --nproc-per-node"),
        ("python ddp_loop.py -b 8", "put -- before the command: scalecurve run -- python ddp_loop.py -b 8"),
        ("--workers 2 torchrun ddp_loop.py -b 8", "scalecurve run --workers 2 -- torchrun ddp_loop.py -b 8"),
        ("--steps 9 ddp_loop.py -b 8", "scalecurve run --steps 9 -- python ddp_loop.py -b 8"),
        ("-- python", "python: no script to start"),
        ("-- torchrun --nproc-per-node {workers}", "torchrun: no script to start"),
        ("-- ddp_loop.py -b 8", "ddp_loop.py: not an executable program; put python before it"),
        ("-- 'python ddp_loop.py -b 8'", "remove the quotes"),
        (
            "-- torchrun --nproc-per-node {worker} ddp_loop.py -b 8",
            "unknown placeholder {worker}; did you mean {workers}",
        ),
        ("-- torchrun --nproc-per-node four ddp_loop.py -b 8", "--nproc-per-node four: expected {workers}"),
        ("-- torchrun ddp_loop.py -b {batch}", "unknown placeholder {batch}; did you mean {batchPerWorker}"),
        ("--batch 8 -- bash train.sh", "train.sh: no such file"),
        ("--workers 1,2,3 --batch 5 -- python ddp_loop.py -b {batchPerWorker}", "--batch 5: strong scaling keeps 15"),
        ("--reps 3 -- python ddp_loop.py -b 8", "no such option --reps; did you mean --repetitions"),
        ("--batch 8,16 -- python ddp_loop.py", "--batch: got '8,16'; expected a whole number"),
        ("--budget soon -- python ddp_loop.py -b 1", "--budget: got 'soon'; expected a time such as 90s"),
        ("--budget 10 minutes -- python ddp_loop.py", "got the file minutes and a command"),
        (
            "-- accelerate launch --config_file c.yaml ddp_loop.py",
            "accelerate launch --config_file: not supported here",
        ),
        ("-- torchrun ddp_loop.py", "the batch is unknown: write {batchPerWorker}"),
        ("--modes strong -- torchrun ddp_loop.py -b 8", "--modes strong: the batch per worker must change"),
        ("--modes wide -- torchrun ddp_loop.py -b 8", "--modes: got 'wide'"),
        ("--workers two -- torchrun ddp_loop.py -b 8", "--workers: got 'two'"),
        ("--workers 0 -- torchrun ddp_loop.py -b 8", "--workers: got '0'"),
        ("--workers 1,1 -- torchrun ddp_loop.py -b 8", "--workers: got 1; expected each value once"),
        ("--yaml no/e.yaml -- torchrun ddp_loop.py -b 8", "--yaml no/e.yaml: cannot be written"),
        ("-- RANK=0 torchrun ddp_loop.py -b 8", "the command's variables, RANK: got"),
        ("--batch 8 -- torchrun ddp_loop.py -b {batchperworker}", "unknown placeholder {batchperworker}"),
    ],
)
def test_a_wrong_call_gets_one_line(scripts: Desk, typed: str, line: str) -> None:
    ran = scripts.here("run", *shlex.split(typed))
    assert ran.code in (2, 3)
    assert line in ran.err
    assert ran.err.count("\n") == 1
    assert not (scripts.folder / "results").exists()


@pytest.mark.processes
@pytest.mark.parametrize(
    ("text", "options", "fragments"),
    [
        (
            "import no_such_module",
            "",
            ("no trial is valid; the only one that ended: ", "No module named 'no_such_module'"),
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
