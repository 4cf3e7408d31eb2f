"""A real profiler in processes of its own, as one that is not ended takes its process with it."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("torch", reason="torch is not installed")
pytestmark = pytest.mark.processes

BEGUN = """
import torch
from scalecurve_worker.torch.profiler_session import ProfilerSession
session = ProfilerSession()
session.begin(record_shapes=True)
torch.ones(2) + 1
"""


def run(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300)


def test_an_error_while_it_is_profiled_is_the_programs() -> None:
    done = run(BEGUN + "raise ValueError('mine')")
    assert done.returncode == 1
    assert "ValueError: mine" in done.stderr


def test_an_exit_while_it_is_profiled_keeps_its_status() -> None:
    assert run(BEGUN + "raise SystemExit(7)").returncode == 7


def test_what_it_saw_and_another_session() -> None:
    program = """
other = ProfilerSession()
other.begin()
assert other.end() is None, "a program that profiles itself keeps its session"
assert "aten::add" in [event.name() for event in session.end()]
assert session.end() is None
session.begin()
assert session.end() is not None
"""
    done = run(BEGUN + program)
    assert done.returncode == 0, done.stderr


def test_a_session_that_the_programs_own_cancelled() -> None:
    program = """
with torch.profiler.profile():
    torch.ones(2) + 1
assert session.end() is None, "nothing is known of those steps"
"""
    done = run(BEGUN + program)
    assert done.returncode == 0, done.stderr
