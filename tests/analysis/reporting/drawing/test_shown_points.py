"""Figures of many trained points show each series' largest count, not whichever series come first."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from scalecurve.bundle.open import open_bundle
from scalecurve.features.accuracy.plots.accuracy import MOST_CURVES, select_points
from scalecurve.reporting import report
from scalecurve_api.features.accuracy.facts import Evaluation
from scalecurve_api.spec.trial import TrialSpec
from tests.analysis.synthetic import experiment, write_bundle


def points(series: int, counts: int) -> list[Any]:
    return [
        SimpleNamespace(bundle="b", series=f"s{n}", point=SimpleNamespace(workers=1 << c))
        for n in range(series)
        for c in range(counts)
    ]


@pytest.mark.parametrize(
    ("series", "counts", "drawn", "said"),
    [
        (3, 4, 12, ""),
        (9, 2, 9, " The largest worker count of each series; 9 more points are in the table."),
        (13, 1, 12, " Series, the first 12 of 13; 1 more point is in the table."),
        (20, 2, 12, " The largest worker count of each series, the first 12 of 20; 28 more points are in the table."),
    ],
)
def test_which_points_are_drawn(series: int, counts: int, drawn: int, said: str) -> None:
    shown, sentence = select_points(points(series, counts))
    assert (len(shown), sentence) == (drawn, said)
    if series > 3:
        assert {p.point.workers for p in shown} == {1 << (counts - 1)}
        assert [p.series for p in shown] == [f"s{n}" for n in range(drawn)]


RATES = [round(0.01 * n, 2) for n in range(1, MOST_CURVES // 2 + 2)]
ASKED = experiment(
    modes=["weak"],
    workers=[1, 2],
    repetitions=1,
    windows=1,
    matrix={"optimizer.learningRate": RATES},
    workload={"program": "torch", "model": "mlp", "data": {"source": "digits"}},
    measure={"windows": 1, "stepsPerWindow": 20, "repetitions": 1, "accuracy": {"epochs": 2}},
)


def learnt(trial: TrialSpec) -> list[Evaluation]:
    return [
        Evaluation(epoch=n, step=n, wall_s=float(n), accuracy=0.5 + n / 10, loss=1 / n, train_loss=1 / n)
        for n in (1, 2)
    ]


def test_the_report_draws_the_last_series_too(tmp_path: Path) -> None:
    bundle = open_bundle(write_bundle(tmp_path / "bundle", ASKED, tables=False, evaluations=learnt))
    report([bundle], tmp_path / "out", ["svg"])
    drawn = (tmp_path / "out" / "plots" / "error.svg").read_text()
    assert f"optimizer.learningRate={RATES[-1]}, 2 workers" in drawn
    assert ", 1 worker<" not in drawn
