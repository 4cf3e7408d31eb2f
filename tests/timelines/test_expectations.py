"""Files of expectations, and the shipped ones: they are what our own bundles hold."""

from pathlib import Path

import pytest
import yaml

from scalecurve.bundle.open import open_bundle
from scalecurve.hardware.entries import EntryError
from scalecurve_timelines.expectations import expectations_of, shipped, written_expectations
from scalecurve_timelines.gate import CheckOutcome, gate
from tools import ROOT

GOOD = {
    "device": "NVIDIA H200",
    "model": "resnet50",
    "throughput": {1: 4600, 2: 9200},
    "tolerance": 0.03,
    "date": "2026-11-23",
    "source": "a test",
}


def refusal(folder: Path, **change: object) -> str:
    file = folder / "expected.yaml"
    file.write_text(yaml.safe_dump({"entry": {**GOOD, **change}}))
    with pytest.raises(EntryError) as error:
        expectations_of([str(file)])
    return str(error.value).removeprefix(f"{file}: entry: ")


def test_bad_files_name_entry_field_and_value(tmp_path: Path):
    assert refusal(tmp_path, tolerance=1.5).startswith("tolerance")
    assert refusal(tmp_path, throughput={}).startswith("throughput: ")
    assert refusal(tmp_path, throughput={0: 5}).startswith("throughput.0")
    assert "missing for 2 workers" in refusal(tmp_path, tolerance={1: 0.1})
    assert "day such as" in refusal(tmp_path, date=20261123)
    assert "speed" in refusal(tmp_path, speed=1)
    with pytest.raises(EntryError, match="cannot be read"):
        expectations_of([str(tmp_path / "none.yaml")])


def test_shipped_numbers_are_those_of_the_bundles_that_they_name():
    for entry in shipped().values():
        file = ROOT / entry.source
        bundle = open_bundle(file)
        stated = entry.tolerance if isinstance(entry.tolerance, float) else None
        written = yaml.safe_load(written_expectations(bundle, entry.source, stated))
        same = [
            of
            for of in written.values()
            if of["mode"] == entry.mode and entry.throughput.items() <= of["throughput"].items()
        ]
        assert len(same) == 1, entry.key
        assert (same[0]["date"], same[0]["device"], same[0]["fabric"]) == (entry.date, entry.device, entry.fabric)
        assert same[0]["tolerance"] == entry.tolerance


def test_our_bundles_pass_what_is_shipped():
    expected = list(shipped().values())
    for name in ("sessions", "resnet50", "horovod"):
        result = gate(open_bundle(ROOT / f"docs/evidence/h200/{name}.zip"), expectations=expected)
        assert {check.outcome for check in result.checks if check.kind == "expectation"} == {CheckOutcome.PASSED}, name
