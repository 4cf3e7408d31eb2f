from scalecurve_api.lifecycle import ExperimentPhase, Status
from scalecurve_api.record.verdict import Verdict
from scalecurve_api.spec.trial import TrialPhase
from scalecurve_operator.status import render as statuses


def progress(before: dict[str, object], began: float | None) -> dict[str, object]:
    status = Status(ExperimentPhase.running, 1, {TrialPhase.running: 1}, "", (TrialPhase.running,))
    return statuses.experiment(before, 1, status, [], [], None, [], now=1_000_000_100.0, began=began)


def test_an_experiment_started_when_its_first_trial_did() -> None:
    assert progress({}, None)["startedAt"] == statuses.timestamp(1_000_000_100)
    assert progress({}, 1_000_000_000.0)["startedAt"] == statuses.timestamp(1_000_000_000)
    assert progress({"startedAt": "then"}, 1_000_000_000.0)["startedAt"] == "then"


def test_a_trial_without_samples_tells_its_bandwidth() -> None:
    succeeded = Verdict(TrialPhase.succeeded, None, "", ())
    told = {}
    for name, summary in (("both", {"samples": 8, "peakBusbw": 2.0}), ("none", {"samples": 0, "peakBusbw": 12.3456})):
        ended = statuses.ended(
            {}, 1, succeeded, job_uid="j", summary={"throughput": 0.0, **summary}, record=None, nodes=(), ended_at=1.0
        )
        told[name] = ended["throughput"]
    assert told == {"both": "0.0 samples/s", "none": "12.3 GB/s busbw"}
