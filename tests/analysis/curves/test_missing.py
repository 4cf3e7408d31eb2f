"""A curve that is missing says why, and what would fill it, in the same words wherever it is missing."""

import json
import shlex
from pathlib import Path

import pytest
from click import Context
from click.testing import CliRunner

from scalecurve.bundle.open import open_bundle
from scalecurve.bundle.pack import pack
from scalecurve.cli import cli
from scalecurve.curves.compute import scaling
from scalecurve.curves.missing import REMEDIES, missing_curves
from scalecurve.reporting import report
from scalecurve_api.planning.plan import make_plan
from scalecurve_api.record.trial_record import TrialRecord
from scalecurve_api.spec.trial import FailedReason, InvalidReason, TrialPhase
from tests.analysis.synthetic import Ending, Truth, experiment, write_bundle

OF = experiment("own", workers=[1, 2], windows=2, steps_per_window=3)
TOOK = "other processes took 64% of the cores of rank 0, allowed 25%"
NOISY: Ending = (TrialPhase.invalid, "NoisyNeighbor", TOOK)
SAMPLES: Ending = (TrialPhase.invalid, "WrongSamples", "31 samples instead of 32")
WHY = f"No curve: 7 of 12 trials are Invalid, 6 of them NoisyNeighbor ({TOOK})"
REMEDY = "Stop the other processes, or use an idle machine"
TROUBLESHOOTING = Path(__file__).parents[3] / "docs" / "how-to" / "troubleshooting.md"


@pytest.fixture
def packed(tmp_path: Path) -> Path:
    """A packed bundle whose two-worker trials are all Invalid, and one of one worker."""
    trials = make_plan(OF).trials
    endings = {trial.name: NOISY for trial in trials if trial.point.workers == 2}
    endings[next(trial.name for trial in trials if trial.point.workers == 1)] = SAMPLES
    folder = write_bundle(tmp_path / "own", OF, Truth(), endings=endings)
    pack(folder, tmp_path / "own.zip")
    return tmp_path / "own.zip"


def fill(file: Path) -> str:
    folder = file.with_suffix("")
    return f"scalecurve unpack {file} && scalecurve run {folder}/experiment.yaml --bundle {folder} --add-session"


def test_the_first_screen_says_why_there_is_no_curve(packed: Path, tmp_path: Path):
    report([open_bundle(packed)], tmp_path / "out", ["html", "md", "json"])
    said = json.loads((tmp_path / "out" / "report.json").read_text())
    command = "scalecurve run results/own/experiment.yaml --bundle results/own --add-session"
    assert said["answer"]["missing"] == [{"why": WHY, "remedy": REMEDY, "fill": command}]
    line = f"{WHY}. {REMEDY}. To fill it: {command}"
    assert line in said["warnings"]
    assert line in (tmp_path / "out" / "report.md").read_text().replace("\\", "")
    first_screen, _, _ = (tmp_path / "out" / "report.html").read_text().partition("</header>")
    assert f"{WHY}. {REMEDY}. To fill it: <code>{command}</code>" in first_screen


@pytest.mark.parametrize("verb", ["explain", "status", "report"])
def test_verbs_say_it_in_the_same_words_and_with_a_command_to_type(packed: Path, verb: str, tmp_path: Path):
    more = ["--out", str(tmp_path / "out"), "--format", "json"] if verb == "report" else []
    shown = CliRunner().invoke(cli, [verb, str(packed), *more])
    assert shown.exit_code == 0
    assert f"{WHY}. {REMEDY}. To fill it: {fill(packed)}" in shown.output
    assert "No measured point is slower than ideal" not in shown.output


def test_the_command_is_one_that_the_verbs_take(packed: Path):
    (missing,) = missing_curves([open_bundle(packed)], scaling([open_bundle(packed)]), paths=True)
    for words in (shlex.split(part) for part in missing.fill.split(" && ")):
        command = cli.get_command(Context(cli), words[1])
        assert command is not None
        options = {option for parameter in command.params for option in parameter.opts}
        assert {word for word in words if word.startswith("--")} <= options


def test_a_point_that_is_missing_from_a_curve_is_named(tmp_path: Path):
    of = experiment("gap", modes=["weak"], workers=[1, 2, 4], windows=2, steps_per_window=3)
    trials = make_plan(of).trials
    endings: dict[str, Ending] = {
        trial.name: (TrialPhase.failed, "RankFailed", "KeyError") for trial in trials if trial.point.workers == 4
    }
    bundle = open_bundle(write_bundle(tmp_path, of, Truth(), tables=False, endings=endings))
    (missing,) = missing_curves([bundle], scaling([bundle]))
    assert missing.why == "No point at 4 workers: 3 of 3 trials are Failed: RankFailed (KeyError)"
    assert missing.fill.endswith("--add-session")


def test_trials_that_have_not_run_are_resumed(tmp_path: Path):
    absent = [trial.name for trial in make_plan(OF).trials if trial.point.workers == 2]
    bundle = open_bundle(write_bundle(tmp_path, OF, Truth(), tables=False, absent=absent))
    (missing,) = missing_curves([bundle], scaling([bundle]))
    assert missing.why == "No curve: 6 of 12 trials have not finished"
    assert missing.fill.endswith("--resume")


@pytest.mark.parametrize(("engine", "said"), [("kubernetes", "another metadata.name"), ("import", "scalecurve import")])
def test_what_ran_elsewhere_is_filled_there(tmp_path: Path, engine: str, said: str):
    def change(record: TrialRecord) -> TrialRecord:
        return record.model_copy(update={"engine": engine})

    endings = {trial.name: NOISY for trial in make_plan(OF).trials if trial.point.workers == 2}
    bundle = open_bundle(write_bundle(tmp_path, OF, Truth(), tables=False, endings=endings, change=change))
    (missing,) = missing_curves([bundle], scaling([bundle]))
    assert said in missing.fill
    assert not missing.typed


def test_nothing_is_said_of_a_whole_curve(tmp_path: Path):
    bundle = open_bundle(write_bundle(tmp_path, OF, Truth(), tables=False))
    assert missing_curves([bundle], scaling([bundle])) == ()


@pytest.mark.parametrize("reason", [*InvalidReason, *FailedReason, "Contradictory"])
def test_every_reason_of_a_verdict_has_its_remedy_here_and_on_the_page(reason: str):
    assert REMEDIES[reason]
    told_elsewhere = {InvalidReason.impossible_efficiency, InvalidReason.reported, InvalidReason.wrong_strategy}
    assert reason in told_elsewhere or f"`{reason}`" in TROUBLESHOOTING.read_text()
