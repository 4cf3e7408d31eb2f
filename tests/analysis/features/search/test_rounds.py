"""A search from its candidates to its record, with trials of known truth."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from scalecurve.bundle.open import open_bundle
from scalecurve.bundle.pack import pack
from scalecurve.cli import cli
from scalecurve.cli.plan import command as plan
from scalecurve.features.search.bundle_file import SEARCH
from scalecurve.features.search.plan import rounds
from scalecurve.features.search.rounds import NothingMeasuredError, Search
from scalecurve.features.search.tables import search_in_words, search_table
from scalecurve.planning.candidates import sift
from scalecurve_api.planning.plan import make_plan
from scalecurve_api.spec.experiment import ScalingExperiment
from scalecurve_api.spec.trial import Point, TrialPhase, TrialSpec
from tests.analysis.synthetic import Ending, Truth, experiment, write_bundle

FORM = experiment(
    "mine",
    modes=["weak"],
    workers=[1, 2],
    matrix={"options.bucketCapMb": list(range(1, 13))},
    windows=5,
    steps_per_window=20,
    repetitions=2,
)
BEST = 7


def seconds(point: Point) -> float:
    return 0.1 * (1 + abs(int(str(point.axes["options.bucketCapMb"])) - BEST) / 10)


def succeeded(_: TrialSpec) -> Ending:
    return TrialPhase.succeeded, None, ""


TRUTH = Truth(step_s=seconds, step_cv=0.001, repetition_cv=0.001)


def search(folder: Path, end: Callable[[TrialSpec], Ending] = succeeded, form: ScalingExperiment = FORM) -> Search:
    def run(made: ScalingExperiment, bundle: Path) -> bool:
        endings = {trial.name: end(trial) for trial in make_plan(made).trials}
        write_bundle(bundle, made, TRUTH, tables=False, endings=endings)
        return True

    return Search(sift(form, None), folder / "b", run)


def test_the_search_ends_with_the_best_and_says_what_it_saved(tmp_path: Path) -> None:
    searched = search(tmp_path)
    finalists = searched.finalists()
    assert finalists is not None
    assert {(p.workers, p.axes["options.bucketCapMb"]) for p in finalists} >= {(1, BEST), (2, BEST)}
    assert len(finalists) <= 12
    assert searched.run(searched.final(finalists), searched.bundle)
    record = searched.record()
    assert [rung.trials for rung in record.rungs] == [24, 2 * len(finalists)]
    assert len(record.rungs[0].dropped) == 24 - len(finalists)
    assert (record.candidates, record.grid_trials, record.grid_unknown) == (24, 48, 0)
    assert record.cost_share is not None
    assert 0 < record.cost_share < 1
    opened = open_bundle(searched.bundle)
    assert opened.companion(SEARCH) == record
    assert not opened.problems
    words = " ".join(search_in_words(record))
    assert "the full grid takes 48 trials" in words
    assert "saved" in words
    assert len(search_table(record).rows) == 2


def finished(folder: Path) -> Search:
    """A search with its last trials."""
    searched = search(folder)
    finalists = searched.finalists()
    assert finalists is not None
    searched.run(searched.final(finalists), searched.bundle)
    return searched


def report(bundle: Path, folder: Path) -> str:
    done = CliRunner().invoke(cli, ["report", str(bundle), "--format", "md", "--out", str(folder)])
    assert done.exit_code == 0, done.output
    return next(folder.rglob("report.md")).read_text()


def test_the_record_travels_with_the_bundle_and_stands_in_the_report(tmp_path: Path) -> None:
    searched = finished(tmp_path)
    record = searched.record()
    packed = tmp_path / "b.zip"
    pack(searched.bundle, packed)
    assert open_bundle(packed).companion(SEARCH) == record
    assert open_bundle(packed).selected
    assert "the search took" in report(packed, tmp_path / "r")


def test_a_damaged_record_is_a_problem_and_no_number(tmp_path: Path) -> None:
    folder = write_bundle(tmp_path / "b", FORM, TRUTH, tables=False)
    (folder / "search.json").write_text('{"schema": "scalecurve.dev/search/v1alpha1"}')
    opened = open_bundle(folder)
    assert opened.companion(SEARCH) is None
    assert [problem.file for problem in opened.problems] == ["search.json"]


def test_candidates_that_fail_are_dropped_and_a_count_without_any_ends_the_search(tmp_path: Path) -> None:
    def failing(trial: TrialSpec) -> Ending:
        broken = trial.point.axes["options.bucketCapMb"] == BEST or trial.experiment == "all"
        return (TrialPhase.failed, "OutOfMemory", "too large") if broken else succeeded(trial)

    searched = search(tmp_path / "some", failing)
    finalists = searched.finalists()
    assert finalists is not None
    assert BEST not in {p.axes["options.bucketCapMb"] for p in finalists}
    (dropped, *_) = [each for each in searched.done[0].dropped if each.of_best is None]
    assert dropped.why == "too large"
    renamed = FORM.model_copy(update={"metadata": FORM.metadata.model_copy(update={"name": "all"})})
    with pytest.raises(NothingMeasuredError, match="no valid trial of weak at 1 worker: too large"):
        search(tmp_path / "all", failing, renamed).finalists()


def test_the_plan_of_a_search_has_its_rounds_and_the_grid(tmp_path: Path) -> None:
    (rung, finalists, grid) = rounds(sift(FORM, None))
    assert (rung.points, rung.trials) == (24, 24)
    assert (finalists.points, finalists.trials, finalists.steps) == (6, 12, 100)
    assert (grid.points, grid.trials) == (24, 48)
    file = tmp_path / "e.yaml"
    tree = FORM.wire()
    tree["spec"]["matrix"] = {"options.gradientAccumulation": [1, 2, 3]}
    file.write_text(yaml.safe_dump(tree))
    shown = CliRunner().invoke(plan, [str(file), "--search", "-o", "json"])
    assert shown.exit_code == 0, shown.output
    tables = json.loads(shown.output)
    assert [row["round"] for row in tables["search"]["rows"]] == ["finalists", "full grid"]
    assert {row["ground"] for row in tables["refused"]["rows"]} == {"illegal"}
