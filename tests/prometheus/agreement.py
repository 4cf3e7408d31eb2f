"""A trial's throughput as Prometheus has it, beside the record's.

Two ways to ask, which differ in whose clock they trust:

- **by windows**: samples of closed train windows, divided by the time of these windows on their slowest rank. That is
  the record's own quotient, so it agrees with the record however short windows are and however much ranks differ; one
  scrape after the last window is enough, and lingering sees to that.
- **by the clock**: `rate()` over Prometheus' own time within one window. Counters move when a rank writes out finished
  steps, at most 0.4 s behind (`DRAIN_NS`), so each end of the range is off by up to that and a scrape's delay. The
  window must be so long that this does not matter: 30 s for 2 %.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from scalecurve_api.record.rank import WindowKind
from scalecurve_api.record.trial_record import TrialRecord
from tests.prometheus.prometheus_server import Series

Ask = Callable[[str, float], Sequence[Series]]
"""An instant query at a Unix time, such as `PrometheusServer.instant`."""

_BEFORE_S = 60
"""The range begins so long before the first window: a rank is scraped from its start."""


class NoSamplesError(AssertionError):
    """Prometheus has nothing of a trial that has a record."""


@dataclass(frozen=True)
class Agreement:
    """Samples a second over all ranks, twice."""

    trial: str
    record: float
    prometheus: float

    @property
    def difference(self) -> float:
        """Relative to the record."""
        return self.prometheus / self.record - 1


def by_windows(record: TrialRecord, ask: Ask, linger_s: float) -> Agreement:
    """The whole trial, from counters alone. `linger_s` is how long its ranks stayed up for a last scrape.

    Raises:
        NoSamplesError: where Prometheus never saw the trial.
    """
    found = ask(whole_query(record, linger_s), _end_s(record) + linger_s)
    return Agreement(record.trial.name, _throughput(record), _of_attempt(record, found))


def by_clock(record: TrialRecord, ask: Ask) -> Agreement:
    """Mean of the train windows' rates, each by Prometheus' clock, weighed by their length.

    Raises:
        NoSamplesError: where a window was not seen at least twice.
    """
    samples = seconds = 0.0
    for window in (each for each in record.windows if each.kind is WindowKind.train):
        length = window.wall_ns / 1e9
        query = f"sum by (attempt) (rate(scalecurve_samples_total{_of(record)}[{int(length * 1000)}ms]))"
        samples += length * _of_attempt(record, ask(query, (window.start_ns + window.wall_ns) / 1e9))
        seconds += length
    return Agreement(record.trial.name, _throughput(record), samples / seconds)


def whole_query(record: TrialRecord, linger_s: float) -> str:
    """PromQL of a trial's throughput as a whole, to be asked when its ranks have gone; one series an attempt."""
    length = _end_s(record) + linger_s - _begin_s(record) + _BEFORE_S

    def whole(metric: str) -> str:
        return f"max_over_time({metric}{_of(record)}[{length:.0f}s])"

    seconds = whole("scalecurve_window_seconds_total")
    return f"sum by (attempt) ({whole('scalecurve_window_samples_total')}) / avg by (attempt) ({seconds})"


def _of(record: TrialRecord) -> str:
    return f'{{experiment="{record.trial.experiment}",trial="{record.trial.name}"}}'


def _of_attempt(record: TrialRecord, found: Sequence[Series]) -> float:
    values = [
        each.last for each in found if each.points and each.labels.get("attempt", "") in ("", str(record.attempt))
    ]
    if len(values) != 1:
        raise NoSamplesError(
            f"{record.trial.name}, attempt {record.attempt}: {len(values)} series, one is wanted: {found}"
        )
    return values[0]


def _throughput(record: TrialRecord) -> float:
    assert record.summary is not None, f"{record.trial.name}: a record without a summary"
    return record.summary.throughput


def _begin_s(record: TrialRecord) -> float:
    return min(window.start_ns for window in record.windows) / 1e9


def _end_s(record: TrialRecord) -> float:
    return max(window.start_ns + window.wall_ns for window in record.windows) / 1e9
