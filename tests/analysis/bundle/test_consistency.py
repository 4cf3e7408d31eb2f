"""False numbers that are sealed anew: what a record says twice, and what two records cannot both say."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from scalecurve.bundle.consistency import judge_again
from scalecurve.bundle.open import Bundle, open_bundle
from scalecurve.bundle.pack import unpack
from scalecurve.bundle.record_file import stored_digest
from scalecurve.bundle.trial import Trial
from scalecurve.checks.verify import verify
from scalecurve.curves.compute import scaling
from scalecurve_api.record.assemble import assemble
from scalecurve_api.record.tables import STEPS_FILE
from scalecurve_api.spec.trial import TrialPhase
from tests.analysis.synthetic import experiment, write_bundle
from tests.api.rank_records import GOOD, rank_record, trial
from tests.api.rank_records import window as rank_window

REAL = Path(__file__).parents[2] / "fixtures" / "resnet50-h200.zip"
TRIAL = "weak-4-1x4-r1"
Edit = Callable[[dict[str, Any]], None]


@pytest.fixture(scope="module", params=["synthetic", "real"])
def honest(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle made by hand, and one of real GPUs."""
    folder = tmp_path_factory.mktemp("honest") / "bundle"
    return unpack(REAL, folder) if request.param == "real" else write_bundle(folder, experiment())


@pytest.fixture
def copy(honest: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(honest, tmp_path / "copy"))


def reseal(bundle: Path, trial: str, *edits: Edit) -> None:
    file = bundle / "trials" / trial / "trial.json"
    tree = json.loads(file.read_text())
    for edit in edits:
        edit(tree)
    file.write_text(json.dumps({**tree, "digest": stored_digest(tree)}))


def windows_times(factor: float) -> Edit:
    def edit(tree: dict[str, Any]) -> None:
        for window in tree["windows"]:
            window["wallNs"], window["fastestNs"] = (round(window[k] * factor) for k in ("wallNs", "fastestNs"))

    return edit


def summary_times(factor: float) -> Edit:
    def edit(tree: dict[str, Any]) -> None:
        tree["summary"]["wallS"] = sum(w["wallNs"] for w in tree["windows"] if w["kind"] == "train") / 1e9
        tree["summary"]["throughput"] = tree["summary"]["samples"] / tree["summary"]["wallS"]
        for name in ("mean", "median", "p95", "p99", "maximum"):
            tree["summary"]["step"][name] *= factor

    return edit


def failed_check(tree: dict[str, Any]) -> None:
    tree["checks"].append({"name": "Throttled", "passed": False, "detail": "clocks were throttled"})


def throttled(tree: dict[str, Any]) -> None:
    tree["deviceSamples"] = [{"count": 9, "throttleReasons": ["hw-thermal"]}] * len(tree["topology"])


def diverged(tree: dict[str, Any]) -> None:
    tree["parameterChecksums"] = [str(rank) for rank in range(len(tree["topology"]))]


def crowded(tree: dict[str, Any]) -> None:
    for rank in tree["topology"]:
        rank["device"], rank["cores"] = tree["topology"][0]["device"], tree["topology"][0]["cores"]


def fewer_windows(tree: dict[str, Any]) -> None:
    tree["windows"] = tree["windows"][:1]


def before_the_start(tree: dict[str, Any]) -> None:
    tree["timeline"] = [{"phase": "worker started", "atNs": tree["windows"][0]["startNs"] + 5_000_000_000}]


def after_the_end(tree: dict[str, Any]) -> None:
    tree["timeline"] = [{"phase": "worker ended", "atNs": tree["windows"][0]["startNs"]}]


def slow_baseline(factor: float) -> list[Edit]:
    """A baseline that is made slower makes every efficiency better."""
    return [windows_times(factor), summary_times(factor)]


LIES: dict[str, tuple[list[Edit], str]] = {
    "windows": ([windows_times(0.8)], "the summary has "),
    "windows longer": ([windows_times(1.6), summary_times(1)], r"steps of .* s each make .* s, the windows "),
    "windows and totals": ([windows_times(0.8), summary_times(1)], r"steps\.parquet has .* s of steps in window "),
    "windows and summary": ([windows_times(0.8), summary_times(0.8)], r"steps\.parquet has .* s of steps in window "),
    "windows longer, and summary": (slow_baseline(1.3), r"steps\.parquet has .* s of steps in window |began before "),
    "failed check": ([failed_check], "Throttled was not passed: clocks were throttled"),
    "throttled": ([throttled], "Throttled was not passed: "),
    "diverged": ([diverged], "ReplicasDiverged was not passed: "),
    "crowded": ([crowded], "Oversubscribed was not passed: "),
    "fewer windows": ([fewer_windows], "RecordsMissing was not passed: "),
    "before the start": ([before_the_start], r"began 5 s before 'worker started'"),
    "after the end": ([after_the_end], r"s after 'worker ended'"),
}


def consistency(bundle: Bundle) -> tuple[bool | None, str]:
    (claim,) = (claim for claim in bundle.claims if claim.what == "consistency")
    return claim.holds, claim.detail


def test_honest_bundles_agree_with_themselves(honest: Path) -> None:
    bundle = open_bundle(honest)
    assert consistency(bundle) == (True, "verdict, windows, summary and timeline of every trial agree")
    assert all(trial.good for trial in bundle.trials)
    assert not bundle.problems


@pytest.mark.parametrize("lie", LIES)
def test_a_record_that_contradicts_itself_counts_no_more(copy: Path, lie: str) -> None:
    edits, text = LIES[lie]
    reseal(copy, TRIAL, *edits)
    bundle = open_bundle(copy)
    (trial,) = (trial for trial in bundle.trials if trial.name == TRIAL)
    assert trial.phase is TrialPhase.invalid
    assert trial.record is not None
    assert trial.record.reason in ("Contradictory", *text.split())
    (warning,) = bundle.warnings
    assert warning.startswith(f"consistency: {TRIAL}: ")
    assert re.search(text, warning), warning
    assert not verify(bundle).holds
    (point,) = (p for s in scaling([bundle]).series if s.mode.value == "weak" for p in s.points if p.workers == 4)
    assert (point.counts.succeeded, point.counts.invalid) == (2, 1)


def test_samples_that_the_steps_do_not_have(copy: Path) -> None:
    def one_more(tree: dict[str, Any]) -> None:
        tree["windows"][0]["samples"] *= 2
        tree["summary"]["samples"] += tree["windows"][0]["samples"] // 2
        tree["summary"]["throughput"] = tree["summary"]["samples"] / tree["summary"]["wallS"]

    reseal(copy, TRIAL, one_more)
    assert "WrongSamples was not passed" in consistency(open_bundle(copy))[1]


def test_a_table_that_was_cut_is_named_by_every_reader(copy: Path) -> None:
    table = copy / "trials" / TRIAL / STEPS_FILE
    table.write_bytes(table.read_bytes()[: table.stat().st_size // 2])
    (problem,) = open_bundle(copy).problems
    assert str(problem).startswith(f"trials/{TRIAL}/{STEPS_FILE}: does not match the sha256")


def test_a_trial_copied_as_further_repetitions(copy: Path) -> None:
    file = copy / "experiment.yaml"
    file.write_text(file.read_text().replace("repetitions: 3", "repetitions: 5"))

    def repetition(number: int) -> Edit:
        def edit(tree: dict[str, Any]) -> None:
            tree["trial"] |= {"name": f"weak-4-1x4-r{number}", "repetition": number - 1}

        return edit

    for number in (4, 5):
        shutil.copytree(copy / "trials" / TRIAL, copy / "trials" / f"weak-4-1x4-r{number}")
        reseal(copy, f"weak-4-1x4-r{number}", repetition(number))
    bundle = open_bundle(copy)
    assert {trial.name for trial in bundle.trials if trial.phase is TrialPhase.invalid} == {
        *(TRIAL, "weak-4-1x4-r4", "weak-4-1x4-r5")
    }
    assert f"{TRIAL}: has the step table of weak-4-1x4-r4, weak-4-1x4-r5" in consistency(bundle)[1]


def test_a_copy_without_its_table_ran_at_the_same_time(copy: Path) -> None:
    def forget(tree: dict[str, Any]) -> None:
        tree["files"] = {}

    def second(tree: dict[str, Any]) -> None:
        tree["trial"] |= {"name": "weak-4-1x4-r2", "repetition": 1}

    shutil.rmtree(copy / "trials" / "weak-4-1x4-r2")
    shutil.copytree(copy / "trials" / TRIAL, copy / "trials" / "weak-4-1x4-r2")
    reseal(copy, TRIAL, forget)
    reseal(copy, "weak-4-1x4-r2", forget, second)
    bundle = open_bundle(copy)
    assert {trial.name for trial in bundle.trials if trial.phase is TrialPhase.invalid} == {TRIAL, "weak-4-1x4-r2"}
    assert not verify(bundle).holds


def test_a_second_record_of_one_repetition_is_refused(copy: Path) -> None:
    def rename(tree: dict[str, Any]) -> None:
        tree["trial"]["name"] = "weak-4-again"

    shutil.copytree(copy / "trials" / TRIAL, copy / "trials" / "weak-4-again")
    reseal(copy, "weak-4-again", rename)
    (problem,) = open_bundle(copy).problems
    assert (
        str(problem) == f"trials/weak-4-again/trial.json: a second record of this repetition, after that of '{TRIAL}'"
    )


def test_many_steps_are_left_to_verify(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reseal(copy, TRIAL, windows_times(0.8), summary_times(0.8))
    monkeypatch.setattr("scalecurve.bundle.open.MOST_TABLE_BYTES", 1)
    bundle = open_bundle(copy)
    assert consistency(bundle)[0] is None
    (warning,) = bundle.warnings
    assert warning.endswith("steps are held against them by `scalecurve verify`")
    (claim,) = (claim for claim in verify(bundle).claims if claim.what == "consistency")
    assert claim.holds is False
    assert claim.detail.startswith(f"{TRIAL}: steps.parquet has ")


@pytest.mark.parametrize(("samples", "contradicted"), [((24, 24), False), ((24, 23), False), ((24, 12), True)])
def test_weak_scaling_of_a_script_that_alone_knows_its_batch(samples: tuple[int, int], contradicted: bool) -> None:
    """It must not divide a fixed total by itself, which strong scaling measures."""
    changes: dict[str, Any] = {"workload": {"program": "custom", "command": ["train.py"]}, "scaling/batch": {}}
    trials = []
    for workers, count in zip((1, 2), samples, strict=True):
        spec = trial(changes, workers)
        windows = [rank_window(index, samples=count) for index in (0, 1)]
        ranks = {rank: rank_record(rank, spec, windows=windows, host=f"host-{workers}") for rank in range(workers)}
        trials.append(Trial(spec, Path(), assemble(spec, ranks, {}, GOOD).record))
    judged = judge_again(trials, tables=False)
    assert [each.phase for each in judged.trials] == ["Succeeded", "Invalid" if contradicted else "Succeeded"]
    if contradicted:
        assert judged.trials[1].record is not None
        assert judged.trials[1].record.reason == "WrongSamples"
        assert (
            "4 samples a step and worker, 8 at 1 worker: a script that divides a fixed total"
            in judged.contradictions[0]
        )
