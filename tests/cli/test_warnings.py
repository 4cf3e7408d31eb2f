"""What a reader must know before any number stands in front of every verb that shows one, and in its JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scalecurve_api.record.rank import DeviceSamples
from scalecurve_api.record.trial_record import TrialRecord
from tests.analysis.synthetic import Truth, experiment, write_bundle

from .conftest import Desk

OTHER = ("device clock differs", "machines differs", "version of torch differs")
READING = (
    *(("status",), ("cost", "--per-worker-hour", "1"), ("compare",), ("diagnose",), ("training",), ("allreduce",)),
    *(("fit",), ("recommend",), ("predict",), ("verify",)),
)


@pytest.fixture(scope="module")
def uneven(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its baseline ran on another host, with another torch and at other clocks."""

    def elsewhere(record: TrialRecord) -> TrialRecord:
        baseline = record.trial.point.workers == 1
        host, torch, clock = ("old", "2.1.0", 1000.0) if baseline else ("new", "2.14.1", 1900.0)
        topology = [rank.model_copy(update={"host": host}) for rank in record.topology]
        clocks = [DeviceSamples(count=9, sm_mhz_mean=clock)] * len(topology)
        options = {"run": record.trial.name}  # differs between repetitions, too
        update = {"topology": topology, "versions": {"torch": torch}, "device_samples": clocks, "options": options}
        return record.model_copy(update=update)

    folder = tmp_path_factory.mktemp("uneven") / "bundle"
    return write_bundle(folder, experiment(modes=["weak"]), Truth(), change=elsewhere)


@pytest.mark.parametrize("words", READING, ids="-".join)
def test_other_machines_and_software_are_told_by_every_verb(desk: Desk, uneven: Path, words: tuple[str, ...]):
    bundles = [uneven, uneven] if words == ("compare",) else [uneven]
    code = 2 if words[0] in ("training", "allreduce") else 0  # nothing to show, and still a warning
    text = desk.here(*words, *bundles, code=code).err
    assert all(f": comparability: {other}" in text for other in OTHER), text
    assert "setting run" not in text
    tree = desk.here(*words, *bundles, "-o", "json", code=code).json
    assert all(any(other in warning for warning in tree["warnings"]) for other in OTHER)
    assert tree["schema"] == f"scalecurve.dev/{words[0]}/v1"


def test_the_report_tells_contradictions_in_its_first_lines(desk: Desk, uneven: Path):
    (uneven.parent / "lied").mkdir()
    lied = write_bundle(uneven.parent / "lied", experiment(modes=["weak"]))
    file = lied / "trials" / "weak-4-1x4-r1" / "trial.json"
    record = TrialRecord.model_validate_json(file.read_bytes())
    windows = [window.model_copy(update={"wall_ns": window.wall_ns * 8 // 10}) for window in record.windows]
    file.write_bytes(record.model_copy(update={"windows": windows}).sealed().stored())
    ran = desk.here("report", lied, "--out", "written", "--format", "json", "--format", "md", code=0)
    told = "consistency: weak-4-1x4-r1: the summary has 25600 samples in "
    assert told in ran.err
    tree = json.loads((desk.folder / "written" / "report.json").read_text())
    assert tree["schema"] == "scalecurve.dev/report/v1"
    assert tree["warnings"][0].startswith(told)
    page = (desk.folder / "written" / "report.md").read_text()
    assert page.index("consistency") < page.index("\n| ")


@pytest.mark.parametrize(
    "words", [("plan",), ("validate",), ("run", "--dry-run"), ("doctor",), ("network", "list")], ids="-".join
)
def test_json_of_verbs_without_a_bundle_names_its_schema_too(desk: Desk, words: tuple[str, ...]):
    files = [] if words[0] in ("doctor", "network") else [desk.write()]
    tree = desk.here(*words, *files, "-o", "json").json
    verb = "-".join(word for word in words if not word.startswith("--"))
    assert (tree["schema"], tree["warnings"]) == (f"scalecurve.dev/{verb}/v1", [])


def test_json_has_every_digit(desk: Desk, uneven: Path):
    rows = desk.here("status", uneven, "-o", "json", code=0).json["status"]["rows"]
    values = [row["throughput"]["value"] for row in rows]
    assert all(len(repr(value).replace(".", "")) > 12 for value in values), values
