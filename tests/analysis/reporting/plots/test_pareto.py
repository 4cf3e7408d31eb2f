"""Cost against time, of all samples and of the way to a target."""

from pathlib import Path
from typing import Any

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from scalecurve.bundle.open import open_bundle
from scalecurve.reporting.drawing import Drawing
from scalecurve.reporting.drawing.render import plot_settings
from scalecurve.reporting.findings import analyze
from scalecurve.reporting.plots.pareto import pareto, pareto_to_target
from scalecurve_api.record.trial_record import TrialRecord
from tests.analysis.synthetic import experiment, write_bundle
from tools import ROOT

SECONDS = {1: 400.0, 2: 300.0, 4: 350.0}
PRICE = {"perWorkerHour": 3.6}


def drawn(
    folder: Path, *, cost: dict[str, float] | None = None, missed: tuple[int, ...] = (), spread: float = 0.0
) -> Drawing | None:
    """Of one, two and four workers; of the ``missed`` counts only the first repetition reaches the target.

    A repetition takes ``spread`` longer than the one before it.
    """

    def reached(record: TrialRecord) -> TrialRecord:
        workers = record.trial.point.workers
        repetition = record.trial.repetition
        longer = 1 + spread * repetition
        seconds = SECONDS[workers] * longer if workers not in missed or repetition == 1 else None
        return record.model_copy(update={"summary": record.summary.model_copy(update={"seconds_to_target": seconds})})  # type: ignore[union-attr]

    spec = experiment("goal", modes=["weak"], workers=[1, 2, 4], **({"cost": cost} if cost else {}))  # type: ignore[arg-type]
    return pareto_to_target(analyze([open_bundle(write_bundle(folder, spec, tables=False, change=reached))]))


def front(drawing: Drawing) -> list[tuple[float, float]]:
    line = next(line for line in drawing.figure.axes[0].get_lines() if line.get_label() == "weak")
    return list(zip(map(float, line.get_xdata()), map(float, line.get_ydata()), strict=True))


def test_the_front_of_the_way_to_the_target_in_money(tmp_path: Path) -> None:
    drawing = drawn(tmp_path, cost=PRICE)
    assert drawing is not None
    (axes,) = drawing.figure.axes
    assert axes.get_xlabel() == "Time to the target (min) (log scale)"
    assert axes.get_ylabel() == "Cost to the target (USD) (log scale)"
    # Four workers are slower than two, and dearer.
    assert front(drawing) == [pytest.approx((5, 0.6)), pytest.approx((400 / 60, 0.4))]
    assert drawing.tips == (
        "weak, 1 worker: 400 s, 0.4000",
        "weak, 2 workers: 300 s, 0.6000",
        "weak, 4 workers: 350 s, 1.400",
    )


def test_intervals_are_inside_the_axes(tmp_path: Path) -> None:
    drawing = drawn(tmp_path, cost=PRICE, spread=0.05)
    assert drawing is not None
    (axes,) = drawing.figure.axes
    bars = [line for line in axes.get_lines() if line.get_linewidth() == 3.4]
    assert len(bars) == len(SECONDS)
    for ends, (low, high) in (("get_xdata", axes.get_xlim()), ("get_ydata", axes.get_ylim())):
        assert all(low < end < high for bar in bars for end in getattr(bar, ends)())


def test_numbers_are_inside_the_axes() -> None:
    analysis = analyze([open_bundle(ROOT / "docs/evidence/h200/fashion-large-batch.zip")])
    with plot_settings():
        drawing = pareto_to_target(analysis)
        assert drawing is not None
        (axes,) = drawing.figure.axes
        canvas: Any = FigureCanvasAgg(drawing.figure)
        canvas.draw()
    frame = axes.get_window_extent()
    numbers = [text.get_window_extent() for text in axes.texts]
    assert len(numbers) == 6
    assert all(frame.y0 < number.y0 and number.y1 < frame.y1 for number in numbers)


def test_an_interval_that_is_not_printed_is_not_drawn(tmp_path: Path) -> None:
    drawing = drawn(tmp_path, cost=PRICE, spread=0.3)
    assert drawing is not None
    assert all("not known" in tip for tip in drawing.tips)
    assert not [line for line in drawing.figure.axes[0].get_lines() if line.get_linewidth() == 3.4]


def test_workers_times_time_stand_for_money_without_a_price(tmp_path: Path) -> None:
    drawing = drawn(tmp_path)
    assert drawing is not None
    assert front(drawing) == [pytest.approx((5, 600)), pytest.approx((400 / 60, 400))]


def test_a_count_of_which_a_run_missed_the_target_is_not_on_the_line(tmp_path: Path) -> None:
    drawing = drawn(tmp_path, cost=PRICE, missed=(2,))
    assert drawing is not None
    assert front(drawing) == [pytest.approx((350 / 60, 1.4)), pytest.approx((400 / 60, 0.4))]
    hollow = [line for line in drawing.figure.axes[0].get_lines() if line.get_markerfacecolor() == "#fefefd"]
    assert [list(line.get_xdata()) for line in hollow] == [[pytest.approx(5)]]


def test_one_count_or_no_target_draws_nothing(tmp_path: Path) -> None:
    plain = experiment("plain", modes=["weak"], workers=[1, 2, 4], cost=PRICE)  # type: ignore[arg-type]
    analysis = analyze([open_bundle(write_bundle(tmp_path, plain, tables=False))])
    assert pareto_to_target(analysis) is None
    assert pareto(analysis) is not None
