"""What a ledger says of a bundle that was made by hand: the cases that no single run makes."""

from __future__ import annotations

import json
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest

from scalecurve.bundle.open import open_bundle
from scalecurve.bundle.record_file import parse_record
from scalecurve_api.model import canonical_json
from scalecurve_api.planning.plan import make_plan
from scalecurve_api.record.ledger import LEDGER_FILE, Entry, Event, read_ledger
from scalecurve_api.record.ledger_file import LedgerFile
from scalecurve_api.spec.experiment import ScalingExperiment
from tests.analysis.synthetic import experiment, write_bundle

OF = experiment(modes=["weak"], workers=[1, 2], repetitions=1)
CHEAPER = experiment(modes=["weak"], workers=[1, 2], repetitions=1, cost={"perWorkerHour": 1.0})
T1, T2 = "weak-1-1x1-r1", "weak-2-1x2-r1"


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    return write_bundle(tmp_path / "b", OF, tables=False)


def begin(bundle: Path, of: ScalingExperiment = OF, adopt: bool = True) -> LedgerFile:
    ledger = LedgerFile(bundle)
    records = {name: record_of(bundle, name) for name in (T1, T2)} if adopt else {}
    ledger.begin((bundle / "experiment.yaml").read_bytes(), make_plan(of).trials, records)
    return ledger


def record_of(bundle: Path, trial: str) -> bytes:
    return (bundle / "trials" / trial / "trial.json").read_bytes()


def claims(bundle: Path) -> dict[str, tuple[bool | None, str]]:
    return {claim.what: (claim.holds, claim.detail) for claim in open_bundle(bundle).claims}


def test_records_of_before_the_ledger_are_adopted(bundle: Path) -> None:
    begin(bundle)
    assert claims(bundle)["records"] == (True, "2 records, each as the ledger has it")
    begin(bundle)
    assert len(read_ledger((bundle / LEDGER_FILE).read_bytes()).entries) == 2


def test_an_experiment_may_be_suspended_and_resumed_but_not_planned_anew(bundle: Path) -> None:
    begin(bundle)
    with (bundle / "experiment.yaml").open("a") as file:
        file.write("# resumed\n")
    begin(bundle)
    assert claims(bundle)["experiment"] == (True, "experiment.yaml is the one that was run")
    with (bundle / "experiment.yaml").open("a") as file:
        file.write("# cheaper\n")
    begin(bundle, CHEAPER)
    holds, detail = claims(bundle)["experiment"]
    assert holds is False
    assert detail.endswith("between two trials")


def test_a_retry_is_told_and_does_not_count_against_a_bundle(bundle: Path) -> None:
    ledger = begin(bundle, adopt=False)
    ledger.append(Entry(event=Event.ended, trial=T1, attempt=0, phase="Failed", reason="OutOfMemory"))
    for trial in (T1, T2):
        ledger.ended(parse_record(record_of(bundle, trial)), record_of(bundle, trial), Event.pulled)
    assert claims(bundle)["records"][0] is True
    assert claims(bundle)["attempts"] == (True, f"1 attempt followed by a retry: {T1}, attempt 0")


def test_interruptions_are_counted(bundle: Path) -> None:
    ledger = begin(bundle)
    ledger.started(T1, 1)
    ledger.started(T1, 2)
    assert claims(bundle)["attempts"] == (True, f"1 attempt interrupted and thrown away: {T1}, attempt 1")


def test_entries_of_a_newer_version_are_read(bundle: Path) -> None:
    ledger = begin(bundle)
    line = ledger.ledger.line(Entry(event="blessed"), "2030-01-01")
    wire = {**json.loads(line), "by": "a field that this version does not know"}
    del wire["digest"]
    digest = sha256(canonical_json(wire).encode()).hexdigest()
    with (bundle / LEDGER_FILE).open("a") as file:
        file.write(canonical_json({**wire, "digest": digest}) + "\n")
    assert claims(bundle)["ledger"][0] is True


HOSTILE: dict[str, Callable[[bytes], bytes]] = {
    "nested": lambda data: b"[" * 100_000 + b"\n",
    "not JSON": lambda data: data + b"\xff\xfe\n",
    "a number": lambda data: data + b"1e999\n",
    "surrogate": lambda data: data + b'{"event": "\\ud800", "digest": ""}\n',
    "wrong types": lambda data: data + b'{"event": [], "n": "x", "records": 7}\n',
    "huge number": lambda data: data + b'{"event": "session", "n": ' + b"9" * 5000 + b"}\n",
    "empty line": lambda data: data + b"\n",
}


@pytest.mark.parametrize("how", HOSTILE)
def test_no_ledger_makes_a_reader_fail(bundle: Path, how: str) -> None:
    begin(bundle)
    file = bundle / LEDGER_FILE
    file.write_bytes(HOSTILE[how](file.read_bytes()))
    holds, detail = claims(bundle)["ledger"]
    assert holds is False
    assert "is not an entry of a ledger" in detail or "does not match" in detail


def test_a_ledger_that_cannot_be_read_is_named(bundle: Path) -> None:
    (bundle / LEDGER_FILE).mkdir()
    assert claims(bundle)["ledger"][0] is False
