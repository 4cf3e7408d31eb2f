"""Programs that are measured by what they print, under the real engine."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from scalecurve_api.record.checks.proof import unproved
from scalecurve_api.record.trial_record import TrialRecord
from scalecurve_api.spec.trial import InvalidReason

from .conftest import PROGRAMS, Lab

pytestmark = pytest.mark.processes
PRINTS = str(PROGRAMS / "prints.py")
MEASURE = {"warmupSteps": 4, "maxWarmupSteps": 4, "windows": 2, "stepsPerWindow": 6, "repetitions": 1}
OWN = {"pattern": r"iter (?P<step>\d+): loss (?P<loss>\S+), time (?P<step_time_ms>[\d.]+)ms"}


def reported(
    lab: Lab,
    program: str,
    log: dict[str, Any],
    workers: int = 2,
    *words: str,
    deadline: int = 600,
    **workload: Any,
) -> TrialRecord:
    """The record of one trial of a program that prints on its first or last rank."""
    command = [sys.executable, PRINTS, program, "--batch", "{batchPerWorker}", *words]
    lab.write(
        scaling={"modes": ["weak"], "workers": [workers], "batch": {"perWorker": 4}},
        measure={**MEASURE, "maxForeignLoad": 1.0},
        workload={"command": command, "instrument": "log", "log": log, **workload},
        deadlineSeconds=deadline,
    )
    lab.run()
    (name,) = lab.published()
    return TrialRecord.model_validate(lab.record(name))


@pytest.mark.parametrize(
    ("program", "log", "unit", "times"),
    [
        ("torchtitan", {"format": "torchtitan", "tokensPerSample": 64}, "tokens", "the throughput in its lines"),
        ("megatron", {"format": "megatron"}, "samples", "the step times in its lines"),
        ("huggingface", {"format": "huggingface"}, "samples", "the time between its lines"),
        ("mllog", {"format": "mllog"}, "samples", "the time between its lines"),
        ("own", OWN, "samples", "the step times in its lines"),
    ],
)
def test_two_workers_of_a_known_program(lab: Lab, program: str, log: dict[str, Any], unit: str, times: str) -> None:
    record = reported(lab, program, log)
    assert (record.phase, record.message) == ("Succeeded", "")
    assert unproved(record) == (InvalidReason.reported,)
    assert [(window.index, window.steps) for window in record.windows] == [(0, 6), (1, 6)]
    assert record.summary is not None
    assert record.summary.sample_unit == unit
    assert record.summary.samples == 2 * 6 * 8 * (64 if unit == "tokens" else 1)
    assert record.summary.step is not None
    assert record.summary.step.count == 12
    assert record.summary.last_loss is not None
    assert record.summary.step.mean >= 0.003, "a step sleeps 4 ms; bars have their own ticks"
    assert str(record.options["reportedTimes"]).startswith(times)
    assert {check.name for check in record.checks if check.passed is None} >= {"Reported"}


def test_one_worker_is_no_more_proved(lab: Lab) -> None:
    record = reported(lab, "megatron", {"format": "megatron"}, 1)
    assert (record.phase, unproved(record)) == ("Succeeded", (InvalidReason.reported,))


@pytest.mark.parametrize("launcher", ["torchrun", "mpirun"])
def test_every_launcher(lab: Lab, launcher: str) -> None:
    if launcher == "torchrun":
        pytest.importorskip("torch", reason="torch is not installed")
    else:
        pytest.importorskip("mpi4py", reason="mpi4py is not installed")
    record = reported(lab, "megatron", {"format": "megatron"}, launcher=launcher)
    assert (record.phase, record.message) == ("Succeeded", "")


def test_a_command_that_starts_its_ranks_itself_runs_once(lab: Lab) -> None:
    """As JAX's one process for all devices, or a torchrun within the command."""
    record = reported(lab, "nanogpt", OWN, 2, "--global", "{globalBatch}", "--do", "once", startsRanks=True)
    assert (record.phase, record.message) == ("Succeeded", "")
    assert [(at.rank, at.local_rank) for at in record.topology] == [(0, 0), (1, 1)]
    assert len({at.pid for at in record.topology}) == 1
    cores = [core for at in record.topology for core in at.cores]
    assert len(set(cores)) == len(cores), "each worker has its part of the cores"
    assert record.summary is not None
    assert record.summary.samples == 2 * 6 * 8
    assert record.summary.step is not None


def test_what_a_command_started_ends_with_it(lab: Lab) -> None:
    """Of itself it would run for ever; the fixture finds what is left."""
    record = reported(lab, "own", OWN, 2, "--do", "child")
    assert (record.phase, record.message) == ("Succeeded", "")


def test_lines_that_are_apart_count_for_all_steps_between(lab: Lab) -> None:
    record = reported(lab, "megatron", {"format": "megatron"}, 2, "--every", "3")
    assert record.phase == "Succeeded"
    assert [window.steps for window in record.windows] == [6, 6]


def test_windows_shorter_than_the_distance_of_lines_are_refused(lab: Lab) -> None:
    record = reported(lab, "megatron", {"format": "megatron"}, 2, "--every", "10")
    assert (record.phase, record.reason) == ("Failed", "BadWorkload")
    assert "workload.log: the lines are 10 steps apart, and a window has 6" in record.message
    assert "set measure.stepsPerWindow to at least 10" in record.message


def test_a_program_that_prints_no_such_line(lab: Lab) -> None:
    record = reported(lab, "own", {"format": "megatron"}, 2, "--steps", "9")
    assert (record.phase, record.reason) == ("Failed", "BadWorkload")
    assert record.message == "rank 0: workload.log: none of the 11 lines that prints.py printed is of format megatron"


def test_a_program_that_ends_too_early(lab: Lab) -> None:
    record = reported(lab, "megatron", {"format": "megatron"}, 2, "--steps", "12")
    assert (record.phase, record.reason) == ("Invalid", "RecordsMissing")
    measured = "rank 0 measured 1 window, 6 steps; expected 2 windows of 6 steps"
    assert record.message == f"{measured}: let the program train for more steps"


def test_a_program_that_runs_on_is_ended_at_the_deadline_with_all_that_it_started(lab: Lab) -> None:
    """Whatever the deadline; one that the machine is quick enough for meets the programs at work.

    The fixture finds what is left; a command that starts another one has a group of its own.
    """
    words = ("--steps", "1000000", "--do", "child")
    for deadline in (2, 8, 32, 128):
        lab.bundle = lab.folder / f"bundle-{deadline}"
        record = reported(lab, "own", {"format": "nemo"}, 2, *words, deadline=deadline, launcher="processes")
        assert (record.phase, record.reason) == ("Failed", "DeadlineExceeded")
        if any("iter 9:" in log.read_text() for log in lab.bundle.glob("trials/*/logs/rank-0.log")):
            return
    pytest.fail("not at work within any deadline")


def test_a_program_that_fails(lab: Lab) -> None:
    record = reported(lab, "megatron", {"format": "megatron"}, 2, "--do", "fail:5")
    assert (record.phase, record.reason) == ("Failed", "RankFailed")
    assert "exited with code 3" in record.message


def test_a_program_that_claims_another_batch(lab: Lab) -> None:
    record = reported(lab, "megatron", {"format": "megatron"}, 2, "--do", "batch:6")
    assert (record.phase, record.reason) == ("Invalid", "WrongSamples")
    assert "rank 0 counted 3 samples a step in window 0, but the experiment has batches of 4" in record.message


def test_a_program_that_prints_faster_than_it_can_be_read(lab: Lab) -> None:
    """It waits as at any pipe, and rounds of the ranks go on."""
    record = reported(lab, "own", OWN, 2, "--do", "chatter")
    assert (record.phase, record.message) == ("Succeeded", "")


def test_a_loss_of_nan(lab: Lab) -> None:
    record = reported(lab, "megatron", {"format": "megatron"}, 2, "--do", "nan")
    assert (record.phase, record.reason) == ("Invalid", "NonFiniteLoss")


def test_a_pattern_that_takes_for_ever_ends_the_trial_and_not_the_engine(lab: Lab) -> None:
    record = reported(lab, "own", {"pattern": r"(\S+\s*)+#(?P<step>\d+)"}, 1)
    assert (record.phase, record.reason) == ("Failed", "BadWorkload")
    assert "workload.log.pattern: takes more than 0.2 s over a line" in record.message


def test_a_program_that_prints_four_times_its_rate(lab: Lab) -> None:
    """And one that is four times too low, which would let windows last longer than the run."""
    for factor, says in ((0.25, "it counts samples twice"), (4, "it is a mean since the start, or of one rank only")):
        lab.bundle = lab.folder / f"bundle-{factor}"
        record = reported(lab, "own", OWN, 2, "--step-ms", "20", "--do", f"slow:{factor}")
        assert (record.phase, record.reason) == ("Invalid", "WrongRate")
        assert says in record.message
