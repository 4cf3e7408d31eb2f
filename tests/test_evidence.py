"""The documented evidence: pages and packed bundles, each record verified, each study as its manifest stands here."""

import zipfile
from pathlib import Path

import pytest

from scalecurve.bundle.open import open_bundle
from scalecurve.bundle.step_summary import summarize_steps
from scalecurve.checks.validation import validate
from scalecurve_api.spec.experiment import ScalingExperiment
from scalecurve_api.spec.trial import TrialPhase

ROOT = Path(__file__).parents[1]
EVIDENCE = ROOT / "docs" / "evidence"
MADE_BY = sorted(path for folder in ("experiments", "scripts") for path in EVIDENCE.glob(f"**/{folder}/**/*.*"))
REPORTS = EVIDENCE.glob("**/*-report/**/*")
"""What a reader wrote with the commands of the pages; git ignores it."""
FILES = sorted(path for path in {*EVIDENCE.rglob("*")} - {*MADE_BY, *REPORTS} if path.is_file())
BUNDLES = [path for path in FILES if path.suffix == ".zip" and path.name != "raw.zip"]
REFUSED = {"forced-sockets": "WrongTransport"}
"""Bundles that show what does not count, and why."""
STUDIES = ROOT / "manifests" / "studies"


def test_evidence_is_pages_and_packed_bundles():
    assert len(FILES) <= 75
    assert {path.suffix for path in FILES} <= {".md", ".png", ".zip", ".json"}
    plain = [path for path in FILES if path.suffix == ".json"]
    assert {path.stem for path in plain} <= {"llama-block", "llama-predicted"}, (
        "in plain text only what a commit sealed"
    )


def test_what_made_the_evidence_is_experiments_and_scripts():
    assert {path.suffix for path in MADE_BY if "__pycache__" not in path.parts} == {".py", ".sh", ".yaml"}


@pytest.mark.parametrize("path", [path for path in MADE_BY if path.suffix == ".yaml"], ids=lambda path: path.stem)
def test_experiments_can_be_repeated(path: Path):
    if "kind: ScalingExperiment" in path.read_text(encoding="utf-8"):  # the others are overlays
        assert [str(problem) for file in validate([path]) for problem in file.problems] == []


@pytest.mark.parametrize("path", [path for path in FILES if path.name == "raw.zip"], ids=lambda path: path.parent.name)
def test_raw_output_is_undamaged(path: Path):
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None


@pytest.mark.parametrize(("name", "reason"), REFUSED.items())
def test_what_shows_a_refusal_was_refused_for_that(name: str, reason: str):
    (path,) = (path for path in BUNDLES if path.stem == name)
    bundle = open_bundle(path)
    assert bundle.problems == ()
    assert {trial.record.reason for trial in bundle.trials if trial.record} == {reason}


@pytest.mark.parametrize("path", [path for path in BUNDLES if path.stem not in REFUSED], ids=lambda path: path.stem)
def test_every_record_is_verified_and_succeeded(path: Path):
    """Or is the end of a ladder of batches; a trial that was not run has none."""
    bundle = open_bundle(path)
    assert bundle.problems == ()
    others = [trial for trial in bundle.trials if trial.record and not trial.good]
    assert [trial.name for trial in others if trial.record.phase is not TrialPhase.full] == []
    assert any(trial.good for trial in bundle.trials)
    assert summarize_steps([bundle]).problems == ()


def experiments() -> dict[str, list[ScalingExperiment]]:
    """Those of the studies by name, each with its small form."""
    checked = [
        *validate(path for path in STUDIES.glob("*/*.yaml") if path.name != "small.yaml"),
        *(
            one
            for path in STUDIES.glob("*/small.yaml")
            for one in validate([path.with_name("experiment.yaml")], [path])
        ),
    ]
    by_name: dict[str, list[ScalingExperiment]] = {}
    for file in checked:
        for experiment in file.experiments:
            by_name.setdefault(experiment.metadata.name, []).append(experiment)
    return by_name


def test_studies_were_run_as_their_manifests_stand():
    by_name = experiments()
    for path in BUNDLES:
        if path.parent.name == "training":
            experiment = open_bundle(path).experiment
            assert experiment is not None
            assert [one.spec for one in by_name[experiment.metadata.name]] == [experiment.spec], path.name
