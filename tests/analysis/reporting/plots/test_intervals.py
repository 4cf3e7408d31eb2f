"""Intervals of committed records, in every plot of a report."""

import pytest
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection

from scalecurve.bundle.open import open_bundle
from scalecurve.reporting.findings import analyze
from scalecurve.reporting.registry import PLOTS, load_plots, load_report_sections
from tools import ROOT


def outside(axes: Axes) -> list[float]:
    """The ends of vertical bars that lie beyond the axes."""
    low, high = axes.get_ylim()
    bars = [each for each in axes.collections if isinstance(each, LineCollection)]
    ends = [float(y) for each in bars for segment in each.get_segments() for _, y in segment]
    return [end for end in ends if not low <= end <= high]


@pytest.mark.parametrize("bundle", ["training/quantization.zip", "h200/resnet50.zip"])
def test_no_interval_leaves_its_panel(bundle: str) -> None:
    load_report_sections()
    load_plots()
    analysis = analyze([open_bundle(ROOT / "docs/evidence" / bundle)])
    drawn = {name: drawing for name, source in PLOTS.items() if (drawing := source.draw(analysis))}
    assert len(drawn) > 5
    assert {name for name, each in drawn.items() if any(outside(axes) for axes in each.figure.axes)} == set()
