"""A further session of a finished bundle: everything once more, and no earlier record touched."""

from __future__ import annotations

import json
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from scalecurve.bundle.open import open_bundle
from scalecurve.curves.progress import status
from scalecurve_api.planning.precision import LEAST
from scalecurve_api.record.ledger_file import LedgerFile
from scalecurve_api.record.trial_record import stored_digest
from scalecurve_local import RunRequest, StopRequest, prepare, session
from scalecurve_local.errors import InputError

from .conftest import Lab

pytestmark = pytest.mark.processes


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_a_session_is_added_and_the_first_stays_as_it_was(lab: Lab) -> None:
    lab.write()
    assert lab.run().exit_code == 0
    first = contents(lab.bundle)
    told = first.pop("ledger.jsonl")
    result = lab.run(add_session=True)
    assert result.exit_code == 0
    assert lab.published() == ["weak-1-1x1-r1", "weak-1-1x1-s2-r2", "weak-2-1x2-r1", "weak-2-1x2-s2-r2"]
    assert {name: data for name, data in contents(lab.bundle).items() if name in first} == first
    assert contents(lab.bundle)["ledger.jsonl"].startswith(told)
    assert lab.record("weak-2-1x2-s2-r2")["trial"]["session"] == 1
    bundle = open_bundle(lab.bundle)
    assert not bundle.problems
    assert {(trial.spec.session, trial.spec.repetition) for trial in bundle.trials if trial.good} == {(0, 0), (1, 1)}
    assert lab.run(add_session=True).status.counts["Succeeded"] == 6


def test_an_interrupted_session_is_resumed_and_no_other_is_added_before(lab: Lab) -> None:
    lab.write()
    lab.run()
    record = lab.bundle / "trials" / "weak-1-1x1-r1"
    record.rename(lab.folder / "away")
    with pytest.raises(InputError, match=r"cannot add a session: weak-1-1x1-r1 of 2 trials not finished; .*--resume"):
        lab.run(add_session=True)
    (lab.folder / "away").rename(record)
    (lab.bundle / ".work" / "weak-2-1x2-s2-r2" / "attempt-1").mkdir(parents=True)
    assert lab.run(resume=True).exit_code == 0
    assert len(lab.published()) == 4


def test_records_of_an_older_version_lack_what_came_since(lab: Lab) -> None:
    lab.write()
    lab.run()
    path = lab.bundle / "trials" / "weak-1-1x1-r1" / "trial.json"
    tree = json.loads(path.read_text())
    del tree["trial"]["session"], tree["leftOut"]
    path.write_text(json.dumps({**tree, "digest": stored_digest(tree)}))
    (lab.bundle / "ledger.jsonl").unlink()
    assert lab.run(add_session=True).exit_code == 0
    assert not open_bundle(lab.bundle).problems


def test_a_session_needs_a_bundle_of_the_same_experiment(lab: Lab) -> None:
    lab.write()
    with pytest.raises(InputError, match=r"no bundle to add a session to: experiment.yaml is missing"):
        lab.run(add_session=True)
    lab.run()
    lab.write(measure={"warmupSteps": 3, "windows": 3, "stepsPerWindow": 10, "repetitions": 1})
    with pytest.raises(InputError, match=r"another experiment: spec.measure.windows is 2 there and 3 here"):
        lab.run(add_session=True)


def test_a_session_of_which_nothing_is_left_but_the_ledger_is_resumed(lab: Lab) -> None:
    lab.write()
    lab.run()
    ledger = LedgerFile(lab.bundle)
    ledger.session(2)
    ledger.started("weak-1-1x1-s2-r2", 1)  # killed before its folder was made
    assert len(open_bundle(lab.bundle).trials) == 4, "planned, and not ended"
    result = lab.run(resume=True)
    assert (result.exit_code, result.sessions, result.begun) == (0, 2, True)
    assert lab.record("weak-1-1x1-s2-r2")["attempt"] == 2
    assert len(lab.published()) == 4


def test_a_session_killed_at_any_moment_is_resumed_and_leaves_the_first_as_it_was(lab: Lab) -> None:
    lab.write(step_ms=5)
    lab.run()
    first = contents(lab.bundle / "trials")
    for further, how in ((3, "add-session"), (4, "resume")):
        engine = lab.begin_and_reach(further, how)
        engine.kill()
        engine.communicate()
    code, records, _ = lab.drive("resume")
    assert code == 0
    assert set(records) == {"weak-1-1x1-r1", "weak-2-1x2-r1", "weak-1-1x1-s2-r2", "weak-2-1x2-s2-r2"}
    assert {name: data for name, data in contents(lab.bundle / "trials").items() if name in first} == first


def test_stopped_while_it_waits_a_session_is_not_begun(lab: Lab) -> None:
    lab.write()
    lab.run()
    stop = StopRequest()
    stop(signal.SIGINT, None)
    result = lab.run(add_session=True, stop=stop)
    assert (result.exit_code, result.sessions, result.begun) == (130, 1, False)
    assert lab.run(add_session=True).begun


def test_a_further_session_continues_on_a_copy_elsewhere(lab: Lab, new_lab: Callable[[Path], Lab]) -> None:
    lab.write()
    lab.run()
    there = new_lab(lab.folder / "other-machine")
    shutil.copytree(lab.bundle, there.bundle)
    there.experiment, there.file = lab.experiment, lab.file
    assert there.run(add_session=True).sessions == 2
    assert not [claim for claim in open_bundle(there.bundle).claims if claim.holds is False]


def test_the_baseline_moves_to_another_device_in_the_next_repetition(lab: Lab) -> None:
    lab.write(measure={"warmupSteps": 3, "windows": 2, "stepsPerWindow": 10, "repetitions": 2})
    lab.run()
    used = [lab.record(f"weak-1-1x1-r{number}")["topology"][0]["device"] for number in (1, 2)]
    assert len(set(used)) == 2, used


def test_repetitions_end_when_the_efficiency_is_known(lab: Lab) -> None:
    lab.write(
        step_ms=20,
        measure={"warmupSteps": 1, "windows": 1, "stepsPerWindow": 10, "repetitions": 2}
        | {"precision": {"efficiency": 0.3, "maxRepetitions": 20}},
    )
    result = lab.run()
    assert result.exit_code == 0
    # Where other work takes the cores away, more repetitions are needed than on idle ones.
    needed = len(lab.published())
    assert 2 * LEAST <= needed < 2 * 20
    assert result.status.total == needed, "what is not needed is not missing"
    bundle = open_bundle(lab.bundle)
    assert len(bundle.trials) == needed
    assert status(bundle).finished
    assert lab.run(resume=True).status.total == needed
    further = lab.run(add_session=True)
    assert further.exit_code == 0
    assert any("-s2-r" in name for name in lab.published())
    assert status(open_bundle(lab.bundle)).finished


def test_no_name_in_a_bundle_makes_a_run_of_thousands_of_sessions(lab: Lab) -> None:
    lab.write()
    lab.run()
    for name in ("weak-1-1x1-s9999-r9999", "elsewhere-s2-r2"):
        (lab.bundle / ".work" / name).mkdir(parents=True)
    assert lab.run(resume=True).sessions == 1
    assert len(lab.published()) == 2
    assert len(open_bundle(lab.bundle).trials) == 2


def test_a_session_that_another_run_added_meanwhile_is_not_taken_for_its_own(lab: Lab) -> None:
    lab.write()
    lab.run()
    waits = prepare(RunRequest(lab.experiment, lab.file.read_text(), lab.bundle), add_session=True)
    lab.run(add_session=True)
    with pytest.raises(InputError, match="another run added session 2 meanwhile"):
        session._run([waits], {})
    assert len(lab.published()) == 4
