"""What a report says of models: blind predictions, what cannot be told, and others' published curves."""

import shutil
from pathlib import Path

import pytest

from scalecurve.bundle.open import Bundle, distinct_labels, open_bundle
from scalecurve.curves.compute import scaling
from scalecurve.reporting import report
from scalecurve.reporting.compose import compose
from scalecurve.reporting.findings import PredictionTarget, analyze
from scalecurve_api.features.accuracy.facts import Evaluation
from scalecurve_api.spec.trial import TrialSpec
from scalecurve_models.comparison.published import comparable_curves, published_curves, published_table
from scalecurve_models.comparison.trainings import read_published_trainings
from scalecurve_models.fit.fit_bundle import fit
from scalecurve_models.learning_curves.fit import fit_learning
from scalecurve_models.report import model_results as models
from tests.analysis.synthetic import Truth, experiment, write_bundle

ROOT = Path(__file__).parents[3]
H200 = ROOT / "tests" / "fixtures" / "resnet50-h200.zip"
PRICE = {"perWorkerHour": 0.9, "datasetSamples": 50_000, "epochs": 10}


@pytest.fixture(scope="module")
def h200() -> Bundle:
    return open_bundle(H200)


@pytest.fixture(scope="module")
def four(tmp_path_factory: pytest.TempPathFactory) -> Path:
    of = experiment("four", workers=[1, 2, 4, 8], repetitions=2, windows=2, steps_per_window=5, cost=PRICE)
    return write_bundle(tmp_path_factory.mktemp("four") / "four", of, Truth(), tables=False)


def test_throughput_run_time_and_cost_have_an_error_at_every_count_for_every_model(h200: Bundle):
    content = compose(analyze([h200]), draw=False)
    tables = {table.name: table for table in content.tables}
    rows = tables["predicted"].plain()["rows"]
    for series in ("strong", "weak"):
        for workers in (2, 4):
            here = [row for row in rows if row["series"] == series and row["workers"] == workers]
            assert {row["model"] for row in here} >= {"linear", "amdahl", "gustafson", "overlap", "optimus"}
            for row in here:
                assert row["how"] == "left out"
                for name, measured, predicted in (
                    ("error", "measured", "predicted"),
                    ("error_s", "measured_s", "predicted_s"),
                    ("error_cost", "measured_cost", "predicted_cost"),
                ):
                    assert row[name] == pytest.approx(row[predicted] / row[measured] - 1, abs=2e-3)
    assert [row["how"] for row in rows if row["workers"] == 1] == ["baseline", "baseline"]


def test_a_model_that_the_points_cannot_tell_says_so(h200: Bundle):
    content = compose(analyze([h200]), draw=False)
    judged = {
        (row["series"], row["model"]): row
        for table in content.tables
        if table.name == "models"
        for row in table.plain()["rows"]
    }
    assert judged["strong", "usl"]["held_out"] is None
    assert "its shape was not tested" in judged["strong", "usl"]["note"]
    assert not judged["strong", "usl"]["best"]
    notes = [row["note"] for t in content.tables if t.name == "parameters" for row in t.plain()["rows"]]
    assert any(note and note.startswith("not identifiable") for note in notes)


def test_published_curves_stand_only_beside_the_same_network_on_gpus(h200: Bundle, four: Path):
    found = comparable_curves(h200)
    assert {curve.network for curve in found} == {"resnet50"}
    assert len({curve.source for curve in found}) >= 10
    assert comparable_curves(open_bundle(four)) == (), (
        "a CPU run, or one of small images, has nothing published beside it"
    )


def test_published_efficiencies_are_over_the_smallest_count():
    curves = {(curve.source, curve.network): curve for curve in published_curves()}
    torch = curves["ibm_ddl_torch", "resnet50"]
    assert torch.over == 4
    # Printed beside the speed-ups: .86, .86, .85, .85, .84, .84; the speed-ups themselves are rounded.
    assert [efficiency for _, _, efficiency in torch.points[1:]] == pytest.approx(
        [0.86, 0.86, 0.85, 0.85, 0.84, 0.84], abs=0.016
    )
    horovod = curves["horovod_512", "vgg16"]
    assert (horovod.over, horovod.points) == (None, ((512, 0.68, 0.68),))
    aws = curves["tensorflow_2017_aws", "resnet50"]
    assert aws.points[-1] == (64, 2744, pytest.approx(2744 / 64 / 51.5))


def test_every_published_row_names_its_source():
    table = published_table(published_curves())
    assert all(row["read_at"] and row["hardware"] for row in table.plain()["rows"])
    assert table.notes[0].startswith("Not measured here")


def test_others_figures_are_called_that_on_the_page(h200: Bundle, tmp_path: Path):
    report([h200], tmp_path, formats=["md", "html"])
    for name in ("report.md", "report.html"):
        text = (tmp_path / name).read_text()
        assert "published by others" in text
        assert "Not measured here" in text


def test_time_to_a_target_is_drawn_where_runs_reached_it(tmp_path: Path):
    def evaluations(trial: TrialSpec) -> list[Evaluation]:
        step_s = 0.1 / trial.point.workers
        return [
            Evaluation(epoch=e, step=e * 20, wall_s=e * 20 * step_s, train_loss=2 / e, loss=2 / e, accuracy=1 - 0.6 / e)
            for e in range(1, 13)
        ]

    of = experiment("target", workers=[1, 2, 4], modes=["strong"], measure={"accuracy": {"epochs": 12, "target": 0.9}})
    folder = write_bundle(tmp_path / "b", of, Truth(), evaluations=evaluations, tables=False)
    content = compose(analyze([open_bundle(folder)]), png=False)
    assert {"loss", "time-to-target"} <= {plot.name for plot in content.plots}
    (targets,) = [table for table in content.tables if table.name == "targets"]
    assert [row["seconds"] for row in targets.plain()["rows"]] == pytest.approx([12, 6, 3])


def test_too_many_curves_are_left_to_the_verb(four: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(models, "MOST_SERIES", 1)
    found = models.fit_models([open_bundle(four)])
    assert found.curves == ()
    assert found.notes == ("four: more than 1 curves are not fitted here; use scalecurve fit.",)


def test_two_bundles_have_tables_and_curves_of_both(four: Path, tmp_path: Path):
    other = tmp_path / "other"
    shutil.copytree(four, other)
    content = compose(analyze(distinct_labels([open_bundle(four), open_bundle(other)])), png=False)
    labels = {"four", "four#2"}
    (predicted,) = [table for table in content.tables if table.name == "predicted"]
    assert {row["experiment"] for row in predicted.plain()["rows"]} == labels
    (parameters,) = [table for table in content.tables if table.name == "parameters"]
    assert {row["experiment"] for row in parameters.plain()["rows"]} == labels


def test_the_report_prints_what_fit_prints(h200: Bundle, four: Path):
    """A number that is rounded before it is printed is rounded twice: 10.546 % became 10.55 %, and then 10.6 %."""
    for bundle in (h200, open_bundle(four)):
        printed = {table.name: table for table in fit(bundle).tables()}
        for table in models.fit_models([bundle]).comparison_tables():
            assert table.spelled() == printed[table.name].spelled(), table.name


class TestForADevice:
    def content(self, bundle: Bundle, target: PredictionTarget | None):
        return compose(analyze([bundle], target=target), png=False, views=False)

    def test_paleo_stands_beside_the_measurement(self, h200: Bundle):
        content = self.content(h200, PredictionTarget("H200", "nvlink4"))
        (table,) = [table for table in content.tables if table.name == "paleo-errors"]
        rows = table.plain()["rows"]
        assert {(row["series"], row["workers"]) for row in rows} == {
            (s, n) for s in ("strong", "weak") for n in (1, 2, 4)
        }
        for row in rows:
            assert row["error"] == pytest.approx(row["predicted"] / row["measured"] - 1)
            assert row["predicted_s"] * row["predicted"] == pytest.approx(row["measured_s"] * row["measured"])
        calibrated = {row["workers"] for row in rows if row["model"] == "paleo-1"}
        assert calibrated == {2, 4}  # the point that it is calibrated on proves nothing
        (note,) = [note for note in table.notes if note.startswith("paleo-1: PPP for compute: ")]
        assert 0.2 < float(note.split()[4]) < 0.3  # 0.62 of the peak is 2.4 times too fast
        names = {plot.name for plot in content.plots}
        assert {"paleo-throughput", "paleo-run-time", "paleo-cost"} <= names

    def test_without_a_device_nothing_is_said_of_paleo(self, h200: Bundle):
        content = self.content(h200, None)
        assert "paleo" not in {section.name for section in content.sections}

    def test_what_cannot_be_predicted_is_named(self, four: Path):
        content = self.content(open_bundle(four), PredictionTarget("K80_GPU", network="no-such-network"))
        (section,) = [section for section in content.sections if section.name == "paleo"]
        (sentence,) = section.sentences
        assert "not predicted" in sentence
        assert "no-such-network" in sentence
        assert section.tables == section.plots == ()


def test_published_trainings_stand_with_the_time_that_the_measured_rate_would_take(h200: Bundle):
    content = compose(analyze([h200]), draw=False)
    (table,) = [table for table in content.tables if table.name == "trainings"]
    rows = table.plain()["rows"]
    published = [row for row in rows if row["top1"] is not None]
    assert len(published) == len(read_published_trainings()) == 9
    assert [row["minutes"] for row in published] == sorted((row["minutes"] for row in published), reverse=True)
    (four,) = [row for row in rows if row["top1"] is None and row["accelerators"] == 4]
    (series,) = [series for series in scaling([h200]).series if series.name == "weak"]
    rate = series.points[-1].throughput
    assert rate is not None
    assert four["minutes"] == pytest.approx(90 * 1_281_167 / rate.value / 60, rel=1e-3)


def test_depths_of_a_report_are_compared_by_the_loss_that_was_trained_on():
    bundle = open_bundle(ROOT / "docs" / "evidence" / "predicted" / "optimus-depths.zip")
    content = compose(analyze([bundle]))
    (drawn,) = [plot for plot in content.plots if plot.name == "left-out-depths"]
    tables = {table.name: table for table in content.tables}
    assert drawn.title == "Training loss predicted from other depths"
    assert tables["left_out_depths"].title == "Training loss curves of left-out depths"
    assert tables["left_out_depths"].notes[0] in drawn.caption
    learning = fit_learning(bundle, training=True)
    assert [left.error for left in learning.left_out] == [row[2] for row in tables["left_out_depths"].rows]


def test_the_line_of_the_equation_is_named_and_its_error_said():
    bundle = open_bundle(ROOT / "docs" / "evidence" / "training" / "servers-time-to-target.zip")
    content = compose(analyze([bundle]))
    (drawn,) = [plot for plot in content.plots if plot.name == "time-with-servers"]
    assert "Eq. 4 of Optimus: steps / f" in drawn.svg
    rows = next(table for table in content.tables if table.name == "servers").plain()["rows"]
    errors = [abs(row["predicted_s"] / row["to_target_s"] - 1) for row in rows]
    assert f"off by {sum(errors) / len(errors) * 100:.1f} % on average" in drawn.caption
