"""Custom programs must show that they were one training job; built-in ones are that by construction."""

from typing import Any

import pytest

from scalecurve_api.record.assemble import assemble
from scalecurve_api.record.checks.proof import PROOF, impossible_efficiency, unproved
from scalecurve_api.record.proof import CommunicationSeen, DataSeen, Proof, TrainingSeen
from scalecurve_api.record.rank import RankRecord
from scalecurve_api.record.rejudge import rejudge
from scalecurve_api.record.trial_record import TrialRecord
from scalecurve_api.record.verdict import Verdict, judge
from scalecurve_api.spec.trial import InvalidReason, TrialSpec
from tests.api.judged import of
from tests.api.rank_records import GOOD, rank_record, ranks_of, trial

CUSTOM = trial({"workload": {"program": "custom", "command": ["x"]}})


def proof(rank: int, **changes: Any) -> Proof:
    parts: dict[str, Any] = {
        "communication": CommunicationSeen(calls=3, bytes=12_000, steps=3, kinds=["all-reduce"], method="profiler"),
        "data": DataSeen(digest=f"samples of {rank}", samples=24, method="forward"),
        "training": TrainingSeen(initial="before", final="abc", gradient_norm_nonzero=True, steps=3, method="torch"),
    }
    return Proof(**(parts | changes))


def proved(second: dict[str, Any] | None = None, of: TrialSpec = CUSTOM, **changes: Any) -> dict[int, RankRecord]:
    """Two ranks with every proof, of which ``changes`` change both and ``second`` the second one."""
    return {
        rank: rank_record(rank, of, parameters=1000, proof=proof(rank, **changes | ((second or {}) if rank else {})))
        for rank in range(of.point.workers)
    }


def record(ranks: dict[int, RankRecord], of: TrialSpec = CUSTOM) -> TrialRecord:
    return assemble(of, ranks, {}, GOOD).record


def said(ranks: dict[int, RankRecord]) -> tuple[str | None, str]:
    verdict = judge(CUSTOM, ranks, GOOD)
    return verdict.reason, verdict.message


def test_everything_was_shown() -> None:
    verdict = judge(CUSTOM, proved(), GOOD)
    assert verdict.reason is None
    assert {name: of(verdict, name) for name in PROOF} == {
        "NoCommunication": (True, "all-reduce, at least 4,000 bytes a step on every rank"),
        "SameData": (True, "2 ranks read different samples"),
        "NotTrained": (True, "parameters changed on 2 ranks"),
        "ReplicasDiverged": (True, "parameters equal on 2 ranks"),
    }
    assert unproved(record(proved())) == ()


def test_no_collective_in_the_timed_windows() -> None:
    """Ranks that average their gradients only while that is looked at."""
    seen = {"calls": 3, "bytes": 12_000, "steps": 3, "kinds": ["gloo:all_reduce"], "method": "profiler"}
    alone, together = (CommunicationSeen(**seen, timed_calls=calls) for calls in (0, 500))
    message = "rank 1 took part in no collective in the timed windows, and did while it was observed"
    assert said(proved({"communication": alone}, communication=together)) == ("NoCommunication", message)
    assert said(proved(communication=together))[0] is None


def test_fewer_collectives_than_in_any_observed_step() -> None:
    seen = {"calls": 6, "bytes": 12_000, "steps": 3, "kinds": ["gloo:all_reduce"], "method": "profiler"}
    steps = sum(window.steps for window in proved()[0].windows)
    for calls, reason in ((2 * steps, None), (2 * steps - 1, "NoCommunication")):
        together = CommunicationSeen(**seen, timed_calls=calls, least_calls=2)
        code, message = said(proved(communication=together))
        assert code == reason
        assert reason is None or message.startswith(f"rank 0 took part in {calls} collectives in {steps} timed steps")


def test_no_communication() -> None:
    none = CommunicationSeen(calls=0, bytes=0, steps=28, method="profiler")
    code, message = said(proved({"communication": none}))
    assert code == "NoCommunication"
    assert "rank 1 " in message
    assert "DistributedDataParallel" in message


def test_a_scalar_is_no_gradient() -> None:
    loss = CommunicationSeen(calls=3, bytes=9, steps=3, kinds=["all-reduce"], method="profiler")
    verdict = judge(CUSTOM, proved(communication=loss), GOOD)
    assert of(verdict, "NoCommunication") == (
        None,
        "3 bytes a step is too little for gradients of a model of 4,000 bytes",
    )


def test_a_part_of_the_gradients_is_no_gradient() -> None:
    """An all-reduce of half a percent of the model's bytes was proved: of 1,000 parameters, in 3 steps."""
    part = CommunicationSeen(calls=3, bytes=60, steps=3, kinds=["all-reduce"], method="profiler", least_bytes=375)
    passed, detail = of(judge(CUSTOM, proved(communication=part), GOOD), "NoCommunication")
    assert passed is None
    assert detail.startswith("60 bytes in 3 observed steps, and gradients of their updates take 375 at the least: ")
    signs = part.model_copy(update={"bytes": 375})
    assert of(judge(CUSTOM, proved(communication=signs), GOOD), "NoCommunication")[0] is True
    hooked = part.model_copy(update={"least_bytes": 12})
    assert of(judge(CUSTOM, proved(communication=hooked), GOOD), "NoCommunication")[0] is True


def test_a_record_that_counts_no_steps_is_judged() -> None:
    none = CommunicationSeen(calls=1, bytes=-5, steps=0, method="none of ours")
    assert of(judge(CUSTOM, proved(communication=none), GOOD), "NoCommunication")[0] is None


def test_same_data() -> None:
    same = DataSeen(digest="the same", samples=24, method="forward")
    reason, message = said(proved(data=same))
    assert reason == "SameData"
    assert message.startswith("ranks 0, 1 read the same 24 samples: no sampler splits them; use a DistributedSampler")
    declared = same.model_copy(update={"declared_same": True})
    assert said(proved(data=declared)) == (None, "")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"initial": "abc"},
            "no parameter of rank 1 changed between attach() and finish(): optimizer.step() or backward() is missing",
        ),
        ({"gradient_norm_nonzero": False}, "every gradient of rank 1 was zero or missing"),
    ],
)
def test_not_trained(change: dict[str, Any], message: str) -> None:
    trained = proof(1).training
    assert trained is not None
    assert said(proved({"training": trained.model_copy(update=change)})) == ("NotTrained", message)


def test_one_worker_must_train_and_need_not_communicate() -> None:
    one = trial({"workload": {"program": "custom", "command": ["x"]}}, workers=1)
    verdict = judge(one, proved(of=one, communication=None, data=None), GOOD)
    assert verdict.reason is None
    assert not {"NoCommunication", "SameData"} & {check.name for check in verdict.checks}
    still = TrainingSeen(initial="abc", final="abc", method="torch")
    assert judge(one, proved(of=one, training=still), GOOD).reason == "NotTrained"


@pytest.mark.parametrize(
    ("part", "reason"), [("communication", "NoCommunication"), ("data", "SameData"), ("training", "NotTrained")]
)
def test_what_one_rank_did_not_show_is_unproved(part: str, reason: str) -> None:
    kept = record(proved({part: None}))
    assert (kept.phase, kept.reason) == ("Succeeded", None)
    assert unproved(kept) == (reason,)


def test_records_without_proof_and_checksum_are_unproved() -> None:
    assert unproved(record(ranks_of(CUSTOM, parameter_checksum=None))) == PROOF
    old = record(ranks_of(CUSTOM)).model_copy(update={"checks": []})
    assert unproved(old) == PROOF


def test_built_in_programs_are_proved_by_construction() -> None:
    built_in = trial()
    verdict: Verdict = judge(built_in, ranks_of(built_in, parameter_checksum=None), GOOD)
    assert of(verdict, "NoCommunication") == (True, "by construction of program torch")
    assert unproved(record(ranks_of(built_in, parameter_checksum=None), built_in)) == ()


def test_impossible_efficiency() -> None:
    assert impossible_efficiency(1.049) is None
    reason = impossible_efficiency(9.9)
    assert reason is not None
    assert reason.startswith(f"{InvalidReason.impossible_efficiency.value}: efficiency is at least 990.0%")


@pytest.mark.parametrize("workers", [1, 2])
def test_reported_times_are_not_proved_whatever_ranks_showed(workers: int) -> None:
    workload = {"program": "custom", "command": ["x"], "instrument": "log", "log": {"format": "nemo"}}
    of_log = trial({"workload": workload}, workers)
    stored = record(proved(of=of_log), of_log)
    assert (stored.phase, unproved(stored)) == ("Succeeded", (InvalidReason.reported,))
    names = {check.name: check.passed for check in stored.checks}
    assert names["Reported"] is None
    assert names.keys().isdisjoint({*PROOF, InvalidReason.untimed_work})


@pytest.mark.parametrize(
    ("rate", "begins"),
    [
        (4.0, "the printed rate is 4.0 times what the lines' own times allow: it counts samples twice"),
        (0.25, "the printed rate is 0.25 times what the lines' own times allow: it is a mean since the start, or of"),
        (1.2, None),
        (0.8, None),
        (None, None),
    ],
)
def test_a_wrong_rate_is_not_what_its_lines_allow(rate: float | None, begins: str | None) -> None:
    workload = {"program": "custom", "command": ["x"], "instrument": "log", "log": {"format": "nemo"}}
    of_log = trial({"workload": workload})
    verdict = judge(of_log, ranks_of(of_log, printed_rate=rate), GOOD)
    assert verdict.reason == (begins and "WrongRate")
    assert verdict.message.startswith(begins or "")
    assert ("WrongRate" in {check.name for check in verdict.checks}) is (rate is not None)


RARE: dict[str, Any] = {"calls": 0, "bytes": 0, "steps": 28, "method": "profiler", "silent_steps": 19}
LOCAL = trial({"workload": {"program": "custom", "command": ["x"], "syncEvery": 3}, "measure/warmupSteps": 3})


@pytest.mark.parametrize(
    ("period", "met", "declare"),
    [(20, "after 20", "workload.syncEvery: 20"), (None, "now and then", "the steps between")],
)
def test_ranks_that_meet_now_and_then_are_told_how_that_is_declared(period: int | None, met: str, declare: str) -> None:
    """They are initialized and wrapped as they mean to be: local SGD."""
    seen = CommunicationSeen(**RARE, period=period)
    reason, message = said(proved(communication=seen))
    assert reason == "NoCommunication"
    assert f"ranks exchanged nothing in 19 steps in a row, and met {met}" in message
    assert f"declare {declare}" in message
    assert "DistributedDataParallel" not in message
    ranks = proved(communication=seen.model_copy(update={"calls": 3, "bytes": 12_000}))
    ranks[1] = ranks[1].model_copy(update={"parameter_checksum": "between two meetings"})
    reason, diverged = said(ranks)
    assert reason == "ReplicasDiverged"
    assert message in diverged
    ranks = {rank: each.model_copy(update={"proof": proof(rank, communication=seen)}) for rank, each in ranks.items()}
    assert said(ranks)[1].count("local SGD") == 1


@pytest.mark.parametrize(("calls", "phase"), [(2, "Succeeded"), (1, "Invalid")])
def test_declared_exchanges_are_counted_in_the_windows(calls: int, phase: str) -> None:
    seen = CommunicationSeen(**RARE, timed_calls=calls)
    trained = TrainingSeen(initial="a", final="b", gradient_norm_nonzero=True, met="c", method="torch")
    ranks = proved(of=LOCAL, communication=seen, training=trained)
    ranks[1] = ranks[1].model_copy(update={"parameter_checksum": "between two meetings"})
    verdict = judge(LOCAL, ranks, GOOD)
    assert verdict.phase == phase
    if phase == "Succeeded":
        stored = record(ranks, LOCAL)
        assert unproved(stored) == ()
        assert rejudge(stored) is None
    else:
        assert "fewer than one in every 3 (workload.syncEvery)" in verdict.message


@pytest.mark.parametrize(("met", "passed"), [("c", True), ("d", False), (None, None)])
def test_replicas_that_diverged_where_they_met(met: str | None, passed: bool | None) -> None:
    trained = TrainingSeen(initial="a", final="b", gradient_norm_nonzero=True, met="c", method="torch")
    ranks = proved({"training": trained.model_copy(update={"met": met})}, LOCAL, training=trained)
    assert of(judge(LOCAL, ranks, GOOD), "ReplicasDiverged")[0] is passed
