"""The operator's own Prometheus metrics; names as in docs/design.md, section 8."""

from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest

from scalecurve_api.spec.trial import FailedReason, InvalidReason, TrialPhase

REGISTRY = CollectorRegistry()
ProcessCollector(registry=REGISTRY)

TRIALS = Gauge("scalecurve_trials", "Trials of unfinished experiments by phase", ["phase"], registry=REGISTRY)
EXPERIMENTS = Gauge("scalecurve_experiments", "Experiments by phase", ["phase"], registry=REGISTRY)
RECONCILE = Histogram(
    "scalecurve_reconcile_seconds",
    "Duration of one reconcile of one experiment",
    buckets=(0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30),
    registry=REGISTRY,
)
TRIAL_START = Histogram(
    "scalecurve_trial_start_seconds",
    "From claiming an attempt to all of its pods running",
    buckets=(0.3, 1, 3, 10, 30, 60, 120, 300, 600, 1800),
    registry=REGISTRY,
)
TRIALS_ENDED = Counter(
    "scalecurve_trials_ended", "Attempts that ended, by phase and reason", ["phase", "reason"], registry=REGISTRY
)
# Exported from the start: to Prometheus, an increase from nothing to 1 is no increase.
TRIALS_ENDED.labels(TrialPhase.succeeded.value, "")
TRIALS_ENDED.labels(TrialPhase.full.value, FailedReason.out_of_memory.value)
for _phase, _reasons in ((TrialPhase.failed, FailedReason), (TrialPhase.invalid, InvalidReason)):
    for _reason in _reasons:
        TRIALS_ENDED.labels(_phase.value, _reason.value)
REQUESTS = Counter(
    "scalecurve_api_requests",
    "Requests to the API server by method and answer",
    ["method", "answer"],
    registry=REGISTRY,
)
RECONCILE_ERRORS = Counter("scalecurve_reconcile_errors", "Reconciles that failed and were retried", registry=REGISTRY)
LEADING = Gauge("scalecurve_operator_leading", "1 while this operator holds its lease", registry=REGISTRY)


def count_request(method: str, answer: str) -> None:
    """Count a request to the API server by its answer: a status, or ``lost``."""
    REQUESTS.labels(method, answer).inc()


def set_phase_gauges(trials: Mapping[str, int], experiments: Mapping[str, int]) -> None:
    """Set the gauges that count by phase; an empty phase goes to 0."""
    for gauge, counts in ((TRIALS, trials), (EXPERIMENTS, experiments)):
        for metric in gauge.collect():
            for sample in metric.samples:
                gauge.labels(**sample.labels).set(0)
        for phase, count in counts.items():
            gauge.labels(phase).set(count)


def exposition() -> bytes:
    """Everything in Prometheus' text format."""
    return generate_latest(REGISTRY)
