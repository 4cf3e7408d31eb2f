"""Studies: their manifests are right, their pages are there, and the records behind them are whole."""

import re
from pathlib import Path

import pytest

from scalebench.bundle import open_bundle
from scalebench.digest import digest_all
from scalebench.fit import fit
from scalebench.predict.paleo.measured import read_measured
from scalebench_api.plan import make_plan
from scalebench_api.validate import validate_text

ROOT = Path(__file__).parents[2]
STUDIES = sorted(path for path in (ROOT / "manifests" / "studies").iterdir() if path.is_dir())
FULL = "experiment.yaml"
SMALL_FORMS = sorted((ROOT / "manifests" / "studies").glob("*/small.yaml"))
BUNDLES = sorted((ROOT / "docs" / "evidence" / "predicted").glob("*-bundle"))


@pytest.mark.parametrize("study", STUDIES, ids=lambda path: path.name)
def test_manifests_are_right(study: Path):
    files = [*study.glob("experiment.yaml"), *study.glob("commands.sh")]
    assert files, "a study says how it is run"
    for file in study.glob("*.yaml"):
        assert [str(problem) for problem in validate_text(file.read_text(), file.name).problems] == []


@pytest.mark.parametrize("small", SMALL_FORMS, ids=lambda path: path.parent.name)
def test_a_small_form_asks_the_same_on_two_cores(small: Path):
    full, little = (
        validate_text(file.read_text(), file.name).experiments[0] for file in (small.with_name(FULL), small)
    )
    assert little.spec.workload.program is full.spec.workload.program
    assert set(little.spec.scaling.modes) <= set(full.spec.scaling.modes)
    assert set(little.spec.matrix) <= set(full.spec.matrix)
    assert {trial.workload.device.value for trial in make_plan(little).trials} == {"cpu"}
    assert max(little.spec.scaling.workers) <= 2
    assert len(make_plan(full).trials) >= len(make_plan(little).trials)


@pytest.mark.parametrize("study", STUDIES, ids=lambda path: path.name)
def test_a_page_tells_of_it(study: Path):
    pages = [*(ROOT / "docs" / "studies").glob("*.md"), ROOT / "docs" / "evidence" / "predicted" / "README.md"]
    names = {name for page in pages for name in re.findall(r"manifests/studies/([\w-]+)", page.read_text())}
    assert study.name in names | {page.stem for page in pages}


@pytest.mark.parametrize("folder", BUNDLES, ids=lambda path: path.name)
def test_records_are_whole_and_still_fit(folder: Path):
    bundle = open_bundle(folder)
    assert bundle.problems == ()
    assert all(trial.good for trial in bundle.trials)
    assert digest_all([bundle]).problems == ()
    assert [table.name for table in fit(bundle).tables() if table.rows] != []


def test_published_steps_are_the_published_rates():
    """batch * workers / step is what TensorFlow's page of 2017 prints."""
    from scalebench.network import find
    from scalebench.predict.published import published

    printed = {
        curve.network: {workers: value for workers, value, _ in curve.points}
        for curve in published()
        if curve.source == "tensorflow_2017_aws"
    }
    for name in ("alexnet", "inception_v3", "resnet50", "vgg16"):
        for step in read_measured(ROOT / "manifests" / "studies" / "paleo" / f"{name}-k80.csv", find(name)):
            rate = step.batch_per_worker * step.workers / step.step_ms * 1e3
            assert rate == pytest.approx(printed[name][step.workers], rel=1e-5)
