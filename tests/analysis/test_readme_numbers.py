"""README's headline is what the committed records give now, by the methods of now."""

import re
from pathlib import Path

import pytest

from scalecurve.bundle.open import open_bundle
from scalecurve.curves.compute import scaling
from scalecurve.curves.results import PointResult
from scalecurve.statistics.estimate import Estimate

ROOT = Path(__file__).parents[2]
EVIDENCE = ROOT / "docs" / "evidence" / "h200"
HEADLINE = " ".join(
    line.lstrip("> ") for line in ROOT.joinpath("README.md").read_text().splitlines() if line[:1] == ">"
)


def points(name: str, workers: int) -> dict[str, PointResult]:
    found = scaling([open_bundle(EVIDENCE / name)]).series
    return {series.name: point for series in found for point in series.points if point.point.workers == workers}


def spelled(estimate: Estimate | None, digits: int, factor: float = 1.0) -> str:
    assert estimate is not None
    assert estimate.low is not None
    assert estimate.high is not None
    return f"({estimate.low * factor:.{digits}f}–{estimate.high * factor:.{digits}f})"


@pytest.mark.parametrize(("name", "workers"), [("sessions.zip", 2), ("resnet50.zip", 4)])
def test_speedups_of_the_headline(name: str, workers: int) -> None:
    found = points(name, workers)
    for mode, digits in (("strong", 2), ("weak", 3)):
        speedup = found[mode].speedup
        assert speedup is not None
        interval = spelled(speedup, digits)
        pattern = rf"{speedup.value:.{digits}f}x \((95 % interval )?{re.escape(interval[1:])}"
        assert re.search(pattern, HEADLINE), (speedup.value, interval)


def test_what_strong_scaling_keeps_and_waits_for() -> None:
    strong = points("sessions.zip", 2)["strong"]
    assert strong.efficiency is not None
    assert strong.computing is not None
    assert strong.exposed_share is not None
    assert f"{strong.efficiency.value:.1%}".replace("%", " %") + " efficiency" in HEADLINE
    assert f"keeps {strong.computing.value:.1%}".replace("%", " %") in HEADLINE
    share = f"{strong.exposed_share.value:.1%}".replace("%", " %")
    assert f"exposed communication takes {share} {spelled(strong.exposed_share, 1, 100)} of a step" in HEADLINE
