"""A trace of a few steps: of which ranks it is kept, and where."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from scalecurve_api.record.rank import RankTopology
from scalecurve_api.spec.measure import Measure, TraceOptions
from scalecurve_worker.record.recorder import keep_trace
from scalecurve_worker.record.session import Facts
from scalecurve_worker.rendezvous.communicator import SingleProcess

torch = pytest.importorskip("torch", reason="torch is not installed")

from scalecurve_worker.torch.explain.trace import Trace, keeping, why_unmeasured  # noqa: E402

TOPOLOGY = RankTopology(rank=0, local_rank=0, host="here", pid=1, device="cpu", device_name="cpu")


def facts() -> Facts:
    return Facts(trial="t", world=1, topology=TOPOLOGY, started_ns=0, ended_ns=0)


def traced(measure: Measure, steps: int = 2) -> Trace:
    """Of so many products of matrices."""
    left = torch.randn(64, 64)
    trace = Trace(torch.device("cpu"), measure)
    trace.begin(steps)
    for _ in range(steps):
        left.mm(left)
    trace.end(10**9)
    return trace


def test_few_ranks_all_keep_theirs_and_of_many_the_first_the_slowest_and_the_median() -> None:
    assert keeping([0.1] * 16) == set(range(16))
    shares = [0.5 - 0.01 * rank for rank in range(17)]
    assert keeping([*shares[:9], 0.05, *shares[10:]]) == {0, 9, 8}
    assert keeping([None] * 20) == {0, 9}


def test_a_trace_is_counted_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCALECURVE_OUT", str(tmp_path))
    found = facts()
    traced(Measure(trace=TraceOptions(steps=2, keep=True))).note(found, SingleProcess())
    assert found.trace is not None
    assert (found.trace.steps, found.trace.wall_ns, found.trace.kept) == (2, 10**9, True)
    (product,) = (row for row in found.trace.kernels if row.name == "matrix product")
    assert product.calls == 2
    assert 0 < product.ns <= found.trace.computing_ns
    events = json.loads(gzip.decompress((tmp_path / "trace-rank-0.json.gz").read_bytes()))["traceEvents"]
    assert sum(event["name"] == "aten::mm" for event in events) == 2


def test_without_the_request_nothing_is_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCALECURVE_OUT", str(tmp_path))
    found = facts()
    traced(Measure()).note(found, SingleProcess())
    assert found.trace is None
    assert list(tmp_path.iterdir()) == []


def test_a_program_that_profiles_itself_is_not_traced() -> None:
    found = facts()
    with torch.autograd.profiler.profile():
        traced(Measure(trace=TraceOptions())).note(found, SingleProcess())
    assert found.trace is None
    assert found.options["trace"] == "not traced: the program profiles itself"


def test_the_profiler_is_asked_for_kernels_and_its_failure_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    requested: list[dict[str, object]] = []

    def failing(**options: object) -> None:
        requested.append(options)
        raise RuntimeError("CUPTI is busy\nand more")

    monkeypatch.setattr("scalecurve_worker.torch.profiler_session.profile", failing)
    trace = traced(Measure(exposed_communication=True))
    assert requested[0]["use_kineto"] is True
    assert trace.share is None
    said = why_unmeasured(SingleProcess(), trace.problem)
    assert said.startswith("rank 0:")
    assert "CUPTI" in said


def test_a_trace_without_communication_tells_so() -> None:
    trace = traced(Measure())
    assert trace.share is None
    assert (trace.problem or "").startswith("no collective")


def test_a_pod_keeps_its_trace_in_its_claim_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "trace").write_text("{}")
    monkeypatch.setenv("SCALECURVE_OUT", str(tmp_path / "out"))
    monkeypatch.setenv("SCALECURVE_PODS", "1")
    assert not keep_trace(tmp_path / "trace", "t", 3)
    (tmp_path / "claim").mkdir()
    monkeypatch.setenv("SCALECURVE_RESULTS", str(tmp_path / "claim"))
    monkeypatch.setenv("SCALECURVE_ATTEMPT", "2")
    assert keep_trace(tmp_path / "trace", "t", 3)
    assert gzip.decompress((tmp_path / "claim" / "t-a2" / "trace-rank-3.json.gz").read_bytes()) == b"{}"


def test_a_claim_that_is_full_costs_no_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SCALECURVE_RESULTS", str(tmp_path / "file" / "claim"))
    assert not keep_trace(tmp_path / "file", "t", 0)
    assert "trace-rank-0.json.gz: cannot be written: Not a directory" in capfd.readouterr().err
