"""Points that do not count: the first lines say so, headlines, costs, comparisons and models go without them."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from scalecurve.bundle.open import Bundle, open_bundle
from scalecurve.checks.compare import compare
from scalecurve.cli import cli
from scalecurve.curves.compute import scaling
from scalecurve.curves.cost import cost
from scalecurve.curves.progress import status
from scalecurve.curves.tables import scaling_table
from scalecurve.features.accuracy.plots import accuracy as plots_of_accuracy
from scalecurve.reporting.compose import compose
from scalecurve.reporting.findings import analyze
from scalecurve.reporting.plots.ranks import step_times
from scalecurve.reporting.theme import PAPER
from scalecurve_api.features.accuracy.facts import Evaluation
from scalecurve_api.record.rank import WindowKind
from scalecurve_api.record.trial_record import Check, TrialRecord
from scalecurve_api.spec.trial import InvalidReason, TrialSpec
from scalecurve_importing.import_bundle import import_bundle
from scalecurve_models.comparison.tables import prediction_tables
from scalecurve_models.fit.fit_bundle import fit
from scalecurve_models.fitting.least_squares import FitError
from scalecurve_models.recommend.recommend import recommend
from scalecurve_models.report.model_results import fit_models
from tests.analysis.synthetic import Truth, experiment, write_bundle

CUSTOM = {"program": "custom", "command": ["python", "train.py"]}
PRICE = {"perWorkerHour": 2.5, "datasetSamples": 50_000, "epochs": 10}
PROOF = ("NoCommunication", "SameData", "NotTrained", "ReplicasDiverged")
QUIET = Truth(repetition_cv=0.001)
Change = Callable[[TrialRecord], TrialRecord]


def proved(record: TrialRecord, missing: str | None = None) -> TrialRecord:
    checks = [Check(name=name, passed=None if name == missing else True, detail="seen") for name in PROOF]
    return record.model_copy(update={"checks": checks})


def unseen(record: TrialRecord) -> TrialRecord:
    """No communication was observed at 2 and at 4 workers."""
    return proved(record, "NoCommunication" if record.trial.point.workers > 1 else None)


def counted(record: TrialRecord, workers: int, factor: float, unit: str = "samples") -> TrialRecord:
    """A program that counts ``factor`` times the samples it uses at a worker count, in a record that agrees with it."""
    share = factor if record.trial.point.workers == workers else 1
    windows = [w.model_copy(update={"samples": round(w.samples * share)}) for w in record.windows]
    samples = sum(w.samples for w in windows if w.kind is WindowKind.train)
    assert record.summary is not None
    told = {"samples": samples, "throughput": samples / record.summary.wall_s, "sample_unit": unit}
    summary = record.summary.model_copy(update=told)
    return proved(record.model_copy(update={"windows": windows, "summary": summary}))


def custom(folder: Path, change: Change, truth: Truth = QUIET, **spec: object) -> Path:
    of = experiment("mine", modes=["weak"], windows=3, steps_per_window=10, workload=CUSTOM, cost=PRICE, **spec)
    return write_bundle(folder, of, truth, change=change, tables=False)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return custom(tmp_path_factory.mktemp("unproved") / "mine", unseen)


@pytest.fixture(scope="module")
def bundle(folder: Path) -> Bundle:
    return open_bundle(folder)


SAID = "unproved: 2 of 3 points: no communication was observed at 2, 4 workers"


def test_an_unproved_point_is_in_no_headline(bundle: Bundle):
    (series,) = scaling([bundle]).series
    assert series.headline.startswith(f"weak: {SAID}; ")
    assert " samples/s on 1 worker" in series.headline
    assert "speed-up" not in series.headline
    assert [p.efficiency is not None for p in series.points] == [True] * 3, "they stay in the table"
    rows = scaling_table(scaling([bundle])).plain()["rows"]
    assert [row["unproved"] for row in rows] == [None, "NoCommunication", "NoCommunication"]
    assert SAID in status(bundle).headline


def test_a_proved_custom_program_counts(tmp_path: Path):
    result = scaling([open_bundle(custom(tmp_path, proved))])
    assert result.series[0].headline.startswith("weak: 3.")
    assert "unproved" not in scaling_table(result).text().lower()


def test_an_old_record_of_a_custom_program_is_unproved(tmp_path: Path):
    (series,) = scaling([open_bundle(custom(tmp_path, lambda record: record))]).series
    assert [len(p.doubts) for p in series.points] == [0, 4, 4]
    assert series.headline.count("at 2, 4 workers") == 1, "four reasons, one place"


def test_an_unproved_baseline_is_no_baseline(tmp_path: Path):
    def of_two(record: TrialRecord) -> TrialRecord:
        return proved(record, "SameData" if record.trial.point.workers == 2 else None)

    (series,) = scaling([open_bundle(custom(tmp_path, of_two, workers=[2, 4]))]).series
    assert "workers were not observed to read different data at 2 workers" in series.headline
    assert series.headline.endswith("no speed-up: the baseline of 2 workers was not measured")


def test_costs_comparisons_and_models_leave_unproved_points_out(bundle: Bundle):
    assert [p.per_million is not None for p in cost([bundle]).series[0].points] == [True, False, False]
    assert [p.per_million is not None for p in cost([bundle], include_unproved=True).series[0].points] == [True] * 3
    assert [p.point.workers for p in compare(bundle, bundle).points] == [1]
    assert [p.point.workers for p in compare(bundle, bundle, include_unproved=True).points] == [1, 2, 4]
    assert [s.measured for s in fit(bundle, include_unproved=True).scaling] != [s.measured for s in fit(bundle).scaling]
    assert [len(s.measured) for s in fit(bundle).scaling] == [1]
    assert [len(s.measured) for s in fit_models([bundle]).curves] == [1], "nor do a report's models"
    (believed,) = recommend(bundle).series
    assert [c.workers for c in believed.candidates] == [1]
    (every,) = recommend(bundle, include_unproved=True).series
    assert [c.workers for c in every.candidates] == [1, 2, 4]
    with pytest.raises(FitError, match="cannot hold out 4: not measured"):
        recommend(bundle, hold_out=[4])
    measured = [row["measured"] for row in prediction_tables(bundle, [4])[0].plain()["rows"]]
    assert set(measured) == {None}
    included = prediction_tables(bundle, [4], include_unproved=True)[0].plain()["rows"]
    assert None not in {row["measured"] for row in included}


def test_status_says_it_in_json_too(folder: Path):
    shown = CliRunner().invoke(cli, ["status", str(folder)]).stdout.splitlines()
    assert shown[0] == f"mine: 9 of 9 trials done; {SAID}"
    document = json.loads(CliRunner().invoke(cli, ["status", str(folder), "-o", "json"]).stdout)
    assert document["warnings"] == [SAID]
    assert document["headlines"] == shown[:1]


VERBS = (["cost"], ["fit"], ["recommend"], ["predict"])


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb[0])
def test_a_verb_says_in_its_first_line_what_it_leaves_out(verb: list[str], folder: Path):
    lines = CliRunner().invoke(cli, [*verb, str(folder)]).stdout.splitlines()
    exclusion = "points that are unproved, reported or impossible are excluded; --include-unproved includes them"
    assert lines[:2] == [f"warning: {SAID}", f"warning: {exclusion}"]
    lines = CliRunner().invoke(cli, [*verb, str(folder), "--include-unproved"]).stdout.splitlines()
    assert lines[0] == f"warning: {SAID}"
    assert exclusion not in lines[1]
    document = json.loads(CliRunner().invoke(cli, [*verb, str(folder), "-o", "json"]).stdout)
    assert document["warnings"] == [SAID, exclusion]


def test_compare_says_it_of_both_sides(folder: Path):
    result = CliRunner().invoke(cli, ["compare", str(folder), str(folder)])
    assert result.stdout.startswith(
        "warning: unproved: 4 of 6 points: no communication was observed in mine, weak at 2, 4"
    )
    assert result.exit_code == 0


def test_a_report_says_it_first_and_draws_hollow_marks(bundle: Bundle):
    content = compose(analyze([bundle]), png=False)
    assert content.warnings[0] == SAID
    assert content.headlines[0].startswith(f"weak: {SAID}")
    plots = {plot.name: plot for plot in content.plots}
    for name in ("speedup", "efficiency", "throughput"):
        assert "Hollow marks are points that do not count" in plots[name].caption
    assert "Bars without filling are points that do not count" in plots["split"].caption
    assert "Hollow" not in plots["cost"].caption, "unproved points have no cost"


def test_points_that_the_program_reported_do_not_count(tmp_path: Path):
    """Whatever its checks say, and at one worker, too."""
    workload = {**CUSTOM, "instrument": "log", "log": {"format": "megatron"}}
    of = experiment("mine", modes=["weak"], windows=3, steps_per_window=10, workload=workload, cost=PRICE)
    opened = open_bundle(write_bundle(tmp_path, of, QUIET, change=proved, tables=False))
    told = "reported: 3 of 3 points: times are those that the program printed, unchecked, at 1, 2, 4 workers"
    (series,) = scaling([opened]).series
    assert series.headline == f"weak: {told}; nothing measured"
    assert [row["unproved"] for row in scaling_table(scaling([opened])).plain()["rows"]] == ["Reported"] * 3
    assert [p.per_million for p in cost([opened]).series[0].points] == [None] * 3
    assert compare(opened, opened).points == ()
    assert [p.point.workers for p in compare(opened, opened, include_unproved=True).points] == [1, 2, 4]
    content = compose(analyze([opened]), png=False)
    assert content.warnings[0] == told
    plots = {plot.name: plot for plot in content.plots}
    assert "Hollow marks are points that do not count: unproved, reported" in plots["throughput"].caption


def test_a_report_takes_unproved_points_in_where_it_is_told_to(folder: Path, bundle: Bundle, tmp_path: Path):
    """`report` lacked the option that the other verbs have."""
    analysis = analyze([bundle], include_unproved=True)
    content = compose(analysis, draw=False)
    assert content.warnings[0] == SAID, "they are named all the same"
    assert content.headlines[0].startswith(f"weak: {SAID}; ")
    assert "speed-up on 4 workers" in content.headlines[0]
    assert [p.per_million is not None for p in analysis.costs.series[0].points] == [True] * 3
    assert [len(s.measured) for s in fit_models([bundle], include_unproved=True).curves] == [3]
    for option, told in (([], False), (["--include-unproved"], True)):
        out = tmp_path / str(told)
        ran = CliRunner().invoke(cli, ["report", str(folder), "--out", str(out), "--format", "md", *option])
        assert ran.exit_code == 0, ran.output
        assert ("speed-up on 4 workers" in (out / "report.md").read_text()) is told


def test_curves_of_accuracy_and_boxes_of_steps_are_hollow_too(tmp_path: Path):
    def learnt(trial: TrialSpec) -> list[Evaluation]:
        return [Evaluation(epoch=e, step=e, wall_s=e, accuracy=0.5 + 0.1 * e, loss=1, train_loss=1) for e in (1, 2, 3)]

    of = experiment("mine", modes=["weak"], windows=3, steps_per_window=10, workload=CUSTOM)
    for name, change, hollow in (("unseen", unseen, True), ("proved", proved, False)):
        analysis = analyze([open_bundle(write_bundle(tmp_path / name, of, QUIET, change=change, evaluations=learnt))])
        for draw in (plots_of_accuracy.validation_error, plots_of_accuracy.accuracy):
            drawing = draw(analysis)
            assert drawing is not None
            lines = [line for line in drawing.figure.axes[-1].lines if len(line.get_xdata()) == 3]
            marked = [line.get_markerfacecolor() == PAPER for line in lines if line.get_marker() not in ("None", None)]
            assert marked == [False, hollow, hollow], "at 1, 2 and 4 workers"
            assert ("Hollow marks are points that do not count" in drawing.caption) is hollow
        steps = step_times(analysis)
        assert steps is not None
        assert ("Hollow marks" in steps.caption) is hollow


def test_ten_times_the_samples_are_impossible(tmp_path: Path):
    """Attempt 9 of the review: 999.6 % stood in the headline. Counted in tokens, no check knows better."""
    opened = open_bundle(custom(tmp_path, lambda record: counted(record, 2, 10, "tokens")))
    (series,) = scaling([opened]).series
    assert series.points[1].doubts == (InvalidReason.impossible_efficiency,)
    assert series.headline.startswith("weak: impossible: 1 of 3 points: efficiency 9")
    assert "speed-up on 4 workers" in series.headline
    assert [p.per_million is not None for p in cost([opened]).series[0].points] == [True, False, True]


def test_a_clock_at_half_speed_is_impossible(tmp_path: Path):
    """Attempt 10: 200 % with no warning."""
    truth = Truth(step_s=lambda p: 0.05 if p.workers == 2 else 0.1, repetition_cv=0.001)
    (series,) = scaling([open_bundle(custom(tmp_path, proved, truth))]).series
    assert series.points[1].doubts == (InvalidReason.impossible_efficiency,)
    assert series.headline.startswith("weak: impossible: 1 of 3 points: efficiency 19")
    assert not series.points[1].off_plan


@pytest.mark.parametrize(("rate", "impossible"), [(230, False), (300, True)])
def test_an_imported_number_without_an_interval_is_not_believed_at_any_size(
    tmp_path: Path, rate: int, impossible: bool
):
    """115 % may be a slow baseline; 150 % was in the headline as a speed-up."""
    table = tmp_path / "lab.csv"
    table.write_text(f"workers,img/s,mode\n1,100,weak\n2,{rate},weak\n4,360,weak\n")
    import_bundle([table], tmp_path / "lab")
    (series,) = scaling([open_bundle(tmp_path / "lab")]).series
    assert series.points[1].doubts == ((InvalidReason.impossible_efficiency,) if impossible else ())
    assert ("impossible: 1 of 3 points: efficiency 150" in series.headline) is impossible


def test_other_samples_than_planned_are_a_first_line(tmp_path: Path):
    """The last batch of an epoch may be smaller: such a trial counts, and the first lines say what it used."""
    opened = open_bundle(custom(tmp_path, lambda record: counted(record, 2, 15 / 16)))
    (series,) = scaling([opened]).series
    assert [p.effective_batch for p in series.points] == [64, 120, 256]
    said = "samples differ from the plan: 1 of 3 points: 120 instead of 128 a step at 2 workers"
    assert series.headline.startswith(f"weak: {said}; ")
    assert compose(analyze([opened]), draw=False).warnings[0] == said
    assert series.points[1].doubts == ()


def test_an_efficiency_whose_interval_is_not_known_is_not_impossible(tmp_path: Path):
    def slow_first(trial: TrialSpec, steps: np.ndarray) -> np.ndarray:
        return np.full(len(steps), 1 + 9 * trial.repetition * (trial.point.workers == 1))

    opened = open_bundle(custom(tmp_path, proved, Truth(shape=slow_first), workers=[1, 2], repetitions=2))
    (series,) = scaling([opened]).series
    efficiency = series.points[1].efficiency
    assert efficiency is not None
    assert efficiency.value > 2
    assert efficiency.unknown
    assert series.points[1].doubts == ()
    (costs,) = cost([opened]).series
    for best, equal in ((costs.cheapest, costs.as_cheap), (costs.fastest, costs.as_fast)):
        assert {best, *equal} == {1, 2}, "which is better is not known"
    for optimum in recommend(opened).optima:
        assert optimum.probability is not None
        assert optimum.probability < 0.9


def test_five_percent_beyond_the_ideal_is_left_to_caches(tmp_path: Path):
    truth = Truth(step_s=lambda p: 0.1 / 1.03 if p.workers == 2 else 0.1, repetition_cv=0.001)
    (series,) = scaling([open_bundle(custom(tmp_path, proved, truth))]).series
    efficiency = series.points[1].efficiency
    assert efficiency is not None
    assert 1 < efficiency.value < 1.05
    assert series.points[1].doubts == ()


def test_checks_that_could_not_be_made_stand_at_the_top(bundle: Bundle):
    """They stood in the last section only."""
    warnings = compose(analyze([bundle]), draw=False).warnings
    assert "1 of 4 checks could not be made in some trials: NoCommunication (see Environment)." in warnings
