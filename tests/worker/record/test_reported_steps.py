"""Lines -> windows: whatever the distance of lines, every window has its steps, and times add up."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalecurve_api.programs.log_format import LineReader, LogFormat, ReportedLine
from scalecurve_api.spec.measure import Measure
from scalecurve_worker.process.failure import WorkloadError
from scalecurve_worker.record.reported_steps import PlannedBatch, ReportedSteps

SAMPLES = PlannedBatch(workers=2, samples=8, tokens_per_sample=None, rates_in_tokens=False)
SECOND = 10**9
BEGIN = 1_700_000_000 * SECOND


def measure(window: int = 5, windows: int = 2) -> Measure:
    return Measure(warmup_steps=4, max_warmup_steps=4, windows=windows, steps_per_window=window)


def read(lines: list[tuple[float, ReportedLine]], batch: PlannedBatch = SAMPLES, window: int = 5) -> ReportedSteps:
    """The steps of lines, each with the seconds at which it came."""
    steps = ReportedSteps(measure(window), batch, steps_per_line=1)
    for at, line in lines:
        if not steps.complete:
            steps.take(line, BEGIN + round(at * SECOND))
    return steps


def every(distance: int, count: int = 60, **fields: float) -> list[tuple[float, ReportedLine]]:
    """Lines of a program whose steps take half a second."""
    return [(at / 2, ReportedLine(step=at, **fields)) for at in range(distance, count, distance)]  # type: ignore[arg-type]


@given(distance=st.integers(1, 5), told=st.booleans())
def test_windows_are_complete_at_any_distance_of_lines(distance: int, told: bool) -> None:
    steps = read(every(distance, seconds=0.5) if told else every(distance))
    assert steps.complete
    assert [(w.index, w.steps, w.units, w.wall_ns) for w in steps.windows] == [
        (i, 5, 40, 5 * SECOND // 2) for i in (0, 1)
    ]
    first, second = steps.windows
    assert first.start_ns + first.wall_ns <= second.start_ns
    assert steps.warmup is not None
    assert steps.warmup.steps == 4
    rows = steps.rows()
    assert [row.step for row in rows] == list(range(14))
    assert [row.window for row in rows] == [-1] * 4 + [0] * 5 + [1] * 5
    assert steps.rows() == []
    assert steps.how == ("the step times in its lines" if told else "the time between its lines")


@given(st.lists(st.tuples(st.integers(0, 40), st.floats(0.01, 3), st.floats(0.0, 5.0)), max_size=60))
def test_no_order_of_lines_makes_windows_overlap(lines: list[tuple[int, float, float]]) -> None:
    steps, at = ReportedSteps(measure(40), SAMPLES, 1), 0.0
    for step, seconds, pause in lines:
        at += pause
        if not steps.complete:
            steps.take(ReportedLine(step=step, seconds=seconds), BEGIN + round(at * SECOND))
    rows = steps.rows()
    assert all(a.start_ns + a.duration_ns <= b.start_ns for a, b in pairwise(rows))
    for window in steps.windows:
        mine = [row for row in rows if row.window == window.index]
        assert sum(row.duration_ns for row in mine) == window.wall_ns
        assert sum(row.samples for row in mine) == window.units


def test_lines_further_apart_than_a_window_are_refused() -> None:
    with pytest.raises(WorkloadError, match="the lines are 6 steps apart, and a window has 5"):
        read(every(6))


def test_a_line_said_by_two_ranks_counts_once() -> None:
    once = every(1, seconds=0.5)
    twice = [line for line in once for _ in range(2)]
    lagging = [line for pair in zip(once[1:], once, strict=False) for line in pair]
    assert read(twice).windows == read(once).windows
    assert [window.units for window in read(lagging).windows] == [40, 40]


def test_a_new_epoch_counts_anew() -> None:
    lines = [(at / 2, ReportedLine(step=at % 10 + 1, seconds=0.5)) for at in range(40)]
    steps = read(lines)
    assert steps.complete
    assert [window.wall_ns for window in steps.windows] == [5 * SECOND // 2] * 2


def test_without_numbers_every_line_is_so_many_steps() -> None:
    steps = ReportedSteps(measure(), SAMPLES, steps_per_line=5)
    for at in range(5):
        steps.take(ReportedLine(rate=16.0), BEGIN + at * SECOND * 5 // 2)
    assert steps.complete
    assert [window.wall_ns for window in steps.windows] == [5 * SECOND // 2] * 2, "8 samples at 16 per second"
    assert steps.how == "the throughput in its lines and the planned batch"


def test_throughput_of_tokens() -> None:
    sequences = PlannedBatch(workers=2, samples=8, tokens_per_sample=100, rates_in_tokens=True)
    steps = read(every(1, worker_rate=800.0), sequences)
    assert [(w.units, w.wall_ns) for w in steps.windows] == [(5 * 800, 5 * SECOND // 2)] * 2
    unknown = PlannedBatch(workers=2, samples=8, tokens_per_sample=None, rates_in_tokens=True)
    steps = read(every(1, worker_rate=900.0), unknown)
    assert [(w.units, w.wall_ns) for w in steps.windows] == [(5 * 900, 5 * SECOND // 2)] * 2, "timed between lines"


def test_tokens_from_a_log_of_samples() -> None:
    sequences = PlannedBatch(workers=2, samples=8, tokens_per_sample=100, rates_in_tokens=False)
    assert [w.units for w in read(every(1, seconds=0.5), sequences).windows] == [4000, 4000]
    assert [w.units for w in read(every(1, seconds=0.5, rate=16.0), sequences).windows] == [4000, 4000]


@pytest.mark.parametrize(("rate", "units"), [(16.0, 40), (16.4, 40), (12.0, 30), (40.0, 100)])
def test_throughput_and_time_that_do_not_fit_show_another_batch(rate: float, units: int) -> None:
    assert [w.units for w in read(every(1, seconds=0.5, rate=rate)).windows] == [units, units]


@pytest.mark.parametrize("factor", [4.0, 0.5])
def test_a_printed_rate_is_held_against_the_times_of_lines(factor: float) -> None:
    assert read(every(1, rate=16.0 * factor)).printed_rate == pytest.approx(factor)
    assert read(every(3, seconds=0.5 / factor)).printed_rate == pytest.approx(factor)
    assert read(every(1)).printed_rate is None, "no time is printed"


def test_a_mean_since_the_start_is_not_the_rate_of_its_steps() -> None:
    begun = 10.0  # until the first step
    lines = [(begun + at / 2, ReportedLine(step=at, rate=8 * at / (begun + at / 2))) for at in range(1, 20)]
    ratio = read(lines).printed_rate
    assert ratio is not None
    assert ratio < 0.5


def test_evaluations_and_buffers_do_not_accuse_a_printed_rate() -> None:
    evaluated = [(at / 2 + 60 * (at > 7), ReportedLine(step=at, rate=16.0)) for at in range(1, 30)]
    assert read(evaluated).printed_rate == pytest.approx(1)
    buffered = [((at // 4 + 1) * 2.0, ReportedLine(step=at, rate=16.0)) for at in range(1, 30)]
    assert read(buffered).printed_rate is None, "most lines came together with another"
    late = [(at / 2 + (0.4 if at % 2 else 0.0), ReportedLine(step=at, rate=16.0)) for at in range(1, 30)]
    assert read(late).printed_rate == pytest.approx(1, rel=0.2), "the reader was held up"


def test_a_pause_between_blocks_is_in_no_window() -> None:
    """MLPerf's evaluations stand between the stop of a block and the start of the next."""
    lines: list[tuple[float, ReportedLine]] = []
    for block in range(6):
        at = block * 100.0
        lines.append((at, ReportedLine(samples=block * 32, begins=True)))
        lines += [(at + i / 2, ReportedLine(samples=block * 32 + 8 * i, loss=1 / i)) for i in range(1, 5)]
    steps = read(lines)
    assert steps.complete
    assert [window.wall_ns for window in steps.windows] == [5 * SECOND // 2] * 2


def test_losses_are_kept_and_nan_is_told() -> None:
    steps = read([*every(1, 30), (40, ReportedLine(loss=0.5))])
    assert (steps.last_loss, steps.finite_loss) == (None, None), "what comes after the last window is not read"
    steps = read([(0, ReportedLine(loss=0.5)), (1, ReportedLine(loss=float("nan")))])
    assert (steps.last_loss, steps.finite_loss) == (0.5, False)
    assert steps.lines == 0


def test_the_bars_of_a_lightning_run() -> None:
    reader = LineReader(LogFormat.model_validate({"format": "lightning"}))
    bars = [f"Epoch {epoch}: 5%|#| {n}/6 [00:01<00:02, 2.0it/s, v_num=1]" for epoch in range(4) for n in range(7)]
    lines = [(at / 2, line) for at, bar in enumerate(bars) if (line := reader.read(bar))]
    steps = read(lines)
    assert steps.complete
    assert [window.steps for window in steps.windows] == [5, 5]
