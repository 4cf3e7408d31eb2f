from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalecurve_api.record.rank import RankFailure
from scalecurve_api.record.termination import LIMIT, Termination, read, spell
from scalecurve_api.record.trial_record import Summary

SUMMARY = Summary(samples=48, wall_s=0.6, throughput=80.0, mfu=0.41)


def test_a_short_message_comes_back_whole() -> None:
    failure = RankFailure(rank=3, reason="OutOfMemory", message="CUDA out of memory")
    said = Termination(
        trial="weak-2-r1",
        attempt=2,
        sha256="ab" * 32,
        bytes=1234,
        summary=SUMMARY,
        failures=[failure],
        exit_codes={"pod-1": 1, "pod-0": None},
    )
    text = spell(said)
    assert json.loads(text)["schema"] == "scalecurve.dev/termination/v1alpha1"
    assert json.loads(text)["exitCodes"] == {"pod-1": 1, "pod-0": None}
    assert read(text) == said
    assert read(text + "\n") == said


def test_a_long_one_keeps_its_digest_and_summary() -> None:
    failures = [RankFailure(rank=rank, reason="RankFailed", message=f"{rank} " + "ü" * 900) for rank in range(20)]
    codes = {f"pod-{pod}": 1 for pod in range(500)}
    said = Termination(trial="t", attempt=1, sha256="0" * 64, summary=SUMMARY, failures=failures, exit_codes=codes)
    text = spell(said)
    assert len(text.encode()) <= LIMIT
    found = read(text)
    assert found is not None
    assert (found.sha256, found.summary) == ("0" * 64, SUMMARY)
    assert [failure.rank for failure in found.failures] == list(range(8))
    assert len(found.exit_codes) == 8


failures = st.builds(RankFailure, rank=st.integers(0, 10**6), reason=st.text(), message=st.text(max_size=3000))


@given(
    st.builds(
        Termination,
        trial=st.text(max_size=5000),
        attempt=st.integers(1, 10**6),
        sha256=st.none() | st.text(max_size=100),
        bytes=st.none() | st.integers(0, 10**12),
        summary=st.none() | st.just(SUMMARY),
        failures=st.lists(failures, max_size=20),
        exit_codes=st.dictionaries(st.text(max_size=300), st.none() | st.integers(-64, 255), max_size=30),
    )
)
def test_a_message_always_fits_and_is_read(said: Termination) -> None:
    text = spell(said)
    assert len(text.encode()) <= LIMIT
    found = read(text)
    assert found is not None
    assert (found.attempt, found.bytes) == (said.attempt, said.bytes)


@pytest.mark.parametrize("text", ["", "Killed", "null", "[]", "{}", '{"trial": "t", "attempt": 1, "more": 2}', "\x00"])
def test_anything_else_is_no_message(text: str) -> None:
    assert read(text) is None


@given(st.text())
def test_reading_never_fails(text: str) -> None:
    assert read(text) is None
