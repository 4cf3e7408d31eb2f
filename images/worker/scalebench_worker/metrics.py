"""The live view: one registry and one port a rank, fed from finished steps. Never the record."""

from __future__ import annotations

import importlib.util
import os
import threading
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from scalebench_api.contract import METRICS_PORT_ENV

if TYPE_CHECKING:
    from prometheus_client.core import HistogramMetricFamily

    from scalebench_api.trial import TrialSpec

BUCKETS = tuple(round(10 ** (power / 10), 7) for power in range(-40, 21))
"""Upper bounds from 100 us to 100 s by a ratio of 1.26, alike on every rank so that ranks can be added up."""

_LABELS = ("experiment", "trial", "workers", "rank")


class MetricsError(RuntimeError):
    """A metrics port that cannot be had."""


class StepDurations:
    """The histogram of step times. The client's own walks its buckets at every observation, ten times as slowly."""

    def __init__(self, labels: tuple[str, ...]) -> None:
        self._labels = labels
        self._counts = [0] * (len(BUCKETS) + 1)
        self._sum = 0.0

    def observe(self, durations_s: Sequence[float]) -> None:
        """Count steps into their buckets."""
        for duration in durations_s:
            self._counts[bisect_left(BUCKETS, duration)] += 1
        self._sum += sum(durations_s)

    def collect(self) -> Iterator[HistogramMetricFamily]:
        """The family, as a registry asks for it."""
        from prometheus_client.core import HistogramMetricFamily
        from prometheus_client.utils import floatToGoString

        bounds = [*map(floatToGoString, BUCKETS), "+Inf"]
        family = HistogramMetricFamily(
            "scalebench_step_duration_seconds", "Time of a step in a train window, on this rank", labels=_LABELS
        )
        buckets = list(zip(bounds, accumulate(self._counts), strict=True))
        family.add_metric(self._labels, buckets, sum_value=self._sum)
        yield family


class Metrics:
    """The families of one rank, with their labels bound once."""

    def __init__(self, trial: TrialSpec, rank: int, port: int) -> None:
        from prometheus_client import CollectorRegistry, Counter, Gauge, start_http_server

        registry = CollectorRegistry()
        labels = (trial.experiment, trial.name, str(trial.point.workers), str(rank))

        def bound(family: Any) -> Any:
            return family.labels(*labels)

        self._durations = StepDurations(labels)
        registry.register(self._durations)
        self._samples = bound(Counter("scalebench_samples", "Samples of train windows", _LABELS, registry=registry))
        self._steps = bound(Counter("scalebench_steps", "Steps of train windows", _LABELS, registry=registry))
        self._exposed = bound(
            Gauge(
                "scalebench_exposed_communication_seconds",
                "Seconds of a step that its all-reduce adds, by the last two windows",
                _LABELS,
                registry=registry,
            )
        )
        facts = ("mode", "program", "strategy", "model", "precision")
        info = Gauge("scalebench_trial_info", "1, and what the trial is", (*_LABELS, *facts), registry=registry)
        workload = trial.workload
        info.labels(
            *labels,
            trial.point.mode.value,
            workload.program.value,
            workload.strategy.value if workload.strategy else "",
            workload.model,
            workload.precision.value,
        ).set(1)
        try:
            server, _ = start_http_server(port, registry=registry)
        except OSError as error:
            raise MetricsError(f"{METRICS_PORT_ENV}: cannot listen on port {port}: {error}") from error
        self._server = server
        self.port: int = server.server_port

    def observe(self, durations_s: Sequence[float], samples: int) -> None:
        """Steps of a train window that have ended."""
        self._durations.observe(durations_s)
        self._steps.inc(len(durations_s))
        self._samples.inc(samples)

    def exposed(self, seconds: float) -> None:
        """Exposed communication of a step, by the last two windows."""
        self._exposed.set(seconds)

    def close(self) -> None:
        """Serve no longer."""
        self._server.shutdown()
        self._server.server_close()


def open_metrics(trial: TrialSpec | None, rank: int, local_rank: int) -> Metrics | None:
    """Serve /metrics where the engine asks for it.

    Raises:
        MetricsError: a port that is no number or is taken, or no client library.
    """
    given = os.environ.get(METRICS_PORT_ENV, "")
    if trial is None or not given:
        return None
    if not given.isdigit() or int(given) > 65535:
        raise MetricsError(f"{METRICS_PORT_ENV}={given!r}: a port number is wanted, or 0")
    if importlib.util.find_spec("prometheus_client") is None:
        raise MetricsError(f"{METRICS_PORT_ENV}={given!r}: needs prometheus-client, which is not installed here")
    return Metrics(trial, rank, int(given) + local_rank if int(given) else 0)


def linger(seconds: float) -> None:
    """Stay up for a last scrape."""
    if seconds > 0:
        threading.Event().wait(seconds)
