"""Every program in `benchmarks/` runs in its smallest form, and prints what it is for.

What it prints is no number to keep: a machine that runs tests is busy. A program that has a bar on time may miss it.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tools import ROOT

MISSED_A_BAR = 1


@dataclass(frozen=True)
class Smallest:
    """Arguments, a word of the heading or row that must be printed, and what the program may exit with beside 0."""

    arguments: str
    prints: str
    may_exit_with: int = 0


FORMS = {
    "coverage": Smallest("--draws 20 --from 8", "two kinds of runs"),
    "fidelity.engine_fidelity": Smallest("--quick --workers 1 --rounds 1 --arms plain engine", "resnet20 weak"),
    "fidelity.fidelity": Smallest("--quick --workers 1 --pairs 1", "resnet20 weak", MISSED_A_BAR),
    "harness_cost": Smallest("--pairs 2", "us a step", MISSED_A_BAR),
    "injected": Smallest("--runs 1 --only loader --windows 1 --steps 2", "input"),
    "operator.hostile": Smallest("--count 200", "200"),
    "soak": Smallest("--runs 1 --ddp 0", "lost"),
    "strategies": Smallest("--quick --only zero1 --seconds 60", "resnet20 zero1 alone"),
}
OTHERS = {
    "fidelity.engine_arms": "fidelity.engine_fidelity runs it",
    "fidelity.equivalence": "results of fidelity.fidelity",
    "fidelity.plain_ddp": "fidelity.engine_fidelity runs it",
    "operator.kills": "a control plane of real components",
    "operator.large": "a control plane of real components",
    "operator.load": "a control plane of real components",
    "operator.many": "a control plane of real components",
    "operator.rest": "a control plane of real components",
    "operator.rig.player": "a control plane of real components",
    "prediction": "it takes a minute, and `.ci/run` runs all of it",
    "prediction.extrap_points": "Extra-P, which stands in an environment of its own",
    "strategies.held_worker": "strategies runs it",
    "trainers": "Transformers",
    "trainers.gpt2_trainer": "Transformers",
}
"""Programs without a test here → what they need."""


def programs() -> set[str]:
    """The modules that run as programs, named from `benchmarks`."""
    folder = ROOT / "benchmarks"
    found = set()
    for path in folder.rglob("*.py"):
        if re.search(r'^if __name__ == "__main__":', path.read_text(encoding="utf-8"), re.MULTILINE):
            found.add(".".join(path.relative_to(folder).with_suffix("").parts).removesuffix(".__main__"))
    return found


def test_every_program_is_listed() -> None:
    assert programs() == FORMS.keys() | OTHERS.keys()


@pytest.mark.parametrize("program", FORMS)
def test_smallest_form(program: str, tmp_path: Path) -> None:
    form = FORMS[program]
    done = subprocess.run(
        [sys.executable, "-m", f"benchmarks.{program}", *form.arguments.split()],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(tmp_path), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in {0, form.may_exit_with}, done.stdout + done.stderr
    assert form.prints in done.stdout, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
