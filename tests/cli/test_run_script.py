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
        ("e.yaml -- python ddp_loop.py", "got e.yaml and a command"),
        ("e.yaml --batch 8", "--batch applies to a command after -- only"),
        ("--overlay o.yaml -- python ddp_loop.py -b 1", "--overlay requires an experiment file"),
        ("--add-session -- python ddp_loop.py -b 1", "--add-session requires an experiment file"),
        ("--search -- python ddp_loop.py -b 1", "--search requires an experiment file"),
        ("-- python trian.py -b 1", "trian.py: no such file"),
        ("-- no-such-program -b 1", "no-such-program: no such program"),
        ("-- torchrun --nnodes 2 ddp_loop.py -b 1", "--nnodes 2: expected one node"),
        ("-- torchrun --nproc ddp_loop.py", "torchrun --nproc: not supported here"),
        (
            "-- accelerate launch --config_file c.yaml ddp_loop.py",
            "accelerate launch --config_file: not supported here",
        ),
        ("-- torchrun ddp_loop.py", "the batch is unknown: write {batchPerWorker}"),
        ("--modes strong -- torchrun ddp_loop.py -b 8", "--modes strong: the batch per worker must change"),
        ("--modes wide -- torchrun ddp_loop.py -b 8", "--modes: got 'wide'"),
        ("--workers two -- torchrun ddp_loop.py -b 8", "--workers: got 'two'"),
        ("--workers 0 -- torchrun ddp_loop.py -b 8", "--workers: got '0'"),
        ("--workers 1,1 -- torchrun ddp_loop.py -b 8", "each value once"),
        ("--yaml no/e.yaml -- torchrun ddp_loop.py -b 8", "--yaml no/e.yaml: cannot be written"),
        ("-- RANK=0 torchrun ddp_loop.py -b 8", "spec.workload.env.RANK"),
        ("--batch 8 -- torchrun ddp_loop.py -b {batchperworker}", "unknown placeholder {batchperworker}"),
    ],
)
def test_a_wrong_call_gets_one_line(scripts: Desk, typed: str, line: str) -> None:
    ran = scripts.here("run", *shlex.split(typed))
    assert ran.code in (2, 3)
    assert line in ran.err
    assert ran.err.count("\n") == 1
    assert not (scripts.folder / "results").exists()


def test_options_that_click_checks(scripts: Desk) -> None:
    wrong = {"--budget soon -- python ddp_loop.py -b 1": "a time such as 90s", "--batch 0 -- x": "--batch"}
    for typed, line in wrong.items():
        ran = scripts.here("run", *shlex.split(typed), code=2)
        assert line in ran.err


def test_the_plan_of_a_command(scripts: Desk) -> None:
    command = "A=1 mpirun --bind-to none python ddp_loop.py --batch {batchPerWorker}"
    ran = scripts.here("run", *shlex.split(f"--workers 1,2 --dry-run --batch 4 --budget 90s -- {command}"), code=0)
    assert "strong and weak scaling on 1, 2 workers, 12 trials" in ran.out
    assert "90 s at the latest" in ran.out
    assert "dropped, since the ranks are started here: --bind-to none" in ran.out
    assert len(re.findall(r"^ ?\d+  (?:strong|weak)-", ran.out, re.MULTILINE)) == 12
    assert not (scripts.folder / "results").exists()
