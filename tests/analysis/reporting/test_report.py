import copy
import json
import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scalecurve.bundle.open import open_bundle, open_bundles
from scalecurve.reporting import FORMATS, report
from scalecurve_api.features.accuracy.facts import Evaluation
from scalecurve_api.features.collectives.facts import AllReduceRow
from scalecurve_api.planning.plan import make_plan
from scalecurve_api.record.trial_record import TrialRecord, stored_digest
from scalecurve_api.spec.experiment import ScalingExperiment
from scalecurve_api.spec.trial import TrialPhase, TrialSpec
from tests.analysis.synthetic import Truth, experiment, write_bundle
from tests.examples import examples

PRICE = {"perWorkerHour": 2.5, "datasetSamples": 50_000, "epochs": 10}
SMALL = experiment(
    "small",
    workers=[1, 2, 4],
    repetitions=2,
    windows=2,
    steps_per_window=15,
    cost=PRICE,
    matrix={"precision": ["fp32"]},
)
OF_MODELS = {"loss", "predicted"}
CURVES = {
    "throughput",
    "speedup",
    "efficiency",
    "epoch",
    "cost",
    "pareto",
    "energy",
    "split",
    "step-time",
    "step-times",
    "times-over-batch",
    "accuracy",
    "error",
    "error-over-batch",
    "training-workers",
    *OF_MODELS,
}


def accuracies(trial: TrialSpec) -> list[Evaluation]:
    return [
        Evaluation(epoch=e, step=e * 10, wall_s=e * 2.0, train_loss=1 / e, loss=1 / e, accuracy=1 - 0.5 / e)
        for e in (1, 2, 3)
    ]


def whole(folder: Path, of: ScalingExperiment = SMALL) -> Path:
    """Something of everything: an Invalid, a Failed and an unfinished trial, energy, accuracy, other software."""
    names = [t.name for t in make_plan(of).trials]
    weak = [name for name in names if name.startswith("weak-4")]
    strong = [name for name in names if name.startswith("strong-4")]

    def change(record: TrialRecord) -> TrialRecord:
        odd = record.trial.point.workers == 4
        return record.model_copy(update={"versions": {**record.versions, "torch": "9.9"}}) if odd else record

    return write_bundle(
        folder,
        of,
        Truth(energy_w=100.0),
        endings={weak[0]: (TrialPhase.invalid, "Throttled", "a <b>slow</b> | clock")},
        absent=strong[:1],
        evaluations=accuracies,
        change=change,
    )


@pytest.fixture(scope="module")
def bundle_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return whole(tmp_path_factory.mktemp("whole") / "bundle")


@pytest.fixture(scope="module")
def written(bundle_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("out")
    paths = report(open_bundles([bundle_folder]), out)
    assert sorted(paths) == sorted(path for path in out.rglob("*") if path.is_file())
    return out


def test_everything_is_written(written: Path):
    assert {path.stem for path in (written / "plots").glob("*.png")} == CURVES
    assert {path.stem for path in (written / "plots").glob("*.svg")} == CURVES
    assert {path.stem for path in (written / "tables").iterdir()} >= {"scaling", "modes", "split", "steps", "cost"}
    page = (written / "report.html").read_text()
    assert page.count('<div class="wide">') == len(CURVES) + 1  # that of the first screen
    for said in ("speed-up on 4 workers", "Throttled", "version of torch", "95 % interval", "How the numbers were"):
        assert said in page


class _Page(HTMLParser):
    """Collects what a browser would fetch or run, and the ids."""

    def __init__(self) -> None:
        super().__init__()
        self.references: list[str] = []
        self.tags: list[str] = []
        self.ids: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for name, value in attrs:
            if name in ("src", "href", "xlink:href", "srcset", "data", "action") and value:
                self.references.append(value)
            if name == "id" and value:
                self.ids.append(value)


def test_the_page_needs_nothing_else(written: Path):
    page = _Page()
    text = (written / "report.html").read_text()
    page.feed(text)
    inside = {reference[1:] for reference in page.references if reference.startswith("#")}
    assert inside <= set(page.ids)
    beside = {reference for reference in page.references if not reference.startswith("#")}
    assert beside
    assert all((written / reference).is_file() for reference in beside)
    assert len(page.ids) == len(set(page.ids))
    assert not {"link", "img", "iframe", "object", "b" + "ase"} & set(page.tags)
    assert "@import" not in text
    assert not re.search(r"url\((?!#)", text)


def test_words_from_a_bundle_cannot_become_markup(written: Path):
    page = (written / "report.html").read_text()
    assert "<b>slow</b>" not in page
    assert "a &lt;b&gt;slow&lt;/b&gt; | clock" in page
    assert "a &lt;b&gt;slow&lt;/b&gt; \\| clock" in (written / "report.md").read_text()


def test_markdown_links_exist(written: Path):
    links = re.findall(r"!\[[^\]]*\]\(([^)]+)\)", (written / "report.md").read_text())
    assert len(links) == len(CURVES)
    assert all((written / link).is_file() for link in links)


def test_json_holds_every_table(written: Path):
    tree = json.loads((written / "report.json").read_text())
    assert set(tree["tables"]) == {path.stem for path in (written / "tables").iterdir()}
    assert tree["tables"]["scaling"]["rows"][0]["throughput"]["level"] == 0.95


def test_no_path_of_this_machine_is_in_it(written: Path, bundle_folder: Path):
    for path in written.rglob("*.*"):
        if path.suffix != ".png":
            text = path.read_text()
            assert str(bundle_folder.parent) not in text
            assert str(Path.home()) not in text


def test_the_same_bundle_gives_the_same_bytes_anywhere(bundle_folder: Path, written: Path, tmp_path: Path):
    """Another folder, files created in another order, another process, hash seed, locale, time zone and settings."""
    copy = tmp_path / "elsewhere" / "bundle"
    (copy / "trials").mkdir(parents=True)
    for folder in sorted((bundle_folder / "trials").iterdir(), reverse=True):
        shutil.copytree(folder, copy / "trials" / folder.name)
    shutil.copy(bundle_folder / "experiment.yaml", copy)
    (tmp_path / "matplotlibrc").write_text("font.size: 30\naxes.grid: True\n")
    code = (
        "import sys; from scalecurve.bundle.open import open_bundles\n"
        "import scalecurve.bundle.step_summary as d; d.THREADS = 1\n"
        "from scalecurve.reporting import report; report(open_bundles([sys.argv[1]]), sys.argv[2])"
    )
    environment = {
        **os.environ,
        "PYTHONHASHSEED": "12345",
        "LC_ALL": "C",
        "TZ": "Pacific/Kiritimati",
        "MATPLOTLIBRC": str(tmp_path / "matplotlibrc"),
    }
    out = tmp_path / "out"
    subprocess.run([sys.executable, "-c", code, str(copy), str(out)], check=True, env=environment, cwd=tmp_path)
    for path in written.rglob("*.*"):
        assert (out / path.relative_to(written)).read_bytes() == path.read_bytes(), path.name


def test_only_what_is_asked_for_is_written(bundle_folder: Path, tmp_path: Path):
    paths = report(open_bundles([bundle_folder]), tmp_path, ["md", "csv"])
    assert {path.suffix for path in paths} == {".md", ".csv"}


def test_html_alone_draws_no_png_and_links_to_the_records_of_its_bundle(bundle_folder: Path, tmp_path: Path):
    bundle = shutil.copytree(bundle_folder, tmp_path / "b")
    (path,) = report(open_bundles([bundle]), bundle / "report", ["html"])
    assert path.read_text().count('<div class="wide">') == len(CURVES) + 1
    assert [file.name for file in path.parent.rglob("*.*")] == ["report.html"]
    page = _Page()
    page.feed(path.read_text())
    records = {reference for reference in page.references if reference.endswith("trial.json")}
    assert {(path.parent / record).resolve() for record in records} == set(bundle.rglob("trial.json"))


def test_an_unknown_format_is_refused(bundle_folder: Path, tmp_path: Path):
    with pytest.raises(ValueError, match=r"unknown formats: pdf; expected html, md"):
        report(open_bundles([bundle_folder]), tmp_path, ["pdf"])
    with pytest.raises(ValueError, match="at least one bundle"):
        report([], tmp_path)


def test_nothing_measured_is_a_report_without_plots(tmp_path: Path):
    folder = write_bundle(tmp_path / "b", SMALL, absent=[t.name for t in make_plan(SMALL).trials])
    paths = report(open_bundles([folder]), tmp_path / "out")
    assert not any(path.suffix in (".png", ".svg") for path in paths)
    assert "nothing measured yet" in (tmp_path / "out" / "report.html").read_text()
    assert "| ? |" in (tmp_path / "out" / "report.md").read_text()


def test_a_bundle_with_nothing_readable(tmp_path: Path):
    (tmp_path / "b" / "trials" / "x").mkdir(parents=True)
    (tmp_path / "b" / "experiment.yaml").write_text("{")
    report(open_bundles([tmp_path / "b"]), tmp_path / "out")
    assert "experiment.yaml" in (tmp_path / "out" / "report.md").read_text()


def test_the_microbenchmark_has_its_own_plot(tmp_path: Path):
    def rows(trial: TrialSpec) -> list[AllReduceRow]:
        return [
            AllReduceRow(
                bytes=1 << k,
                in_place=in_place,
                iterations=5,
                time_us_median=10 + k,
                time_us_min=9 + k,
                time_us_p95=12 + k,
                algbw=k,
                busbw=k * 1.5,
                errors=0,
            )
            for k in range(3, 12)
            for in_place in (False, True)
        ]

    of = experiment("nccl", modes=["weak"], workers=[2, 4], workload={"program": "allreduce"})
    folder = write_bundle(tmp_path / "b", of, allreduce=rows, tables=False)
    paths = report(open_bundles([folder]), tmp_path / "out")
    assert {path.stem for path in paths if path.suffix == ".svg"} == {"allreduce", "allreduce-models"}
    assert "all-reduce over 4 workers (1x4): 16.50 GB/s" in (tmp_path / "out" / "report.md").read_text()


def test_names_of_any_alphabet_and_mathematics_are_shown_as_they_are(tmp_path: Path):
    of = experiment(
        "odd", modes=["weak"], workers=[1, 2], repetitions=1, windows=2, matrix={"model": ["$x^2", "模型<i>"]}
    )
    report(open_bundles([write_bundle(tmp_path / "b", of, tables=False)]), tmp_path / "out")
    page = (tmp_path / "out" / "report.html").read_text()
    assert "model=$x^2" in page
    assert "model=模型&lt;i&gt;" in page


def test_many_ranks_and_many_series_are_drawn(tmp_path: Path):
    of = experiment(
        "many",
        modes=["weak"],
        workers=[1, 48],
        repetitions=1,
        windows=2,
        steps_per_window=5,
        matrix={"allReduce": ["auto", "ring", "tree"], "precision": ["fp32", "tf32", "bf16"]},
    )
    folder = write_bundle(tmp_path / "b", of, evaluations=accuracies)
    report(open_bundles([folder]), tmp_path / "out", ["md", "svg"])
    assert "The first 8 series; 1 more in the table." in (tmp_path / "out" / "report.md").read_text()


def test_analysis_is_quick_to_import():
    heavy = ["pandas", "matplotlib", "pyarrow", "scipy", "jinja2", "torch"]
    code = (
        "import sys, scalecurve, scalecurve.reporting, scalecurve.reporting.sections, scalecurve.checks.diagnose,"
        "scalecurve.checks.compare,"
        "scalecurve.curves.cost, scalecurve.curves.progress, scalecurve.features.collectives.allreduce\n"
        f"print([name for name in {heavy} if name in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True).stdout == b"[]\n"


@pytest.fixture(scope="module")
def two_counts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle of every kind of file, with too few points for models, whose fits cost most of a report in text."""
    of = experiment("two", workers=[1, 4], repetitions=2, windows=2, steps_per_window=15, cost=PRICE)
    return whole(tmp_path_factory.mktemp("two") / "bundle", of)


@settings(max_examples=examples(8, nightly=25))
@given(st.data())
def test_a_report_is_written_whatever_is_broken(two_counts: Path, data: st.DataObject):
    files = sorted(path for path in two_counts.rglob("*") if path.is_file())
    file = data.draw(st.sampled_from(files))
    before = file.read_bytes()
    at = data.draw(st.integers(0, len(before) - 1))
    damaged = data.draw(st.sampled_from([before[:at], before[:at] + b"\xff" + before[at + 1 :], before[at:], b""]))
    try:
        file.write_bytes(damaged)
        out = two_counts.parent / "out"
        bundle = open_bundle(two_counts)
        paths = report([bundle], out, ["md", "json", "csv"])
    finally:
        file.write_bytes(before)
    assert paths
    good = any(trial.good and trial.folder == file.parent for trial in bundle.trials)
    if damaged != before and (good or file.name == "trial.json"):
        assert f"{file.parent.name}/{file.name}" in (out / "report.md").read_text()


def test_formats_are_the_ones_the_command_line_offers():
    assert FORMATS == ("html", "md", "json", "csv", "png", "svg")


ODD = st.one_of(
    st.integers(-(10**30), 10**30),
    st.sampled_from(
        [0, -1, 1, 2**63, 1e308, -1e308, 1e-308, 5e-324, 0.5, "", "x" * 3000, "\x00", "\ud800", None, True]
    ),
    st.sampled_from([[], {}, [[]], {"a": []}]),
)


def _replace_leaf(tree: object, data: st.DataObject) -> None:
    """Replace, double or remove one thing somewhere in a JSON tree."""
    assert isinstance(tree, dict | list)
    keys = list(tree) if isinstance(tree, dict) else list(range(len(tree)))
    key = data.draw(st.sampled_from(keys))
    inner = tree[key]
    if isinstance(inner, dict | list) and inner and data.draw(st.integers(0, 5)):
        _replace_leaf(inner, data)
    elif data.draw(st.integers(0, 9)):
        tree[key] = copy.deepcopy(data.draw(ODD))  # what is drawn may be changed in its turn
    else:
        del tree[key]


@settings(max_examples=examples(8, nightly=12))
@given(st.data())
def test_a_report_is_written_whatever_a_sealed_record_says(bundle_folder: Path, data: st.DataObject):
    """A digest vouches for who wrote a record, not for its sense."""
    name = data.draw(st.sampled_from([t.name for t in make_plan(SMALL).trials]))
    form = data.draw(st.sampled_from(["md", "md", "csv", "html"]))
    without_plan = data.draw(st.booleans())
    file, plan = bundle_folder / "trials" / name / "trial.json", bundle_folder / "experiment.yaml"
    if not file.exists():
        return
    before, planned = file.read_bytes(), plan.read_bytes()
    tree = json.loads(before)
    for _ in range(data.draw(st.integers(1, 3))):
        _replace_leaf(tree, data)
    tree["digest"] = stored_digest(tree)
    try:
        file.write_text(json.dumps(tree))
        if without_plan:
            plan.write_text("no plan")
        report([open_bundle(bundle_folder)], bundle_folder.parent / "out", [form])
    finally:
        file.write_bytes(before)
        plan.write_bytes(planned)


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("flopsPerSample", 5e-324, "flopsPerSample is"),
        ("peakFlops", 1e300, "peakFlops is 1e+300"),
        ("message", "\ud800", "half of a surrogate pair"),
        ("windows", [{}], "not a trial record: windows.0"),
    ],
)
def test_impossible_records_are_refused(tmp_path: Path, field: str, value: object, said: str):
    folder = write_bundle(tmp_path, experiment(modes=["weak"], workers=[1, 2], repetitions=1), tables=False)
    file = folder / "trials" / "weak-1-1x1-r1" / "trial.json"
    tree = {**json.loads(file.read_bytes()), field: value}
    tree["digest"] = stored_digest(tree)
    file.write_text(json.dumps(tree))
    (problem,) = open_bundle(folder).problems
    assert said in problem.what
