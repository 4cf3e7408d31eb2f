"""The gate: what fails, what is undecided, what passes, and why; for people, pull requests and CI servers."""

import shutil
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from scalecurve.bundle.open import open_bundle
from scalecurve.timelines.expectations import Expectation, written_expectations
from scalecurve.timelines.gate import CheckOutcome, Gate, gate
from scalecurve.timelines.verdicts import comment, gate_table, junit
from tests.analysis.timelines.past import write_past

CHANGED, LAST = 5, 12


@pytest.fixture(scope="module")
def past(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eleven good sessions at a level 10 % above the first five; then one that is 5 % slower at two workers."""
    folder = tmp_path_factory.mktemp("past")

    def factor(session: int, workers: int) -> float:
        level = 1.0 if session < CHANGED else 1.1
        return level * (0.95 if session == LAST and workers == 2 else 1.0)

    write_past(folder, LAST + 1, factor=factor, session_sd=0.002)
    return folder


def outcomes(result: Gate) -> dict[tuple[str, int | None], CheckOutcome]:
    return {(check.kind, check.workers): check.outcome for check in result.checks}


def test_a_slower_session_fails_against_its_own_history(past: Path):
    result = gate(open_bundle(past / f"nightly-{LAST:03}"), history=[past])
    assert outcomes(result) == {
        ("history", 2): CheckOutcome.FAILED,
        ("history", 1): CheckOutcome.PASSED,
        ("trials", None): CheckOutcome.PASSED,
        ("integrity", None): CheckOutcome.PASSED,
    }
    assert result.checks[0].ratio.value == pytest.approx(0.95, rel=0.01)
    assert "7 sessions since" in result.checks[0].detail
    assert result.verdict == "failed: 1 of 4 checks failed"


def test_a_session_is_not_compared_with_itself_and_a_good_one_passes(past: Path, tmp_path: Path):
    alone = tmp_path / "alone"
    shutil.copytree(past / "nightly-011", alone / "copy")
    result = gate(open_bundle(past / "nightly-011"), history=[alone])
    assert outcomes(result)["history", 1] is CheckOutcome.UNDECIDED
    assert not result.decided
    assert not result.failed
    good = gate(open_bundle(past / "nightly-011"), history=[past])
    assert {check.outcome for check in good.checks} == {CheckOutcome.PASSED}


def test_one_session_against_one_is_undecided(past: Path):
    result = gate(open_bundle(past / f"nightly-{LAST:03}"), baseline=open_bundle(past / "nightly-010"))
    assert outcomes(result)["baseline", 2] is CheckOutcome.UNDECIDED
    assert not result.decided
    assert result.verdict == "undecided: 0 of 4 checks failed, 2 undecided"


def test_expectations_fail_below_their_tolerance(past: Path):
    bundle = open_bundle(past / f"nightly-{LAST:03}")
    expected = Expectation(
        key="synthetic-node",
        title="",
        source="a test",
        device="Synthetic",
        model=bundle.trials[0].spec.workload.model,
        mode="weak",
        throughput={1: 704, 2: 1408},
        tolerance=0.02,
        date="2026-09-21",
    )
    result = gate(bundle, expectations=[expected])
    assert outcomes(result)["expectation", 2] is CheckOutcome.FAILED
    assert outcomes(result)["expectation", 1] is CheckOutcome.PASSED
    assert "2.0 % below is allowed; 2026-09-21, a test" in result.checks[0].detail
    for change in ({"device": "NVIDIA H200"}, {"model": "vgg16"}, {"mode": "strong"}, {"batch": 7}, {"nodes": 2}):
        other = gate(bundle, expectations=[expected.model_copy(update=change)])
        assert outcomes(other)["expectation", 1] is CheckOutcome.UNDECIDED, change


def test_a_lost_or_failed_trial_fails(past: Path, tmp_path: Path):
    copied = Path(shutil.copytree(past / "nightly-011", tmp_path / "copied"))
    shutil.rmtree(open_bundle(copied).trials[0].folder)
    result = gate(open_bundle(copied), history=[past])
    assert outcomes(result)["trials", None] is CheckOutcome.FAILED
    assert "1 unfinished" in result.checks[0].detail


def test_nothing_to_hold_it_against_is_bad_input(past: Path):
    with pytest.raises(ValueError, match="nothing to compare the bundle with"):
        gate(open_bundle(past / "nightly-011"))


def test_a_comment_begins_with_what_failed_and_holds_no_markup_of_others(past: Path):
    result = gate(open_bundle(past / f"nightly-{LAST:03}"), history=[past])
    text = comment(replace(result, label="<img src=x> | `x`"))
    assert text.startswith("### ❌ scalecurve gate: &lt;img src=x&gt; \\| \\`x\\` failed: 1 of 4 checks failed")
    assert text.index("| failed | history | weak at 2 workers |") < text.index("<details><summary>3 checks passed")
    many = replace(result, checks=result.checks[:1] * 5000)
    assert len(comment(many)) < 65_536
    assert "4900 more checks" in comment(many)


def test_junit_is_what_ci_servers_read(past: Path):
    result = gate(open_bundle(past / f"nightly-{LAST:03}"), history=[past])
    undecided = replace(result.checks[1], outcome=CheckOutcome.UNDECIDED, detail="bad \x00 \x1b & <text>")
    root = ElementTree.fromstring(junit(replace(result, checks=(*result.checks, undecided))))
    (suite,) = root
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("5", "1", "1")
    assert suite[0].get("name") == "history: weak at 2 workers"
    assert "slower" in suite[0][0].get("message", "")
    assert suite[-1][0].tag == "skipped"


def test_the_table_has_a_row_for_each_check(past: Path):
    result = gate(open_bundle(past / "nightly-011"), history=[past])
    table = gate_table(result)
    assert table.title == "Gate of nightly: passed: 0 of 4 checks failed"
    assert len(table.rows) == 4


def test_what_a_bundle_reached_can_be_expected_of_the_next(past: Path):
    text = written_expectations(open_bundle(past / "nightly-011"), "results/nightly-011", 0.03)
    assert "device: synthetic" in text
    assert "tolerance: 0.03" in text
    with pytest.raises(ValueError, match="one session does not show how much sessions differ"):
        written_expectations(open_bundle(past / "nightly-011"), "results/nightly-011")
