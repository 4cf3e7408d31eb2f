"""Progress from the statuses that the operator writes."""

from typing import Any

from scalecurve.cluster.experiments import BegunTrial, Watched
from scalecurve.cluster.status import bundle_of
from scalecurve.curves.progress import status
from scalecurve_api.planning.plan import make_plan
from tests.analysis.synthetic import experiment

OF = experiment(
    "mine", modes=["weak"], workers=[1, 2], repetitions=1, workload={"program": "custom", "command": ["python"]}
)


def begun(unproved: list[str]) -> list[BegunTrial]:
    """Trials that succeeded; ``unproved`` is of the one with two workers."""
    trials = []
    for spec in make_plan(OF).trials:
        rate = 100.0 * spec.point.workers
        summary = {"samples": 6400 * spec.point.workers, "wallS": 64.0, "throughput": rate}
        told: dict[str, Any] = {"phase": "Succeeded", "summary": summary}
        if unproved and spec.point.workers > 1:
            told["unproved"] = unproved
        trials.append(BegunTrial(f"mine-{spec.name}", spec.wire(), told))
    return trials


def test_what_the_operator_saw_unproved_is_in_the_headline() -> None:
    watched = Watched(OF, "ns", {"phase": "Succeeded"})
    shown = status(bundle_of(watched, begun(["NoCommunication"])))
    assert shown.headline.endswith("unproved: 1 of 2 points: no communication was observed at 2 workers")
    assert status(bundle_of(watched, begun([]))).warnings == ()
