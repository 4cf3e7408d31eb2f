"""The best layout at each worker count: its lead, its verdict, and where they are shown."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from scalecurve.bundle.measurement import measure
from scalecurve.bundle.open import open_bundle
from scalecurve.cli import cli
from scalecurve.features.layouts.best_layout import best_in_words, best_layouts, layout_table
from scalecurve_api.model import canonical_json
from tests.analysis.synthetic import Truth, experiment, write_bundle
from tests.analysis.synthetic_layouts import layout_bundle
from tests.cli.test_after_run import shown
from tools import ROOT


def test_the_best_is_named_with_its_lead_over_the_runner_up(tmp_path: Path) -> None:
    (best,) = best_layouts(measure(layout_bundle(tmp_path / "b")))
    assert (best.point.workers, best.layout, best.runner_up) == (4, "shard=2 tensor=2", "pipeline=2 tensor=2")
    assert best.lead.value == pytest.approx(0.1, abs=0.01)
    assert (best.rivals, best.tied, best.undecided) == (3, (), ())
    assert best.verdict.startswith("fastest of 4 (p ")
    (line,) = best_in_words([best])
    assert line.startswith("strong at 4 workers: shard=2 tensor=2 is best, ")
    (row,) = layout_table([best]).frame().to_dict("records")
    assert row["best"] == "shard=2 tensor=2"


def test_layouts_within_noise_are_tied_and_single_runs_undecided(tmp_path: Path) -> None:
    (noisy,) = best_layouts(measure(layout_bundle(tmp_path / "noisy", noise=0.3)))
    assert noisy.tied
    assert noisy.verdict.startswith("tied with ")
    (single,) = best_layouts(measure(layout_bundle(tmp_path / "single", repetitions=1)))
    assert len(single.undecided) == 3
    assert "one repetition" in single.verdict


def test_axes_that_are_no_layout_compete_only_when_told_to(tmp_path: Path) -> None:
    spec = experiment("mine", modes=["weak"], workers=[1], matrix={"precision": ["fp32", "bf16"]}, repetitions=2)
    truth = Truth(step_s=lambda p: 0.1 if p.axes["precision"] == "fp32" else 0.05, step_cv=0, repetition_cv=0)
    series = measure(open_bundle(write_bundle(tmp_path / "b", spec, truth, tables=False)))
    assert best_layouts(series) == ()
    (best,) = best_layouts(series, compared=lambda axis: True)
    assert best.layout == "precision=bf16"
    assert canonical_json(best.point.axes) == '{"precision":"bf16"}'


def test_the_report_has_the_best_layout(tmp_path: Path) -> None:
    layout_bundle(tmp_path / "b")
    done = CliRunner().invoke(cli, ["report", str(tmp_path / "b"), "--format", "md", "--out", str(tmp_path / "r")])
    assert done.exit_code == 0, done.output
    text = next((tmp_path / "r").rglob("report.md")).read_text()
    assert "Best layout" in text
    assert "strong at 4 workers: shard=2 tensor=2 is best" in text


def test_layouts_are_compared_after_a_run() -> None:
    evidence = ROOT / "docs" / "evidence" / "training" / "model-parallelism.zip"
    assert shown(evidence)[1] == ["layouts"]
