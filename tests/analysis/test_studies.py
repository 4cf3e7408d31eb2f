"""Studies: their manifests are valid and their pages are there."""

import re
from pathlib import Path

import pytest

from scalecurve.checks.validation import validate
from scalecurve_api.planning.plan import make_plan
from scalecurve_api.spec.experiment import ScalingExperiment
from scalecurve_models.paleo.calibration import read_measured

ROOT = Path(__file__).parents[2]
STUDIES = sorted(path for path in (ROOT / "manifests" / "studies").iterdir() if path.is_dir())
OVERLAYS = sorted((ROOT / "manifests" / "studies").glob("*/small.yaml"))


@pytest.mark.parametrize("study", STUDIES, ids=lambda path: path.name)
def test_manifests_are_right(study: Path):
    files = [*study.glob("experiment.yaml"), *study.glob("commands.sh")]
    assert files, "a study says how it is run"
    for checked in validate(file for file in study.glob("*.yaml") if file not in OVERLAYS):
        assert [str(problem) for problem in checked.problems] == []


def small_form(overlay: Path) -> ScalingExperiment:
    (checked,) = validate([overlay.with_name("experiment.yaml")], [overlay])
    assert [str(problem) for problem in checked.problems] == []
    return checked.experiments[0]


@pytest.mark.parametrize("overlay", OVERLAYS, ids=lambda path: path.parent.name)
def test_a_small_form_is_for_two_cores_and_has_a_name_of_its_own(overlay: Path):
    (full,) = validate([overlay.with_name("experiment.yaml")])[0].experiments
    small = small_form(overlay)
    assert small.metadata.name != full.metadata.name
    assert small.spec.workload.program is full.spec.workload.program
    assert list(small.spec.matrix) == list(full.spec.matrix)
    assert {trial.workload.device.value for trial in make_plan(small).trials} == {"cpu"}
    assert max(small.spec.scaling.workers) <= 2


@pytest.mark.parametrize("study", STUDIES, ids=lambda path: path.name)
def test_a_page_tells_of_it(study: Path):
    pages = [*(ROOT / "docs" / "studies").glob("*.md"), ROOT / "docs" / "evidence" / "predicted" / "README.md"]
    names = {name for page in pages for name in re.findall(r"manifests/studies/([\w-]+)", page.read_text())}
    assert study.name in names | {page.stem for page in pages}


def test_published_steps_are_the_published_rates():
    """batch * workers / step is what TensorFlow's page of 2017 prints."""
    from scalecurve_models.comparison.published import published_curves
    from scalecurve_models.networks import find_network

    printed = {
        curve.network: {workers: value for workers, value, _ in curve.points}
        for curve in published_curves()
        if curve.source == "tensorflow_2017_aws"
    }
    for name in ("alexnet", "inception_v3", "resnet50", "vgg16"):
        for step in read_measured(ROOT / "manifests" / "studies" / "paleo" / f"{name}-k80.csv", find_network(name)):
            rate = step.batch_per_worker * step.workers / step.step_ms * 1e3
            assert rate == pytest.approx(printed[name][step.workers], rel=1e-5)
