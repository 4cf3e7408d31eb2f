"""What the first figure is over, and where a page links its points."""

import re
from pathlib import Path

import pytest

from scalecurve.bundle.open import open_bundle, open_bundles
from scalecurve.bundle.pack import pack
from scalecurve.reporting import report
from scalecurve.reporting.compose import compose
from scalecurve.reporting.findings import analyze
from scalecurve.reporting.first_curve import x_axis
from scalecurve_api.planning.plan import make_plan
from tests.analysis.synthetic import Truth, experiment, write_bundle

SIZES = {"repetitions": 2, "windows": 2, "steps_per_window": 15}


def one_worker(folder: Path) -> Path:
    spec = experiment("one", modes=["weak"], workers=[1], matrix={"batch.perWorker": [32, 64, 128]}, **SIZES)
    return write_bundle(folder, spec, Truth())


def test_where_the_worker_count_does_not_vary_the_figure_is_over_what_does(tmp_path: Path) -> None:
    content = compose(analyze([open_bundle(one_worker(tmp_path / "b"))]), png=False)
    assert content.first_question == "What does batch.perWorker change?"
    assert content.curve is not None
    assert content.curve.title == "Throughput over batch.perWorker"
    assert len(content.curve.tips) == 3
    assert content.curve.tips[-1].startswith("batch.perWorker 128, 1 worker: ")


def test_the_axis_of_the_first_figure_can_be_chosen(tmp_path: Path) -> None:
    spec = experiment("two", modes=["weak"], workers=[1, 2], matrix={"precision": ["fp32", "bf16"]}, **SIZES)
    bundle = open_bundle(write_bundle(tmp_path / "b", spec, Truth()))
    assert compose(analyze([bundle]), png=False).first_question == "How does it scale?"
    content = compose(analyze([bundle], x="precision"), png=False)
    assert content.first_question == "What does precision change?"
    assert content.curve is not None
    assert [tip.partition(":")[0] for tip in content.curve.tips] == [
        "precision fp32, 1 worker",
        "precision bf16, 1 worker",
        "precision fp32, 2 workers",
        "precision bf16, 2 workers",
    ]
    with pytest.raises(ValueError, match="x: got 'depth'; expected workers, precision"):
        report([bundle], tmp_path / "out", ["csv"], x="depth")


def test_the_experiment_can_state_the_axis(tmp_path: Path) -> None:
    of = {"modes": ["weak"], "workers": [1, 2], "matrix": {"precision": ["fp32", "bf16"]}, **SIZES}
    stated = experiment("stated", report={"x": "precision"}, **of)
    bundle = open_bundle(write_bundle(tmp_path / "b", stated, Truth()))
    assert x_axis(analyze([bundle])) == "precision"
    assert x_axis(analyze([bundle], x="workers")) == "workers"
    # A bundle of which only one value has a trial has nothing to draw over it.
    absent = [trial.name for trial in make_plan(stated).trials if trial.workload.precision == "bf16"]
    part = open_bundle(write_bundle(tmp_path / "part", stated, Truth(), absent=absent))
    assert x_axis(analyze([part])) == "workers"


def test_points_lead_to_their_trials_and_trials_to_records_and_logs(tmp_path: Path) -> None:
    bundle = one_worker(tmp_path / "b")
    trial = next(folder for folder in sorted((bundle / "trials").iterdir()))
    logs = trial / "logs"
    logs.mkdir(exist_ok=True)
    (logs / "rank-0.log").write_text("started\n")
    (page, *_) = report(open_bundles([bundle]), bundle / "report", ["html", "csv"])
    text = page.read_text()
    rows = re.findall(r'<tr id="(point-\d+)"', text)
    assert rows == ["point-1", "point-2", "point-3"]
    assert set(re.findall(r'href="#(point-\d+)"', text)) == set(rows)
    assert f'href="../trials/{trial.name}/trial.json"' in text
    assert f'href="../trials/{trial.name}/logs"' in text
    packed = pack(bundle, tmp_path / "b.zip")
    (page, *_) = report(open_bundles([tmp_path / "b.zip"]), tmp_path / "b-report", ["html"])
    assert packed is not None
    assert 'href="../b.zip"' in page.read_text()


def test_marks_and_sections_name_where_their_numbers_are_from(tmp_path: Path) -> None:
    spec = experiment("two", modes=["weak"], workers=[1, 2], **SIZES)
    (page, *_) = report(open_bundles([write_bundle(tmp_path / "b", spec, Truth())]), tmp_path / "out", ["html"])
    text = page.read_text()
    assert set(re.findall(r'data-trials="(point-\d+)"', text)) == {"point-1", "point-2"}
    assert "<code>scalecurve status two</code>" in text
    assert "<code>scalecurve diagnose two</code>" in text


def test_a_figure_in_a_page_keeps_what_it_needs_and_no_more(tmp_path: Path) -> None:
    content = compose(analyze([open_bundle(one_worker(tmp_path / "b"))]), png=False)
    for plot in content.plots:
        for text in (plot.inline(), *(plot.inline(view) for view in plot.views)):
            ids = set(re.findall(r' id="([^"]*)"', text))
            assert set(re.findall(r'(?:url\(#|href="#)([^")]+)', text)) <= ids
            assert not re.search(r' d="[^"]*\.\d{3}', text)
            assert "font-family" not in text
        assert len(plot.inline()) < len(plot.svg)
        assert len(re.findall('class="tip"', plot.inline())) == len(plot.tips)
