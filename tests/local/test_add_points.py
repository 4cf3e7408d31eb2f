"""Points added to a finished bundle: only they run, the rest stays as it was, and readers are told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from scalecurve.bundle.open import open_bundle
from scalecurve.checks.verify import verify
from scalecurve_api.record.ledger_file import LedgerFile
from scalecurve_local.errors import InputError

from .conftest import Lab

pytestmark = pytest.mark.processes
QUIET = {"warmupSteps": 3, "windows": 2, "stepsPerWindow": 10, "repetitions": 1, "maxForeignLoad": 1.0}


def scaling(*workers: int) -> dict[str, Any]:
    counts = {"modes": ["weak"], "workers": list(workers), "batch": {"perWorker": 4}}
    return {"scaling": counts, "measure": QUIET, "resources": {"limits": {"cpu": 1}}}


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_one_worker_count_is_run_and_grows(lab: Lab) -> None:
    lab.write(**scaling(1))
    assert lab.run().exit_code == 0
    first = contents(lab.bundle / "trials")
    lab.write(**scaling(1, 2))
    assert lab.run(add_points=True).exit_code == 0
    assert lab.published() == ["weak-1-1x1-r1", "weak-2-1x2-r1"]
    assert {name: data for name, data in contents(lab.bundle / "trials").items() if name in first} == first
    bundle = open_bundle(lab.bundle)
    assert not bundle.problems
    assert [trial.phase for trial in bundle.trials if trial.good] == ["Succeeded"] * 2
    claims = {claim.what: claim for claim in verify(bundle).claims}
    assert claims["experiment"].holds, claims["experiment"].detail
    assert "; points were added 20" in claims["experiment"].detail
    assert verify(bundle).holds
    (warning,) = (line for line in bundle.warnings if "time of the run" in line)
    differs = "comparability: time of the run differs between the points of weak: first run at 1; added 20"
    assert warning.startswith(differs)
    lab.write(**scaling(4, 1, 2))
    assert len(lab.run(add_points=True, oversubscribe=True).records) == 3
    assert verify(open_bundle(lab.bundle)).holds, "also when points were added twice"


def test_what_differs_is_named_and_nothing_is_written(lab: Lab) -> None:
    lab.write(**scaling(1))
    with pytest.raises(InputError, match=r"no bundle to add points to: experiment\.yaml is missing"):
        lab.run(add_points=True)
    lab.run()
    before = contents(lab.bundle)
    with pytest.raises(InputError, match=r"has every point already \(1 worker\); add some to spec.scaling.workers"):
        lab.run(add_points=True)
    lab.write(**scaling(2))
    with pytest.raises(InputError, match="cannot add points: the bundle has 1, which is missing here"):
        lab.run(add_points=True)
    lab.write(**scaling(1, 2), workload={"env": {"A": "b"}})
    with pytest.raises(InputError, match=r"bundle is of another experiment: spec.workload.env.A is None there and 'b'"):
        lab.run(add_points=True)
    assert contents(lab.bundle) == before


def test_several_sessions_take_no_points(lab: Lab) -> None:
    lab.write(**scaling(1))
    lab.run()
    lab.run(add_session=True)
    lab.write(**scaling(1, 2))
    with pytest.raises(InputError, match="has 2 sessions, and points are added to a bundle of one: run the new worker"):
        lab.run(add_points=True)


def test_a_kill_between_ledger_and_file_is_made_good(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    before = lab.write(**scaling(1))
    lab.run()
    after = lab.write(**scaling(1, 2))
    ledger = LedgerFile(lab.bundle)
    ledger.points(lab.file.read_bytes(), [], before.spec.scaling.workers, before.spec.placement.layouts)
    assert after.spec.scaling.workers == [1, 2]
    assert lab.run(add_points=True).exit_code == 0
    assert lab.published() == ["weak-1-1x1-r1", "weak-2-1x2-r1"]


def test_a_price_changed_beside_added_points_is_noticed(lab: Lab) -> None:
    lab.write(**scaling(1))
    lab.run()
    lab.write(**scaling(1, 2))
    lab.run(add_points=True)
    path = lab.bundle / "experiment.yaml"
    path.write_text(path.read_text().replace("stepsPerWindow: 10", "stepsPerWindow: 11"))
    claims = {claim.what: claim.holds for claim in open_bundle(lab.bundle).claims}
    assert claims["experiment"] is False


def test_workers_keep_their_cores(lab: Lab) -> None:
    """Without a limit one worker gets every core, and each of two a half."""
    lab.write(**{**scaling(1), "resources": {}})
    cores = len(lab.run().records["weak-1-1x1-r1"].topology[0].cores)
    lab.write(**{**scaling(1, 2), "resources": {}})
    with pytest.raises(InputError, match=f"each worker had {cores} cores?, and would have {cores // 2} with 2 workers"):
        lab.run(add_points=True)
    assert "[1]" in str(open_bundle(lab.bundle).experiment.spec.scaling.workers)  # type: ignore[union-attr]  # it is there
