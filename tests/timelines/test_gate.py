"""The gate: what fails, what is undecided, what passes, and why; for people, pull requests and CI servers."""

import shutil
from dataclasses import replace
from pathlib import Path
from types import FunctionType
from xml.etree import ElementTree

import pytest
import yaml
from click.testing import CliRunner

from scalecurve.bundle.open import Bundle, open_bundle
from scalecurve.cli import cli
from scalecurve_api.record.trial_record import TrialRecord
from scalecurve_api.registry import Registry
from scalecurve_timelines import expectations
from scalecurve_timelines.expectations import Expectation, written_expectations
from scalecurve_timelines.foresight import foreseen
from scalecurve_timelines.gate import CheckOutcome, Gate, gate
from scalecurve_timelines.verdicts import comment, gate_table, junit
from tests.analysis.curves.test_largest_batch import ladder
from tests.timelines.past import WEEK_NS, moved, write_past

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


def nights(folder: Path, lost: float) -> tuple[Bundle, Bundle, Bundle]:
    """A night; the next, which loses so much at two workers; and a third like the first."""
    paths = write_past(
        folder,
        3,
        factor=lambda session, workers: 1 - lost if session == 1 and workers == 2 else 1.0,
        session_sd=0.0,
        repetitions=3,
    )
    first, second, third = map(open_bundle, paths)
    return first, second, third


def grown(bundle: Bundle, other: Bundle, later_ns: int) -> Bundle:
    """The bundle with the trials of another as its second session, moved in time."""
    further = [replace(t, record=in_session(moved(t.record, later_ns, "node-0", {}), 1)) for t in other.trials]
    return replace(bundle, trials=(*bundle.trials, *further))


def in_session(record: TrialRecord, session: int) -> TrialRecord:
    return record.model_copy(update={"trial": record.trial.model_copy(update={"session": session})})


def test_a_small_loss_in_one_session_fails_once_and_again_in_a_fresh_one(tmp_path: Path):
    before, slower, fine = nights(tmp_path, 0.06)
    once = gate(slower, baseline=before)
    assert outcomes(once) == {
        ("baseline", 2): CheckOutcome.UNCONFIRMED,
        ("baseline", 1): CheckOutcome.PASSED,
        ("trials", None): CheckOutcome.PASSED,
        ("integrity", None): CheckOutcome.PASSED,
    }
    assert not once.failed
    assert once.verdict == "failed once: 0 of 4 checks failed, 1 failed once"
    folder = tmp_path / "nightly-001"
    assert once.fresh_session == f"scalecurve run {folder}/experiment.yaml --bundle {folder} --add-session"
    named = "prior for sessions of one machine: 0.9 %, 4 degrees of freedom"
    assert once.decided_by == [named]
    assert once.false_alarms == 0.025
    for text, alarms in ((gate_table(once).text(), "2.5 %"), (comment(once), "2.5 %"), (junit(once), "0.025")):
        assert all(part in text for part in (named, "--add-session", alarms))
    assert comment(once).startswith("### ⚠️")
    twice = gate(grown(slower, slower, WEEK_NS), baseline=before)
    assert outcomes(twice)["baseline", 2] is CheckOutcome.FAILED
    cleared = gate(grown(slower, fine, 0), baseline=before)
    assert outcomes(cleared)["baseline", 2] in (CheckOutcome.PASSED, CheckOutcome.UNCONFIRMED)


def test_a_loss_far_beyond_the_prior_fails_at_once(tmp_path: Path):
    before, slower, _ = nights(tmp_path, 0.468)
    result = gate(slower, baseline=before)
    assert outcomes(result)["baseline", 2] is CheckOutcome.FAILED
    assert result.checks[0].ratio.covers(0.532)


def test_a_stated_spread_decides_at_once(tmp_path: Path):
    before, slower, _ = nights(tmp_path, 0.06)
    result = gate(slower, baseline=before, session_sd=0.005)
    assert outcomes(result)["baseline", 2] is CheckOutcome.FAILED
    assert result.decided_by == ["spread between sessions as stated: 0.5 %"]
    wide = gate(slower, history=[tmp_path / "nightly-000"], session_sd=0.05)
    assert outcomes(wide)["history", 2] is CheckOutcome.PASSED


def test_the_smallest_regression_is_known_before_the_run(past: Path):
    rows = foreseen(open_bundle(past / "nightly-010"), [past]).plain()["rows"]
    assert [(row["against"], row["workers"]) for row in rows] == [
        ("baseline", 1),
        ("baseline", 2),
        ("history of nightly", 1),
        ("history of nightly", 2),
    ]
    by_prior, by_history = rows[0], rows[2]
    assert by_prior["decided_by"].startswith("prior for sessions of one machine: 0.9 %")
    assert 0.04 < by_prior["smallest"] < 0.07 < by_prior["at_once"] < 0.2
    assert by_history["decided_by"].startswith("spread between sessions: 0.2")
    assert 0.01 <= by_history["smallest"] == by_history["at_once"] < 0.03


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
    assert {each.get("name"): each.get("value") for each in suite[0]}["false alarms"] == "0.025"
    assert suite[1].get("name") == "history: weak at 2 workers"
    assert "slower" in suite[1][0].get("message", "")
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


def test_one_session_is_expected_with_the_spread_of_the_prior(past: Path):
    """What a gate by the prior would let pass: a prediction of one further session."""
    bundle = open_bundle(past / "nightly-011")
    (entry,) = yaml.safe_load(written_expectations(bundle, "results/nightly-011")).values()
    assert entry["tolerance"] == pytest.approx({1: 0.035, 2: 0.035}, abs=0.001)
    assert entry["note"].endswith("by prior for sessions of one machine: 0.9 %, 4 degrees of freedom")
    (entry,) = yaml.safe_load(written_expectations(bundle, "results/nightly-011", session_sd=0.005)).values()
    assert entry["tolerance"] == pytest.approx({1: 0.017, 2: 0.017}, abs=0.001)
    alone = replace(bundle, trials=tuple(t for t in bundle.trials if t.name.endswith("r1")))
    with pytest.raises(ValueError, match="one repetition does not show"):
        written_expectations(alone, "results/nightly-011")


def test_the_end_of_a_ladder_is_no_failure(tmp_path: Path):
    bundle = ladder(tmp_path)
    (trials,) = (check for check in gate(bundle, baseline=bundle).checks if check.kind == "trials")
    assert (trials.outcome, trials.detail) == (CheckOutcome.PASSED, "7 trials, 2 ended a ladder of batches")


def test_a_kind_of_expectation_that_no_package_adds_is_unknown(past: Path, monkeypatch: pytest.MonkeyPatch):
    none: Registry[FunctionType] = Registry("scalecurve.no_expectations", "kind of expectation", FunctionType, {})
    monkeypatch.setattr(expectations, "EXPECTATIONS", none)
    gated = CliRunner().invoke(cli, ["gate", str(past / "nightly-000"), "--expect", "elsewhere:p25"])
    assert (gated.exit_code, gated.stderr) == (
        2,
        "scalecurve: --expect elsewhere:p25: unknown kind of expectation 'elsewhere' (registered: )\n",
    )
