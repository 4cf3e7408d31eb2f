"""An engine and a worker of different versions: what is dropped, what is passed over, and what is said of it."""

from __future__ import annotations

import json
import zlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from scalecurve_api.model import canonical_json, understood
from scalecurve_api.planning.plan import make_plan
from scalecurve_api.record import envelope
from scalecurve_api.record.assemble import assemble
from scalecurve_api.record.envelope import EnvelopeError, seal, unseal, unseal_ranks
from scalecurve_api.record.rank import RankRecord
from scalecurve_api.record.termination import Termination, read, spell
from scalecurve_api.record.trial_record import Summary
from scalecurve_api.record.verdict import SAME_VERSION, judge
from scalecurve_api.spec.trial import TrialPhase, TrialSpec
from tests.api import trial_defaults
from tests.api.example_experiments import experiment
from tests.api.rank_records import GOOD, rank_record, trial

TWO = trial()


# What a worker is sent


RICH = [
    {},
    {"workload/program": "torch", "workload/strategy": "ddp", "workload/env": {"A": "1"}},
    {"measure": {"repetitions": 2, "accuracy": {"epochs": 3}}, "workload/data": {"source": "digits"}},
    {"workload/program": "custom", "workload/command": ["python", "x.py"], "resources": {"limits": {"cpu": "2"}}},
]


@pytest.mark.parametrize("changes", RICH)
def test_what_is_sent_is_the_same_trial(changes: dict[str, Any]) -> None:
    for each in make_plan(experiment(changes)).trials:
        assert TrialSpec.model_validate(json.loads(canonical_json(each.sent()))) == each
        assert len(canonical_json(each.sent())) < len(canonical_json(each.wire()))


def test_a_field_that_an_older_worker_does_not_know_is_not_sent_while_it_has_its_default() -> None:
    class Newer(TrialSpec):
        since_then: bool = False
        never_set: str | None = None

    newer = Newer.model_validate(TWO.wire())
    assert "sinceThen" in newer.wire()
    assert TrialSpec.model_validate(newer.sent()) == TWO
    with pytest.raises(ValidationError, match="sinceThen"):
        TrialSpec.model_validate(newer.model_copy(update={"since_then": True}).sent())


@pytest.mark.parametrize(
    ("strategy", "field", "value"),
    [
        (None, "gradientAsBucketView", False),
        ("zero1", "gradientAsBucketView", False),
        ("fsdp", "fsdpGroupMb", 0),
        ("dp", "keepThreads", False),
        ("single", None, None),
    ],
)
def test_a_default_that_was_another_is_always_sent(strategy: str | None, field: str | None, value: object) -> None:
    """128 MiB, kept threads and views of buckets are what an older worker would take by itself."""
    workers = {"scaling/workers": [1]} if strategy == "single" else {}
    for each in make_plan(experiment({"workload/strategy": strategy, **workers})).trials:
        assert each.sent()["workload"].get("options", {}) == ({field: value} if field else {})
        assert TrialSpec.model_validate(each.sent()) == each


def test_no_default_changes_for_an_older_worker_takes_its_own() -> None:
    """``make fix`` adds new fields to the list. Another default wants another name, or ``always_sent``."""
    known, now = json.loads(trial_defaults.PATH.read_text()), trial_defaults.defaults()
    for part in trial_defaults.parts():
        assert {path: now[path] for path in part} == part
    assert {path: now.get(path, "gone") for path in known} == known


# What a newer worker leaves


def test_what_is_newer_is_passed_over_and_named() -> None:
    wire = rank_record(0, TWO).wire()
    wire |= {"sinceThen": 3, "topology": {**wire["topology"], "rack": "r1"}}
    wire["windows"] = [{**each, "joules": 1} for each in wire["windows"]]
    found, unknown = understood(RankRecord, wire)
    assert found == rank_record(0, TWO)
    assert unknown == ("topology.rack", "windows.joules", "sinceThen")
    assert understood(RankRecord, rank_record(0, TWO).wire()) == (rank_record(0, TWO), ())


def test_what_is_wrong_stays_wrong_beside_what_is_newer() -> None:
    with pytest.raises(ValidationError, match="world"):
        understood(RankRecord, {**rank_record(0, TWO).wire(), "sinceThen": 3, "world": "many"})


def sealed_by_a_newer_worker(ranks: int = 2) -> bytes:
    payload = seal(TWO.name, 1, {rank: rank_record(rank, TWO) for rank in range(ranks)}, {}, 1 << 23)
    head = zlib.decompress(payload[envelope._OPENING.size :]).decode().split("\n")
    lines = [json.loads(line) for line in head]
    for line in lines[1:]:
        line["record"]["sinceThen"] = line["rank"]
    head_bytes = zlib.compress("\n".join(canonical_json(line) for line in lines).encode())
    return envelope._OPENING.pack(envelope._MAGIC, len(head_bytes)) + head_bytes


@pytest.mark.parametrize("open_it", [unseal, unseal_ranks])
def test_the_record_of_a_newer_worker_is_read(open_it: Any) -> None:
    found = open_it(sealed_by_a_newer_worker())
    assert found.ranks == {rank: rank_record(rank, TWO) for rank in range(2)}
    (said,) = found.left_out
    assert said.startswith("rank records: sinceThen, which scalecurve")
    assert judge(TWO, found.ranks, GOOD).phase is TrialPhase.succeeded


def test_a_record_that_lacks_what_is_asked_of_it_is_none() -> None:
    payload = sealed_by_a_newer_worker(1)
    head = json.loads(canonical_json(rank_record(0, TWO).wire()))
    del head["world"]
    lines = [{"trial": "t", "attempt": 1, "leftOut": [], "journals": [], "ranks": 1}, {"rank": 0, "record": head}]
    data = zlib.compress("\n".join(map(canonical_json, lines)).encode())
    with pytest.raises(EnvelopeError, match="world"):
        unseal(envelope._OPENING.pack(envelope._MAGIC, len(data)) + data)
    assert unseal(payload).ranks


SAID = Termination(trial="t", attempt=2, sha256="0" * 64, summary=Summary(samples=1, wall_s=1, throughput=1))


def test_the_last_word_of_a_newer_worker_is_read() -> None:
    wire = json.loads(spell(SAID))
    wire["sinceThen"] = wire["summary"]["sinceThen"] = 1
    assert read(json.dumps(wire)) == SAID


def test_a_users_own_json_is_no_word_of_ours() -> None:
    assert read(json.dumps({"trial": "t", "attempt": 2, "loss": 0.5})) is None


@given(st.text(alphabet='[]{}":,0a', max_size=40))
def test_no_text_breaks_the_reader(text: str) -> None:
    assert read(text) is None


# What is said of it


def versions(worker: str | None) -> dict[int, RankRecord]:
    found = {"python": "3.11"} | ({"scalecurve": worker} if worker else {})
    return {rank: rank_record(rank, TWO, versions=found) for rank in range(2)}


@pytest.mark.parametrize(
    ("worker", "passed", "detail"),
    [
        ("0.2.0", True, "scalecurve 0.2.0 everywhere"),
        ("0.1.0", False, "the worker's image has scalecurve 0.1.0, the engine 0.2.0"),
        (None, None, "the worker's version is unknown; the engine has scalecurve 0.2.0"),
    ],
)
def test_the_record_carries_both_versions(worker: str | None, passed: bool | None, detail: str) -> None:
    outcome = GOOD.model_copy(update={"engine_version": "0.2.0"})
    record = assemble(TWO, versions(worker), {}, outcome).record
    assert record.phase is TrialPhase.succeeded, "a warning"
    assert (record.engine_version, record.versions.get("scalecurve")) == ("0.2.0", worker)
    (check,) = [each for each in record.checks if each.name == SAME_VERSION]
    assert check.passed is passed
    assert check.detail.startswith(detail)


def test_an_engine_that_says_no_version_is_not_compared() -> None:
    assert SAME_VERSION not in {check.name for check in judge(TWO, versions("0.1.0"), GOOD).checks}
