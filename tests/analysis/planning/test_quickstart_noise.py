from __future__ import annotations

from pathlib import Path

from scalecurve.bundle.open import open_bundle
from scalecurve.planning.quickstart_noise import after, before
from scalecurve_api.record.trial_record import TrialRecord
from scalecurve_api.spec.trial import TrialPhase
from tests.analysis.synthetic import Truth, experiment, write_bundle

RESUME = "scalecurve quickstart --into results --resume"


def records(folder: Path, **changes: object) -> list[TrialRecord]:
    write_bundle(folder, experiment(), Truth(), tables=False, change=lambda record: record.model_copy(update=changes))
    return [trial.record for trial in open_bundle(folder).trials if trial.record is not None]


def test_an_idle_machine_is_not_mentioned() -> None:
    assert before(0.05, 0.02) == []


def test_neighbors_and_steal_are_named_apart() -> None:
    busy, stolen = before(0.5, 0.2)
    assert busy == "busy: other processes use 50 % of the cores; stop them, or expect noisy numbers"
    assert stolen.startswith("busy: the hypervisor takes 20 % of the cores for other guests; use dedicated cores")


def test_trials_that_all_count_need_no_words(tmp_path: Path) -> None:
    good = records(tmp_path)
    assert after("quickstart", good, len(good), RESUME) == []


def test_what_noise_made_invalid_and_time_left_out(tmp_path: Path) -> None:
    noisy = {"phase": TrialPhase.invalid, "reason": "NoisyNeighbor", "foreign_load": [0.3, 0.58]}
    some = (
        records(tmp_path / "n", **noisy)[:2]
        + records(tmp_path / "s", phase=TrialPhase.invalid, reason="CpuSteal", stolen_load=[0.4])[:1]
    )
    neighbors, steal, late = after("quickstart", some, 12, RESUME)
    assert all(part in neighbors for part in (" 2 of 12 trials ", "(NoisyNeighbor)", " 58 % "))
    assert all(part in steal for part in (" 1 of 12 trials ", "(CpuSteal)", " 40 % "))
    assert late == f"out of time: 3 of 12 trials of quickstart ran; the rest: {RESUME}"
