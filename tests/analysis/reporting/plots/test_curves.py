"""Run time beside speed, whatever is known of the data; labels of the split that leave one another room."""

from dataclasses import replace
from itertools import combinations
from pathlib import Path

from scalecurve.bundle.open import open_bundle
from scalecurve.curves.compute import scaling
from scalecurve.reporting.drawing import Sheet
from scalecurve.reporting.findings import analyze
from scalecurve.reporting.plots.breakdown import _panel
from scalecurve.reporting.plots.curves import epoch
from scalecurve.statistics.estimate import Estimate
from tests.analysis.synthetic import experiment, write_bundle


def bundle_of(folder: Path, **spec: object):
    return open_bundle(write_bundle(folder, experiment("x", modes=["weak"], **spec), tables=False))


def test_run_time_is_of_a_million_samples_where_no_epoch_is_known(tmp_path: Path) -> None:
    bundle = bundle_of(tmp_path / "b", workers=[1, 2, 4], repetitions=2)
    drawing = epoch(analyze([bundle]))
    assert drawing is not None
    axes = drawing.figure.axes[0]
    (line,) = [line for line in axes.get_lines() if len(line.get_xdata()) == 3 and line.get_marker() == "o"]
    rates = [p.throughput.value for p in scaling([bundle]).series[0].points]
    assert list(line.get_ydata()) == [1e6 / rate for rate in rates]
    assert axes.get_ylabel() == "Run time of a million samples (s) (log scale)"
    priced = bundle_of(tmp_path / "p", workers=[1, 2], cost={"perWorkerHour": 0, "datasetSamples": 1000, "epochs": 3})
    assert epoch(analyze([priced])).figure.axes[0].get_ylabel() == "Epoch (s) (log scale)"
    assert epoch(analyze([bundle_of(tmp_path / "one", workers=[2])])) is None


def test_no_label_of_the_split_lies_over_another(tmp_path: Path) -> None:
    bundle = bundle_of(tmp_path / "b", workers=[1, 2, 4, 8, 16], repetitions=1)
    sheet = Sheet(2, legend_rows=1)
    (series,) = scaling([bundle]).series
    unknown = Estimate.not_known(0.1, 0.95, 2)
    points = [replace(p, exposed_share=unknown if p.exposed_share else None) for p in series.points]
    _panel(sheet.panels[0], replace(series, points=tuple(points)))
    drawing = sheet.drawing("split", "")
    drawing.figure.canvas.draw()
    boxes = [text.get_window_extent() for text in sheet.panels[0].texts]
    assert len(boxes) == 4
    assert not any(one.overlaps(other) for one, other in combinations(boxes, 2))


def test_what_stands_on_a_bar_is_inside_its_panel(tmp_path: Path) -> None:
    bundle = bundle_of(tmp_path / "b", workers=[1, 2], repetitions=1)
    (series,) = scaling([bundle]).series
    two = replace(series.points[-1], exposed_share=Estimate.not_known(0.1, 0.95, 3))
    sheet = Sheet(1, legend_rows=1)
    _panel(sheet.panels[0], replace(series, points=(two,)))
    drawing = sheet.drawing("split", "")
    drawing.figure.canvas.draw()
    (text,) = sheet.panels[0].texts
    assert "not known" in text.get_text()
    assert text.get_window_extent().y1 <= sheet.panels[0].get_window_extent().y1
