from scalebench_api.lifecycle import ExperimentPhase, Status
from scalebench_api.trial import TrialPhase
from scalebench_operator import statuses


def progress(before: dict[str, object], began: float | None) -> dict[str, object]:
    status = Status(ExperimentPhase.running, 1, {TrialPhase.running: 1}, "", (TrialPhase.running,))
    return statuses.experiment(before, 1, status, [], [], None, [], now=1_000_000_100.0, began=began)


def test_an_experiment_started_when_its_first_trial_did() -> None:
    assert progress({}, None)["startedAt"] == statuses.timestamp(1_000_000_100)
    assert progress({}, 1_000_000_000.0)["startedAt"] == statuses.timestamp(1_000_000_000)
    assert progress({"startedAt": "then"}, 1_000_000_000.0)["startedAt"] == "then"
