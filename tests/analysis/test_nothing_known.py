"""What the verbs say where nothing was measured, or what was asked for cannot be."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from scalecurve.bundle.open import open_bundle
from scalecurve.checks.diagnose import diagnose
from scalecurve.cli import cli
from scalecurve.reporting.compose import compose
from scalecurve.reporting.findings import analyze
from scalecurve_api.planning.plan import make_plan
from scalecurve_api.spec.scaling import Mode
from scalecurve_api.spec.trial import TrialPhase
from scalecurve_models.fitting.least_squares import FitError
from scalecurve_models.recommend.recommend import recommend
from tests.analysis.synthetic import Truth, experiment, write_bundle

OF = experiment("nothing", workers=[1, 2], windows=2, steps_per_window=3)
EXACT = Truth(
    step_s=lambda p: 0.1 / (p.workers if p.mode is Mode.strong else 1) + 0.01 * (p.workers - 1),
    step_cv=0.001,
    repetition_cv=0.001,
)


@pytest.fixture
def invalid(tmp_path: Path) -> Path:
    trials = make_plan(OF).trials
    endings = {trial.name: (TrialPhase.invalid, "NoisyNeighbor", "others") for trial in trials[:-1]}
    endings[trials[-1].name] = (TrialPhase.failed, "RankKilled", "signal 9")
    return write_bundle(tmp_path, OF, Truth(), tables=False, endings=endings)


def test_a_diagnosis_says_what_it_did_not_look_at(invalid: Path):
    notes = diagnose([open_bundle(invalid)]).table().notes
    assert "11 Invalid: NoisyNeighbor, 1 Failed: RankKilled." in notes[1]


def test_a_diagnosis_of_nothing_says_so(tmp_path: Path):
    bundle = write_bundle(tmp_path, OF, Truth(), tables=False)
    for record in bundle.glob("trials/*/trial.json"):
        record.unlink()
    assert any("Nothing to analyze" in note for note in diagnose([open_bundle(bundle)]).table().notes)


def test_nothing_is_recommended_from_nothing(invalid: Path):
    with pytest.raises(FitError, match="nothing has no measured points to recommend from"):
        recommend(open_bundle(invalid))
    result = CliRunner().invoke(cli, ["recommend", str(invalid)])
    assert result.exit_code == 2
    assert result.stdout == ""


def test_more_workers_than_samples_are_neither_predicted_nor_recommended(tmp_path: Path):
    of = experiment("batch", workers=[1, 2, 4], windows=2, steps_per_window=3)
    bundle = write_bundle(tmp_path, of, EXACT, tables=False)
    found = recommend(open_bundle(bundle), workers=[256, 1000])
    counts = {each.series: [choice.workers for choice in each.candidates] for each in found.series}
    assert counts == {"strong": [1, 2, 4, 256], "weak": [1, 2, 4, 256, 1000]}
    assert "strong: omitted 1,000 (more workers than samples in the batch)" in " ".join(found.notes)
    shown = CliRunner().invoke(cli, ["predict", str(bundle), "--workers", "256,1000", "--output", "csv"]).stdout
    rows = [line.split(",")[1:3] for line in shown.splitlines()[1:]]
    assert ["strong", "256"] in rows
    assert ["weak", "1000"] in rows
    assert ["strong", "1000"] not in rows


@pytest.mark.parametrize(("verb", "said"), [("training", "measure.accuracy"), ("allreduce", "program: al")])
def test_where_a_table_would_be_empty_one_line_says_what_would_fill_it(tmp_path: Path, verb: str, said: str):
    bundle = write_bundle(tmp_path, OF, Truth(), tables=False)
    shown = CliRunner().invoke(cli, [verb, str(bundle)])
    assert (shown.exit_code, shown.stdout, shown.stderr.count("\n")) == (2, "", 1)
    assert said in shown.stderr


def test_a_recommendation_from_single_runs_says_so(tmp_path: Path):
    of = experiment("once", workers=[1, 2], windows=2, steps_per_window=3, repetitions=1)
    found = recommend(open_bundle(write_bundle(tmp_path, of, EXACT, tables=False)))
    assert found.optima
    assert all("run-to-run variation is unknown" in answer.sentence for answer in found.optima)


def test_a_report_shows_no_models_that_nothing_tested(tmp_path: Path):
    of = experiment("two", modes=["weak"], workers=[1, 2], windows=2, steps_per_window=3)
    content = compose(analyze([open_bundle(write_bundle(tmp_path, of, Truth(), tables=False))]), draw=False)
    (section,) = [section for section in content.sections if section.name == "predicted"]
    assert section.tables == ()
    assert "No model could be tested" in section.sentences[0]
