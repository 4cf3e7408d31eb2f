"""One test for each way in which a run is not what was asked for, and for what could not be checked."""

import re
from pathlib import Path
from typing import Any

import pytest

from scalecurve_api.features.collectives.facts import AllReduceRow
from scalecurve_api.record.outcome import Outcome
from scalecurve_api.record.verdict import SAME_SOFTWARE, Verdict, judge
from scalecurve_api.spec.trial import OF_POINTS, FailedReason, InvalidReason, TrialPhase
from tests.api.judged import TWO, invalid, of, two
from tests.api.rank_records import GOOD, rank_record, ranks_of, trial, window


def test_a_good_run_succeeds_and_says_what_was_looked_at() -> None:
    verdict = judge(TWO, ranks_of(TWO), GOOD)
    assert (verdict.phase, verdict.reason, verdict.message) == (TrialPhase.succeeded, None, "")
    assert {check.name for check in verdict.checks} == {*InvalidReason, SAME_SOFTWARE} - {
        InvalidReason.records_unreadable,
        *OF_POINTS,
        InvalidReason.reported,
        InvalidReason.restarted,  # where something else than the engine starts pods
        InvalidReason.wrong_clock,  # of workers that know the kernel's
        InvalidReason.wrong_math,  # of layouts
        InvalidReason.wrong_rate,  # of programs that print theirs
        InvalidReason.wrong_transport,  # where a transport was seen, or is expected
    }
    unchecked = {check.name for check in verdict.checks if check.passed is None}
    assert unchecked == {"Throttled"}, "there are no device clocks on CPUs"
    assert all(check.detail for check in verdict.checks)


def test_a_cancelled_run_is_not_judged() -> None:
    outcome = Outcome(engine="local", cancelled=True, failure=FailedReason.rank_killed)
    assert judge(TWO, {}, outcome) == Verdict(TrialPhase.cancelled, None, "cancelled", ())
    assert judge(TWO, {}, outcome.model_copy(update={"message": "by the user"})).message == "by the user"


def test_a_failed_run_is_failed_whatever_else_is_wrong() -> None:
    outcome = Outcome(engine="local", failure=FailedReason.out_of_memory, message="rank 1: out of memory")
    verdict = judge(TWO, {0: rank_record(0, TWO, finite_loss=False)}, outcome)
    assert (verdict.phase, verdict.reason, verdict.message) == (
        TrialPhase.failed,
        "OutOfMemory",
        "rank 1: out of memory",
    )
    assert of(verdict, "NonFiniteLoss")[0] is False


def test_memory_that_is_full_ends_a_ladder_and_is_no_failure() -> None:
    rung = TWO.model_copy(update={"point": TWO.point.model_copy(update={"rung": 1})})
    full = Outcome(engine="local", failure=FailedReason.out_of_memory, message="rank 1: out of memory")
    verdict = judge(rung, {}, full)
    assert (verdict.phase, verdict.reason) == (TrialPhase.full, "OutOfMemory")
    crashed = full.model_copy(update={"failure": FailedReason.rank_failed})
    assert judge(rung, {}, crashed).phase is TrialPhase.failed


def test_the_first_reason_counts_and_all_are_told() -> None:
    reason, message = invalid(two(finite_loss=False, parameter_checksum="other"))
    assert reason == "ReplicasDiverged"
    assert message == "parameters of rank 1 differ from the other ranks'; loss is NaN or infinite on rank 1"


def test_restarted_pods_make_a_run_invalid() -> None:
    verdict = judge(TWO, ranks_of(TWO), GOOD.model_copy(update={"restarts": 2}))
    assert (verdict.phase, verdict.reason) == (TrialPhase.invalid, "Restarted")
    assert verdict.message == "its pods started again 2 times: the runtime restarts what fails"


# RecordsMissing


def test_records_missing() -> None:
    assert invalid({}) == ("RecordsMissing", "no record from rank 0, 1 of 2")
    assert invalid({0: rank_record(0, TWO)})[0] == "RecordsMissing"
    assert invalid({0: rank_record(0, TWO)})[1].startswith("no record from rank 1 of 2")


def test_records_unreadable() -> None:
    """Nothing else is checked then; a run that failed stays Failed."""
    outcome = GOOD.model_copy(update={"unreadable": "nested deeper than 32"})
    verdict = judge(TWO, {}, outcome)
    assert (verdict.phase, verdict.reason) == (TrialPhase.invalid, "RecordsUnreadable")
    assert verdict.message == "nested deeper than 32"
    assert [check.name for check in verdict.checks] == ["RecordsUnreadable"]
    failed = judge(TWO, {}, outcome.model_copy(update={"failure": FailedReason.rank_killed}))
    assert (failed.phase, failed.reason) == (TrialPhase.failed, "RankKilled")


def test_many_missing_records_are_not_all_named() -> None:
    sixteen = trial(workers=16)
    assert invalid({0: rank_record(0, sixteen)}, sixteen)[1].startswith(
        "no record from rank 1, 2, 3, 4, 5, 6 and 9 more of 16"
    )


def test_windows_missing_on_a_rank() -> None:
    reason, message = invalid(two(windows=[window(0)]))
    assert reason == "RecordsMissing"
    assert message == "rank 1 measured 1 window, 3 steps; expected 2 windows of 3 steps"


def test_a_window_cut_short() -> None:
    assert invalid(two(windows=[window(0), window(1, steps=2)]))[0] == "RecordsMissing"


def test_windows_of_other_kinds_do_not_stand_in() -> None:
    assert invalid(two(windows=[window(0), window(1, "no-communication")]))[0] == "RecordsMissing"


def test_the_microbenchmark_records_sizes_not_windows() -> None:
    bench = trial({"workload": {"program": "allreduce"}})
    row = AllReduceRow(
        bytes=8, in_place=True, iterations=5, time_us_median=1, time_us_min=1, time_us_p95=1, algbw=1, busbw=1, errors=0
    )
    assert judge(bench, ranks_of(bench, windows=[], allreduce=[row]), GOOD).phase is TrialPhase.succeeded
    assert invalid(ranks_of(bench, windows=[]), bench) == ("RecordsMissing", "0 message sizes measured")


# WrongWorldSize


def test_wrong_world_size() -> None:
    reason, message = invalid({rank: rank_record(rank, TWO, world=1) for rank in range(2)})
    assert (reason, message) == ("WrongWorldSize", "world size 1, expected 2")
    assert invalid(two(world=1)) == ("WrongWorldSize", "world size 1, 2, expected 2")


# SameSoftware warns


@pytest.mark.parametrize("changes", [{"versions": {"torch": "2.1"}}, {"environment": {}}])
def test_other_software_on_a_rank_is_a_warning(changes: dict[str, Any]) -> None:
    verdict = judge(TWO, two(**changes), GOOD)
    assert verdict.phase is TrialPhase.succeeded
    assert of(verdict, SAME_SOFTWARE) == (False, "rank 1 differs from rank 0")


def test_every_reason_has_its_test() -> None:
    files = Path(__file__).parent.rglob("test_*.py")
    tests = [name for file in files for name in re.findall(r"^def (test_\w+)", file.read_text(), re.MULTILINE)]
    of_kinds = {InvalidReason.wrong_math}  # tested beside the kind of fact that it is judged by
    for reason in {*InvalidReason} - (OF_POINTS - {InvalidReason.impossible_efficiency}) - of_kinds:
        name = "".join("_" + c.lower() if c.isupper() else c for c in reason.value).strip("_")
        assert any(name in test for test in tests), reason
