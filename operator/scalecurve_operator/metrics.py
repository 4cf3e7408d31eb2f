"""What the operator tells Prometheus of itself; names as in docs/design.md, section 8."""

from __future__ import annotations

from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest

from scalecurve_api.spec.trial import FailedReason, InvalidReason, TrialPhase

REGISTRY = CollectorRegistry()
ProcessCollector(registry=REGISTRY)

TRIALS = Gauge("scalecurve_trials", "Trials of unfinished experiments by phase", ["phase"], registry=REGISTRY)
EXPERIMENTS = Gauge("scalecurve_experiments", "Experiments by phase", ["phase"], registry=REGISTRY)
RECONCILE = Histogram(
    "scalecurve_reconcile_seconds",
    "One turn over one experiment",
    buckets=(0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30),
    registry=REGISTRY,
)
TRIAL_START = Histogram(
    "scalecurve_trial_start_seconds",
    "From a trial's turn to all its pods running",
    buckets=(0.3, 1, 3, 10, 30, 60, 120, 300, 600, 1800),
    registry=REGISTRY,
)
TRIALS_ENDED = Counter(
    "scalecurve_trials_ended", "Attempts that ended, by phase and reason", ["phase", "reason"], registry=REGISTRY
)
# There from the start: an increase from nothing to 1 is none to Prometheus.
TRIALS_ENDED.labels(TrialPhase.succeeded.value, "")
for _phase, _reasons in ((TrialPhase.failed, FailedReason), (TrialPhase.invalid, InvalidReason)):
    for _reason in _reasons:
        TRIALS_ENDED.labels(_phase.value, _reason.value)
REQUESTS = Counter(
    "scalecurve_api_requests",
    "Requests to the API server by method and answer",
    ["method", "answer"],
    registry=REGISTRY,
)
ERRORS = Counter("scalecurve_reconcile_errors", "Turns that ended with an error and were repeated", registry=REGISTRY)
LEADING = Gauge("scalecurve_operator_leading", "1 while this operator holds its lease", registry=REGISTRY)


def show(trials: Mapping[str, int], experiments: Mapping[str, int]) -> None:
    """Set the gauges that count by phase; a phase that nothing is in any more goes to 0."""
    for gauge, counts in ((TRIALS, trials), (EXPERIMENTS, experiments)):
        for metric in gauge.collect():
            for sample in metric.samples:
                gauge.labels(**sample.labels).set(0)
        for phase, count in counts.items():
            gauge.labels(phase).set(count)


def exposition() -> bytes:
    """All of it in Prometheus' text format."""
    return generate_latest(REGISTRY)
