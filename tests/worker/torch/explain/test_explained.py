"""What ``attach(model)`` finds out, from real scripts on two real ranks."""

from __future__ import annotations

import gc
from pathlib import Path
from types import SimpleNamespace

import pytest

from scalecurve_api.record.assemble import assemble
from scalecurve_api.record.outcome import Outcome
from scalecurve_api.record.rank import WindowKind
from scalecurve_api.record.trial_record import TrialRecord
from tests.proofs import unproved_at_any_load
from tests.worker.forked_ranks import fork_ranks, rendezvous
from tests.worker.sdk.test_proof import CUSTOM, ranks_apart
from tests.worker.worker_ranks import SCRIPTS, make_trial, records

torch = pytest.importorskip("torch", reason="torch is not installed")
pytestmark = pytest.mark.processes
TRIAL = make_trial(
    2, workload=CUSTOM, measure={"maxForeignLoad": 1.0, "exposedCommunication": True, "trace": {"steps": 2}}
)
DDP = ("ddp", "late")
SHARDED = ("fsdp1", "fsdp1-original", "fsdp2")
LANGUAGE = 32 * 24 + (24 * 96 + 96) + (96 * 24 + 24) + 2 * 16
IMAGES = 64 * 33 + 33 + 33 + 1


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every case, one after another in the same two processes."""
    folder = tmp_path_factory.mktemp("explained")
    cases = " ".join((*DDP, *SHARDED))
    fork_ranks(folder, 2, SCRIPTS / "explained.py", trial=TRIAL, CASES=cases, **rendezvous())
    return folder


def trial_of(out: Path) -> TrialRecord:
    return assemble(TRIAL, ranks_apart(out), {}, Outcome(engine="local")).record


@pytest.mark.parametrize("case", [*DDP, *SHARDED])
def test_a_script_is_one_training_job_with_all_its_facts(out: Path, case: str) -> None:
    record = trial_of(out / case)
    assert (record.reason, record.message, unproved_at_any_load(record)) == (None, "", ())
    assert record.summary is not None
    language = case in DDP
    wrapper = {"fsdp2": "FSDPModule"}.get(case, "FullyShardedDataParallel")
    assert record.strategy == ("DistributedDataParallel" if language else wrapper)
    assert record.parameters == (LANGUAGE if language else IMAGES)
    assert record.summary.peak_memory_bytes is not None
    assert record.summary.peak_memory_bytes > 1 << 20
    assert record.options["precision"] == "fp32"
    assert record.traffic is not None
    assert record.traffic.payload_bytes >= 4 * record.parameters
    assert record.summary.last_loss is not None
    assert record.summary.loader_s is not None
    assert [bool(times) for times in record.sections] == [True, True]
    kind = "all-reduce" if case in DDP else "all-gather"
    for trace in record.traces:
        assert trace is not None
        assert (trace.steps, trace.kept) == (2, False)
        (moved,) = (row for row in trace.collectives if row.name == kind)
        assert moved.bytes >= trace.steps * 4 * record.parameters * (1 if case in DDP else 0.5)
        assert "matrix product" in {row.name for row in trace.kernels}
    for times in record.sections:
        assert times is not None
        assert times.transfer_ns is None
        parts = [times.input_ns, times.forward_ns, times.backward_ns, times.optimizer_ns, times.communication_ns]
        assert None not in parts
        assert times.forward_ns
        assert times.backward_ns
        assert times.optimizer_ns
        assert sum(part or 0 for part in parts) <= times.wall_ns
        assert times.own_ns
        # DDP's all-reduce is begun and awaited in C++; FSDP's collectives are calls of torch.distributed.
        assert language or times.communication_ns
        assert times.own_method == ("windows without communication" if language else "trace of a few steps")
    # A product of (b, k) and (k, n) takes 2bkn forward, as much for its weights and for its inputs; first inputs of
    # the images need no gradient.
    flops = 6 * (24 * 96 * 2 + 24 * 32) if language else 4 * 64 * 33 + 6 * 33
    assert record.flops_per_sample == flops


@pytest.mark.parametrize("case", DDP)
def test_ddp_takes_turns_with_itself_without_communication(out: Path, case: str) -> None:
    record = trial_of(out / case)
    assert record.summary is not None
    assert record.summary.exposed is not None
    assert record.summary.exposed.method == "ddp-no-sync"
    kinds = [window.kind for window in record.windows]
    assert kinds == [WindowKind.train, WindowKind.no_communication] * 2


@pytest.mark.parametrize("case", SHARDED)
def test_shards_are_traced(out: Path, case: str) -> None:
    record = trial_of(out / case)
    assert record.summary is not None
    assert record.summary.exposed is not None
    assert record.summary.exposed.method == "profiler-pass"
    assert 0 < record.summary.exposed.exposed_s < record.summary.exposed.with_s
    assert str(record.options["exposedCommunication"]).startswith("not measured by no_sync: it takes Distributed")


def test_tokens_are_counted_beside_samples(out: Path) -> None:
    record = trial_of(out / "ddp")
    assert record.summary is not None
    assert record.summary.sample_unit == "tokens"
    for window in record.windows:
        assert (window.samples, window.sequences) == (2 * 3 * 4 * 16, 2 * 3 * 4)
    assert [window.sequences for window in records(out / "fsdp2", 2)[0].windows] == [None] * 2


def test_steps_without_communication_leave_no_trace(tmp_path: Path) -> None:
    fork_ranks(tmp_path, 2, SCRIPTS / "unsynced.py", **rendezvous())


def test_a_wrapper_is_found_from_within() -> None:
    from scalecurve_worker.torch.explain.wrappers import enclosing, wrapper_of

    inner = torch.nn.Linear(2, 2)
    assert enclosing(inner) is inner
    assert wrapper_of(inner) is None
    outer = torch.nn.Sequential(inner)
    gc.collect()
    assert enclosing(inner) is inner, "a container is no wrapper"
    assert wrapper_of(outer) is None


def test_counted_steps_of_two_precisions_have_none_in_common() -> None:
    from scalecurve_api.spec.measure import Measure
    from scalecurve_worker.torch.explain.explainer import TorchExplainer
    from scalecurve_worker.torch.observation import TorchObserver

    model, device = torch.nn.Linear(8, 8), torch.device("cpu")
    explainer = TorchExplainer(model, device, Measure(), TorchObserver(model, device))
    for narrow in (True, False):
        explainer.begin_count()
        with torch.autocast("cpu", torch.bfloat16, enabled=narrow):
            model(torch.ones(4, 8)).sum().backward()
        explainer.end_count(4)
    facts = SimpleNamespace(options={}, peak_flops=None)
    explainer._note_flops(facts)
    assert (facts.options["precision"], facts.peak_flops) == ("mixed", None)
