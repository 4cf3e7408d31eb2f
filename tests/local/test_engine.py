"""The engine with real processes: what ends well, what does not, and why it says so."""

from __future__ import annotations

import pytest

from .conftest import Lab

pytestmark = pytest.mark.processes


def test_runs_every_trial_of_a_plan(lab: Lab) -> None:
    lab.write()
    result = lab.run()
    assert result.exit_code == 0
    assert lab.published() == ["weak-1-1x1-r1", "weak-2-1x2-r1"]
    assert sorted(entry.name for entry in lab.bundle.iterdir()) == ["experiment.yaml", "trials"]
    assert (lab.bundle / "experiment.yaml").read_text() == lab.file.read_text()
    record = lab.record("weak-2-1x2-r1")
    assert record["phase"] == "Succeeded"
    assert record["exitCodes"] == {"0": 0, "1": 0}
    assert [place["cores"] for place in record["topology"]] == [[0], [1]]
