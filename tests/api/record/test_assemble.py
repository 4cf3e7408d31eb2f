"""Rank files and outcome become one sealed record."""

import hashlib
import json
from statistics import median
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalecurve_api.features.accuracy.facts import Evaluation
from scalecurve_api.features.collectives.facts import AllReduceRow
from scalecurve_api.model import canonical_json
from scalecurve_api.record.assemble import Assembled, assemble, combine_windows, summarize
from scalecurve_api.record.extremes import slowest_step_times
from scalecurve_api.record.journal import JournalError
from scalecurve_api.record.outcome import Outcome
from scalecurve_api.record.rank import RankRecord, WindowKind
from scalecurve_api.record.trial_record import Summary, Timeline, TrialRecord
from scalecurve_api.spec.trial import FailedReason, TrialPhase
from tests.api.rank_records import (
    BEGIN,
    GOOD,
    MEASURE,
    SECOND,
    journal_of,
    rank_record,
    ranks_of,
    row,
    steps_of,
    trial,
    window,
)

TWO = trial()
JOURNALS = {rank: steps_of(rank) for rank in range(2)}
WITHOUT = WindowKind.no_communication


def assembled(ranks: dict[int, RankRecord] | None = None, outcome: Outcome = GOOD) -> Assembled:
    return assemble(TWO, ranks_of(TWO) if ranks is None else ranks, JOURNALS, outcome)


def summary_of(ranks: dict[int, RankRecord], of: Any = TWO) -> Summary:
    record = assemble(of, ranks, JOURNALS, GOOD).record
    assert record.summary is not None
    return record.summary


# The numbers


def test_throughput_is_a_ratio_of_sums() -> None:
    # Two windows of 48 samples in 0.3 s and 0.9 s: 96 / 1.2, and not the mean of 160 and 53.
    windows = [window(0, wall_s=0.3), window(1, wall_s=0.9)]
    summary = summary_of(ranks_of(TWO, windows=windows))
    assert (summary.samples, summary.wall_s) == (96, pytest.approx(1.2))
    assert summary.throughput == pytest.approx(80.0)


def test_a_windows_time_is_the_slowest_ranks() -> None:
    ranks = {
        0: rank_record(0, TWO, windows=[window(0, wall_s=0.30), window(1, wall_s=0.40)]),
        1: rank_record(1, TWO, windows=[window(0, wall_s=0.35), window(1, wall_s=0.20)]),
    }
    first, second = combine_windows(list(ranks.values()))
    assert (first.wall_ns, first.slowest_rank, first.fastest_ns) == (round(0.35 * SECOND), 1, round(0.30 * SECOND))
    assert (second.wall_ns, second.slowest_rank) == (round(0.40 * SECOND), 0)
    assert first.samples == second.samples == 48
    assert summary_of(ranks).throughput == pytest.approx(96 / 0.75)


@given(
    st.lists(st.lists(st.integers(1, 10**10), min_size=3, max_size=3), min_size=1, max_size=4),
    st.integers(1, 10**6),
)
def test_throughput_of_any_windows(walls: list[list[int]], samples: int) -> None:
    ranks = [
        rank_record(rank, TWO, windows=[window(i, wall_ns=wall, samples=samples) for i, wall in enumerate(each)])
        for rank, each in enumerate(walls)
    ]
    summary = summarize(TWO, ranks, combine_windows(ranks), {})
    assert summary is not None
    slowest = [max(walls[rank][i] for rank in range(len(walls))) for i in range(3)]
    assert summary.throughput == pytest.approx(3 * len(walls) * samples / (sum(slowest) / 1e9))


def test_a_tie_goes_to_the_lower_rank() -> None:
    assert {each.slowest_rank for each in combine_windows(list(ranks_of(TWO).values()))} == {0}


def test_windows_that_a_rank_lacks_are_left_out() -> None:
    ranks = {0: rank_record(0, TWO), 1: rank_record(1, TWO, windows=[window(1)])}
    record = assembled(ranks).record
    assert [each.index for each in record.windows] == [1]
    assert (record.phase, record.reason) == (TrialPhase.invalid, "RecordsMissing")
    assert record.summary is not None
    assert record.summary.samples == 48


def test_without_train_windows_there_is_no_summary() -> None:
    assert assembled(ranks_of(TWO, windows=[])).record.summary is None
    assert assembled({}).record.summary is None
    assert assembled(ranks_of(TWO, windows=[window(0, WITHOUT)])).record.summary is None


def test_exposed_communication_is_between_medians_of_a_step() -> None:
    walls = [(WindowKind.train, 0.30), (WITHOUT, 0.24), (WindowKind.train, 0.36), (WITHOUT, 0.21),
             (WindowKind.train, 0.33), (WITHOUT, 0.27)]  # fmt: skip
    windows = [window(index, kind, wall) for index, (kind, wall) in enumerate(walls)]
    exposed = summary_of(ranks_of(TWO, windows=windows, exposed_method="DDP.no_sync")).exposed
    assert exposed is not None
    assert exposed.method == "DDP.no_sync"
    assert exposed.with_s == pytest.approx(0.11)
    assert exposed.without_s == pytest.approx(0.08)
    assert exposed.exposed_s == pytest.approx(0.03)


def test_alternated_windows_are_no_part_of_throughput() -> None:
    windows = [window(0, wall_s=0.4), window(1, WITHOUT, wall_s=0.1), window(2, wall_s=0.4)]
    assert summary_of(ranks_of(TWO, windows=windows)).throughput == pytest.approx(96 / 0.8)


def test_exposed_communication_needs_a_method_and_windows_without() -> None:
    assert summary_of(ranks_of(TWO, exposed_method="DDP.no_sync")).exposed is None
    assert summary_of(ranks_of(TWO, windows=[window(0), window(1, WITHOUT)])).exposed is None


def test_the_plain_program_stands_beside_one_worker() -> None:
    one = trial(workers=1)
    windows = [window(0), window(1, WindowKind.plain, wall_s=0.2), window(2), window(3, WindowKind.plain, wall_s=0.2)]
    summary = summary_of(ranks_of(one, windows=windows), one)
    assert summary.throughput == pytest.approx(80)
    assert summary.plain_throughput == pytest.approx(120)


def test_mfu_is_of_all_devices() -> None:
    ranks = ranks_of(TWO, flops_per_sample=1e9, peak_flops=1e12)
    assert summary_of(ranks).mfu == pytest.approx(160 * 1e9 / (2 * 1e12))
    assert summary_of(ranks_of(TWO, flops_per_sample=1e9)).mfu is None


def test_no_share_above_the_peak_is_summarized() -> None:
    summary = summary_of(ranks_of(TWO, flops_per_sample=2e10, hardware_flops_per_sample=1e9, peak_flops=1e12))
    assert summary.mfu is None
    assert summary.hfu == pytest.approx(160 * 1e9 / (2 * 1e12))


def test_what_is_recomputed_counts_for_the_hardware_alone() -> None:
    ranks = ranks_of(TWO, flops_per_sample=1e9, hardware_flops_per_sample=1.25e9, peak_flops=1e12)
    summary = summary_of(ranks)
    assert summary.mfu is not None
    assert summary.hfu == pytest.approx(1.25 * summary.mfu)
    assert summary_of(ranks_of(TWO, flops_per_sample=1e9, peak_flops=1e12)).hfu is None


def test_energy_is_summed_over_ranks_and_windows_where_all_of_it_is_known() -> None:
    windows = [window(0, energy_mj=2000), window(1, energy_mj=4000), window(2, WITHOUT, energy_mj=9000)]
    summary = summary_of(ranks_of(TWO, windows=windows))
    assert (summary.energy_j, summary.energy_j_per_sample) == (12.0, 0.125)
    partly = ranks_of(TWO, windows=windows) | {1: rank_record(1, TWO)}
    assert summary_of(partly).energy_j is None


def test_accuracy_and_the_time_to_it() -> None:
    wanted = trial(
        {
            "measure": {**MEASURE, "accuracy": {"target": 0.9}},
            "workload": {"model": "mlp", "data": {"source": "digits"}},
        }
    )
    evaluations = [
        Evaluation(epoch=n, step=n, wall_s=n, train_loss=1, loss=1, accuracy=a)
        for n, a in ((1, 0.5), (2, 0.92), (3, 0.95), (4, 0.91))
    ]
    ranks = ranks_of(wanted) | {0: rank_record(0, wanted, evaluations=evaluations)}
    result = assemble(wanted, ranks, {}, GOOD)
    summary = result.record.summary
    assert summary is not None
    assert (summary.final_accuracy, summary.best_accuracy, summary.seconds_to_target) == (0.91, 0.95, 2)
    assert pq.read_table(pa.BufferReader(result.tables["evals.parquet"])).num_rows == 4
    assert set(result.record.files) == {"evals.parquet"}


def test_memory_loss_and_bus_bandwidth() -> None:
    rows = [
        AllReduceRow(bytes=b, in_place=True, iterations=5, time_us_median=1, time_us_min=1, time_us_p95=1,
                     algbw=w, busbw=w, errors=0)
        for b, w in ((8, 0.1), (1 << 20, 7.5), (1 << 30, 7.0))
    ]  # fmt: skip
    ranks = {
        0: rank_record(0, TWO, peak_memory_bytes=5, last_loss=0.5, allreduce=rows),
        1: rank_record(1, TWO, peak_memory_bytes=9),
    }
    summary = summary_of(ranks)
    assert (summary.peak_memory_bytes, summary.last_loss, summary.peak_busbw) == (9, 0.5, 7.5)


# Step times


def test_step_times_are_the_slowest_ranks_of_the_timed_windows() -> None:
    journals = {
        0: steps_of(0, [9, 9, 9, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6]),
        1: steps_of(1, [9, 9, 9, 0.2, 0.1, 0.4, 0.3, 0.6, 0.5]),
    }
    slowest = [0.2, 0.2, 0.4, 0.4, 0.6, 0.6]
    times = slowest_step_times(journals, {0, 1})
    assert times is not None
    assert times.count == 6
    assert times.mean == pytest.approx(sum(slowest) / 6)
    assert times.median == pytest.approx(median(slowest))
    assert times.maximum == pytest.approx(0.6)
    only = slowest_step_times(journals, {1})
    assert only is not None
    assert (only.count, only.maximum) == (3, pytest.approx(0.6))


def test_steps_are_matched_by_their_number() -> None:
    # A rank that lost its first rows: found compared with its neighbors' earlier steps.
    whole = [row(step, 0, duration) for step, duration in enumerate([0.9, 0.8, 0.1, 0.2])]
    journals = {0: journal_of(0, whole), 1: journal_of(1, whole[2:])}
    times = slowest_step_times(journals, {0})
    assert times is not None
    assert times.count == 2
    assert times.mean == pytest.approx(0.15)


@pytest.mark.parametrize(
    "journals", [{}, {0: journal_of(0, [])}, {0: steps_of(0), 1: journal_of(1, [])}, {0: steps_of(0, [1, 1, 1])}]
)
def test_no_steps_in_common_have_no_times(journals: dict[int, bytes]) -> None:
    assert slowest_step_times(journals, {0, 1}) is None


# The record


def test_what_goes_into_the_record() -> None:
    outcome = Outcome(
        engine="local",
        attempt=2,
        exit_codes={"0": 0, "1": None},
        log_tail={"0": ["line"]},
        timeline=[Timeline(phase="Starting", at_ns=BEGIN - 10 * SECOND)],
    )
    record = assembled(outcome=outcome).record
    assert (record.phase, record.attempt, record.engine) == (TrialPhase.succeeded, 2, "local")
    assert [each.rank for each in record.topology] == [0, 1]
    assert record.parameter_checksums == ["abc", "abc"]
    assert (record.backend, record.strategy, record.versions) == ("gloo", "DistributedDataParallel", {"torch": "2.0"})
    assert [entry.phase for entry in record.timeline] == ["Starting", "worker started", "first step", "worker ended"]
    assert record.log_tail == {}, "a run that ended well keeps its logs beside the record"


def test_a_failed_run_keeps_its_last_lines_and_what_was_recorded() -> None:
    outcome = Outcome(
        engine="local",
        failure=FailedReason.rank_killed,
        message="rank 1 was killed",
        exit_codes={"0": 1, "1": -9},
        log_tail={"1": ["the end"]},
    )
    result = assembled({0: rank_record(0, TWO)}, outcome)
    assert (result.record.phase, result.record.reason) == (TrialPhase.failed, "RankKilled")
    assert result.record.log_tail == {"1": ["the end"]}
    assert pq.read_table(pa.BufferReader(result.tables["steps.parquet"])).num_rows == 18


def test_nothing_left_at_all() -> None:
    result = assemble(TWO, {}, {}, Outcome(engine="local", failure=FailedReason.start_failed, message="no"))
    assert result.record.phase is TrialPhase.failed
    assert (result.record.topology, result.record.windows, result.record.files, result.tables) == ([], [], {}, {})
    assert result.record.digest == result.record.compute_digest()


def test_tables_are_named_with_their_checksum() -> None:
    result = assembled()
    assert result.record.files == {name: hashlib.sha256(data).hexdigest() for name, data in result.tables.items()}
    assert set(result.tables) == {"steps.parquet"}


def test_the_order_in_which_ranks_are_given_changes_no_byte() -> None:
    backward = assemble(TWO, dict(reversed(ranks_of(TWO).items())), dict(reversed(JOURNALS.items())), GOOD)
    assert canonical_json(backward.record.wire()) == canonical_json(assembled().record.wire())
    assert backward.tables == assembled().tables


def test_a_foreign_journal_is_refused() -> None:
    with pytest.raises(JournalError, match="journal of rank 1"):
        assemble(TWO, ranks_of(TWO), {0: steps_of(0), 1: b"x" * 99}, GOOD)


# The seal


def stored(record: TrialRecord) -> TrialRecord:
    return TrialRecord.model_validate_json(json.dumps(record.wire()))


def test_a_record_comes_back_whole_under_its_digest() -> None:
    outcome = GOOD.model_copy(update={"exit_codes": {"0": 0, "1": None}})
    record = assembled(ranks_of(TWO, options={"bucket": None, "rate": 1.0, "deep": {"a": [None]}}), outcome).record
    again = stored(record)
    assert again == record
    assert again.compute_digest() == record.digest


def test_entries_that_are_none_are_kept_where_they_say_something() -> None:
    outcome = GOOD.model_copy(update={"exit_codes": {"0": 0, "1": None}})
    ranks = {0: rank_record(0, TWO, foreign_load=None), 1: rank_record(1, TWO, parameter_checksum=None)}
    wire = assembled(ranks, outcome).record.wire()
    assert wire["exitCodes"] == {"0": 0, "1": None}
    assert wire["foreignLoad"] == [None, 0.01]
    assert wire["parameterChecksums"] == ["abc", None]
    assert wire["deviceSamples"] == [None, None]
    assert stored(TrialRecord.model_validate(wire)).wire() == wire


def test_a_check_that_could_not_be_made_comes_back_as_such() -> None:
    record = stored(assembled(ranks_of(TWO, finite_loss=None)).record)
    assert {check.name: check.passed for check in record.checks}["NonFiniteLoss"] is None


@pytest.mark.parametrize(
    ("path", "value"),
    [("phase", "Failed"), ("attempt", 2), ("summary/throughput", 1e9), ("trial/point/workers", 4), ("files", {})],
)
def test_a_changed_record_does_not_match_its_digest(path: str, value: object) -> None:
    wire = assembled().record.wire()
    *outer, last = path.split("/")
    inside = wire
    for name in outer:
        inside = inside[name]
    inside[last] = value
    changed = TrialRecord.model_validate(wire)
    assert changed.compute_digest() != changed.digest


def test_sealing_twice_changes_nothing() -> None:
    record = assembled().record
    assert record.sealed() == record


finite = st.floats(allow_nan=False, allow_infinity=False)


@given(
    st.dictionaries(st.text(max_size=20), finite | st.none() | st.integers(-(1 << 60), 1 << 60) | st.text(max_size=20))
)
def test_any_options_survive_the_seal(options: dict[str, Any]) -> None:
    record = assembled(ranks_of(TWO, options=options)).record
    assert stored(record).compute_digest() == record.digest


def test_a_summary_fits_a_termination_message() -> None:
    longest = -1.7976931348623157e308
    step = dict.fromkeys(("mean", "median", "p95", "p99", "maximum"), longest) | {"count": 1 << 62}
    exposed = dict.fromkeys(("withS", "withoutS", "exposedS"), longest) | {"method": "x" * 200}
    fields = {
        field.alias: longest
        for name, field in Summary.model_fields.items()
        if name not in ("step", "exposed", "sample_unit", "samples", "peak_memory_bytes")
    }
    whole = {**fields, "samples": 1 << 62, "peakMemoryBytes": 1 << 62, "step": step, "exposed": exposed}
    summary = Summary.model_validate(whole)
    assert len(json.dumps(summary.wire()).encode()) < 4096
    assert set(summary.wire()) == {field.alias for field in Summary.model_fields.values()}
