"""``scalecurve plan``: order, totals, and where times come from."""

from __future__ import annotations

from pathlib import Path

import pytest

from scalecurve.bundle.open import open_bundle
from scalecurve.planning.plan import DEFAULT_STARTUP_SECONDS

from .conftest import Desk


def test_totals_by_a_step_time(desk: Desk):
    file = desk.write(
        cost={"perWorkerHour": 2.0, "currency": "EUR"}, measure={"repetitions": 3, "windows": 4, "warmupSteps": 6}
    )
    found = desk.here("plan", file, "--step-time", "0.5", "--startup", "10", "-o", "json", code=0).json
    trials, (totals,) = found["trials"]["rows"], found["totals"]["rows"]
    seconds = 10 + 0.5 * (6 + 4 * 10)
    assert [row["seconds"] for row in trials] == [seconds] * 6
    assert [row["order"] for row in trials] == [1, 2, 3, 4, 5, 6]
    assert (totals["trials"], totals["points"]) == (6, 2)
    assert totals["hours"] == pytest.approx(6 * seconds / 3600, rel=1e-4)
    assert totals["worker_hours"] == pytest.approx((3 * 1 + 3 * 2) * seconds / 3600, rel=1e-4)
    assert totals["cost"] == pytest.approx(2 * totals["worker_hours"], rel=1e-4)


def test_help_names_the_default(desk: Desk):
    assert f"[default: ({DEFAULT_STARTUP_SECONDS:g})" in desk.here("plan", "--help", code=0).out


def test_without_times_totals_are_open_and_say_what_to_do(desk: Desk):
    file = desk.write()
    ran = desk("plan", file, code=0)
    assert "2 of 2 trials have no time estimate: use --step-time, or an earlier bundle with --from" in ran.out
    assert "no price: set spec.cost.perWorkerHour" in ran.out
    assert ran.out == desk.here("plan", file, code=0).out
    rows = desk.here("plan", file, "-o", "csv", code=0)
    assert [row["seconds"] for row in rows.rows] == ["?", "?"]
    assert "--output json also has: totals" in rows.err
    assert desk.here("plan", file, "-o", "md", code=0).out.count("\n| ---") == 2


def test_times_come_from_an_earlier_bundle(desk: Desk, bundle: Path):
    file = bundle / "experiment.yaml"
    ran = desk.here("plan", file, "--from", bundle, "-o", "json", code=0)
    ran_ns = [[entry.at_ns for entry in trial.record.timeline] for trial in open_bundle(bundle).trials if trial.record]
    took = [(max(times) - min(times)) / 1e9 for times in ran_ns]
    planned = [row["seconds"] for row in ran.json["trials"]["rows"]]
    assert len(planned) == 4
    assert min(took) * 0.999 <= min(planned) <= max(planned) <= max(took) * 1.001, "what they took"
    (note, *_) = ran.json["totals"]["notes"]
    assert note == "4 of 4 trials use times from finished (same point and workload)"


def test_what_is_no_experiment_or_no_bundle_is_refused(desk: Desk, bundle: Path):
    file = desk.write()
    assert "no such folder" in desk.here("plan", file, "--from", "absent", code=2).err
    (desk.folder / "empty").mkdir()
    assert "not a bundle" in desk.here("plan", file, "--from", "empty", code=2).err
    desk.here("plan", "absent.yaml", code=2)
    (desk.folder / "two.yaml").write_text(
        file.read_text() + "---\n" + file.read_text().replace("name: desk", "name: other")
    )
    assert "two.yaml: holds 2 experiments; expected one" in desk.here("plan", "two.yaml", code=2).err


def test_a_very_long_matrix(desk: Desk):
    """10,000 trials are planned; one more, or a product that nobody could expand, is refused."""
    largest = desk.write("largest.yaml", matrix={"env.A": list(range(100)), "env.B": list(range(50))})
    assert len(desk.here("plan", largest, "-o", "csv", code=0).rows) == 10_000
    beyond = desk.write("beyond.yaml", matrix={f"env.V{axis}": list(range(1000)) for axis in range(16)})
    assert "at most 10000 trials" in desk.here("plan", beyond, code=2).err
    assert "at most 10000 trials" in desk.here("run", beyond, code=2).err
    assert not (desk.folder / "results").exists()


def test_repetitions_that_decide_a_difference_on_published_repetitions_and_those_of_a_bundle(desk: Desk):
    words = ("--difference", "2", "--difference", "0.5")
    rows = desk.here("plan", desk.write(), *words, "-o", "json", code=0).json["decisive"]["rows"]
    assert len(rows) == 2
    for row in rows:
        assert row["decides_0.5"] >= row["decides_2"] >= 2
    assert "decisive" not in desk.here("plan", desk.write(), "-o", "json", code=0).json
