"""The verbs that read bundles, on good, damaged, unfinished and foreign ones."""

from __future__ import annotations

import json
import resource
import shutil
from pathlib import Path

import pytest

from tests.analysis.synthetic import Truth, experiment, write_bundle

from .conftest import Desk

READING = ("status", "cost", "diagnose", "allreduce")
TABLES = {"status": "status", "cost": "cost", "diagnose": "diagnosis", "allreduce": "allreduce", "compare": "compare"}


def read(desk: Desk, verb: str, bundle: Path, *words: str, code: int = 0) -> str:
    """stdout of a reading verb; ``compare`` takes the bundle twice, ``report`` writes beside it."""
    if verb == "report":
        out = ["--out", "written", "--format", "md", "--format", "csv", "--format", "json"]
        return desk.here("report", bundle, *out, code=code).out
    return desk.here(verb, bundle, *([bundle] if verb == "compare" else []), *words, code=code).out


@pytest.mark.parametrize("verb", [*READING, "compare"])
def test_every_form_of_every_table(desk: Desk, bundle: Path, verb: str):
    folders = [bundle, bundle, "--include-unproved"] if verb == "compare" else [bundle]
    text = desk(verb, *folders, code=0).out
    tree = desk.here(verb, *folders, "-o", "json", code=0).json
    rows = desk.here(verb, *folders, "-o", "csv", code=0).rows
    assert tree["schema"] == f"scalecurve.dev/{verb}/v1"
    assert all(line.startswith(("unproved: ", "points that are unproved")) for line in tree["warnings"])
    table = tree[TABLES[verb]]
    assert len(table["rows"]) == len(rows)
    assert all(set(row) == {column["name"] for column in table["columns"]} for row in table["rows"])
    if verb != "diagnose":  # what it notices depends on the machine's mood
        assert [row["workers"] for row in rows] == [str(row["workers"]) for row in table["rows"]]
        assert len(rows) >= 2
        assert text.count("\nweak ") == len(rows)
    assert "finished" in tree.get("headlines", ["finished"])[0]


def test_markdown(desk: Desk, bundle: Path):
    out = desk.here("allreduce", bundle, "-o", "md", code=0).out
    widths = {line.count(" | ") for line in out.splitlines() if line.startswith("| ")}
    assert len(widths) == 1
    assert "1 MiB" in out


def test_several_bundles_are_one_document(desk: Desk, bundle: Path):
    again = desk.folder / "again"
    shutil.copytree(bundle, again)
    tree = desk.here("status", bundle, again, "-o", "json", code=0).json
    unproved = "; unproved: 1 of 2 points: no communication was observed, workers were not observed to read different"
    starts = [f"finished{number}: 4 of 4 trials done{unproved}" for number in ("", "#2")]
    assert [headline[: len(start)] for headline, start in zip(tree["headlines"], starts, strict=True)] == starts
    assert tree["finished"] is True
    rows = desk.here("status", bundle, again, "-o", "csv", code=0).rows
    assert [row["experiment"] for row in rows] == ["finished", "finished", "finished#2", "finished#2"]
    assert len(desk.here("cost", bundle, again, "-o", "csv", code=0).rows) == 4


def test_a_price_of_ones_own(desk: Desk, bundle: Path):
    words = ["--per-worker-hour", "3.6", "--currency", "EUR", "--dataset-samples", "1000000", "--epochs", "2"]
    tree = desk.here("cost", bundle, *words, "-o", "json", code=0).json["cost"]
    first = tree["rows"][0]
    throughput = json.loads(desk.here("status", bundle, "-o", "json").out)["status"]["rows"][0]["throughput"]["value"]
    assert first["epoch_s"]["value"] == pytest.approx(1e6 / throughput, rel=1e-4)
    assert first["epoch_cost"]["value"] == pytest.approx(1e6 / throughput * 0.001, rel=1e-4)
    assert {column["unit"] for column in tree["columns"] if "cost" in column["name"]} == {"EUR"}
    assert "--currency: got 'euro'; expected three capital letters, such as USD" in (
        desk.here("cost", bundle, "--per-worker-hour", "1", "--currency", "euro", code=2).err
    )
    assert "require a price: --prices or --per-worker-hour" in desk.here("cost", bundle, "--epochs", "2", code=2).err


@pytest.fixture
def two_devices(tmp_path: Path) -> tuple[Path, Path]:
    """Bundles of a T4 and of a V100."""
    made = []
    for name, device in (("small", "Tesla T4"), ("large", "Tesla V100-SXM2-16GB")):
        spec = experiment(scaling={"modes": ["weak"], "workers": [1, 2], "batch": {"perWorker": 32}})
        made.append(write_bundle(tmp_path / name, spec, Truth(device_name=device)))
    return made[0], made[1]


def per_million(desk: Desk, *words: str | Path) -> dict[tuple[str, int], float]:
    table = desk.here("cost", *words, "-o", "json", code=0).json["cost"]
    return {(row["experiment"], row["workers"]): row["cost_per_million"]["value"] for row in table["rows"]}


@pytest.mark.parametrize("names", [("t4", "v100"), ("small", "large")])
def test_each_device_has_its_price(desk: Desk, two_devices: tuple[Path, Path], names: tuple[str, str]):
    small, large = two_devices
    labels = ("--label", "small", "--label", "large")
    both = per_million(desk, small, large, *labels, "--per-worker-hour", f"{names[0]}=0.35,{names[1]}=2.48")
    cheap = per_million(desk, small, large, *labels, "--per-worker-hour", "0.35")
    dear = per_million(desk, small, large, *labels, "--per-worker-hour", "2.48")
    assert both == {key: (cheap if key[0] == "small" else dear)[key] for key in cheap}


@pytest.mark.parametrize(
    ("price", "said"),
    [
        ("a100=1", "'a100' is no bundle and no device; expected "),
        ("tesla=1,t4=2", "tesla and t4 are both of "),
        ("t4=0.35,t4=1", "got 't4=1'; expected a bundle's label or device, once"),
        ("t4=0.35,1", "got '1'; expected a bundle's label or device, once"),
        ("t4=-1", "got -1; expected 0 to 1000000"),
    ],
)
def test_a_price_of_nothing_is_refused(desk: Desk, two_devices: tuple[Path, Path], price: str, said: str):
    assert said in desk.here("cost", *two_devices, "--per-worker-hour", price, code=2).err


def test_compare_with_itself_and_with_a_slower_one(desk: Desk, bundle: Path):
    """Half the speed is past any threshold; twice of it is a change as well."""
    before = write_bundle(desk.folder / "before", experiment(modes=["weak"]))
    slower = write_bundle(desk.folder / "slower", experiment(modes=["weak"]), Truth(step_s=lambda p: 10.0))
    assert desk.here("compare", bundle, bundle, "--threshold", "0", "-o", "json", code=0).json["pastThreshold"] is False
    worse = desk.here("compare", before, slower, "--threshold", "0.05", "-o", "json", code=1)
    assert worse.json["pastThreshold"] is True


def test_nothing_in_common_is_no_agreement(desk: Desk, bundle: Path):
    other = desk.folder / "other"
    other.mkdir()
    desk.write("other/experiment.yaml")
    ran = desk.here("compare", bundle, other, "-o", "json", code=2)
    assert ran.json["compare"]["rows"] == []
    assert "have no measured point in common: nothing to compare" in ran.err


def test_the_report(desk: Desk, bundle: Path):
    ran = desk("report", bundle, "--out", "r", code=0)
    first, *_ = ran.out.splitlines()
    assert first == "r/report.html"
    page = (desk.folder / "r" / "report.html").read_text()
    assert "<html" in page
    assert str(desk.folder) not in page
    written = [path for path in (desk.folder / "r").rglob("*") if path.is_file()]
    assert ran.out.splitlines()[-1] == f"{len(written)} files in r"
    assert not (bundle / "report").exists()


@pytest.mark.parametrize("place", ["file", "file/inside", "/proc/report"])
def test_a_report_into_a_folder_that_cannot_be_written(desk: Desk, bundle: Path, place: str):
    (desk.folder / "file").touch()
    ran = desk.here("report", bundle, "--out", place, "--format", "md", code=3)
    assert ran.err.startswith(f"scalecurve: {place}: cannot be written: ")
    assert ran.out == ""


@pytest.mark.parametrize("verb", [*READING, "compare", "report"])
def test_a_damaged_bundle_shows_the_rest_and_names_the_file(desk: Desk, bundle: Path, verb: str):
    damaged = desk.folder / "damaged"
    shutil.copytree(bundle, damaged)
    records = sorted(damaged.rglob("trial.json"))
    records[0].write_bytes(records[0].read_bytes()[:-100])
    records[1].write_text(records[1].read_text().replace('"wallNs"', '"wallNs" '))
    records[2].write_text(records[2].read_text().replace("4", "5"))
    (damaged / "trials" / "stray").mkdir()
    for table in damaged.rglob("steps.parquet"):
        table.write_bytes(table.read_bytes()[:50])
    words = {"compare": [damaged, damaged], "report": [damaged, "--out", "written", "--format", "md"]}
    ran = desk.here(verb, *words.get(verb, [damaged]), code=0)
    for broken in (records[0], records[2]):
        assert f"{broken.relative_to(desk.folder)}: " in ran.err
    assert "trials/stray/trial.json" in ran.err


def test_an_experiment_that_cannot_be_read_leaves_the_trials(desk: Desk, bundle: Path):
    damaged = desk.folder / "damaged"
    shutil.copytree(bundle, damaged)
    (damaged / "experiment.yaml").write_bytes(b"\xff\xfe\x00spec: [")
    ran = desk.here("status", damaged, code=0)
    assert "number planned unknown" in ran.out
    assert "damaged/experiment.yaml: " in ran.err
    (damaged / "experiment.yaml").write_text('metadata: {name: "\\e[2Jboo"}')
    assert "experiment.yaml" in desk.here("status", damaged, code=0).err


@pytest.mark.parametrize("verb", [*READING, "compare", "report"])
def test_an_unfinished_bundle_shows_question_marks(desk: Desk, bundle: Path, verb: str):
    unfinished = desk.folder / "unfinished"
    shutil.copytree(bundle, unfinished)
    for path in unfinished.glob("trials/weak-2*"):
        shutil.rmtree(path)
    (unfinished / ".work").mkdir()
    out = read(desk, verb, unfinished)
    if verb == "status":
        assert out.startswith("finished: 2 of 4 trials done\n")
        assert [row["efficiency"] for row in desk.here(verb, unfinished, "-o", "csv").rows] == ["1.0", "?"]
        assert desk.here(verb, unfinished, "-o", "json").json["finished"] is False
    elif verb == "report":
        assert " ? |" in (desk.folder / "written" / "report.md").read_text()


@pytest.mark.parametrize("verb", [*READING, "report"])
def test_a_folder_that_is_no_bundle(desk: Desk, verb: str):
    (desk.folder / "photos").mkdir()
    assert desk.here(verb, "absent", code=2).err.startswith("scalecurve: absent: no such folder")
    ran = desk.here(verb, "photos", code=2)
    assert ran.err == "scalecurve: photos: not a bundle: neither experiment.yaml nor trials/ found\n"
    assert list((desk.folder / "photos").iterdir()) == []


@pytest.mark.parametrize("verb", ["status", "verify", "report"])
def test_a_small_bundle_needs_little_memory(desk: Desk, bundle: Path, verb: str):
    """As under `ulimit -v`, which counts what is reserved: a limit of a file's size is not its size."""
    limit = 3 << 29
    desk(verb, bundle, code=0, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)))
