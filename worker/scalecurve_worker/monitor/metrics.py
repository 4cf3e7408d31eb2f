"""Live Prometheus metrics: one registry and one port per rank, fed from finished steps. Never the record."""

from __future__ import annotations

import importlib.util
import os
import threading
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

from scalecurve_api.contract import METRICS_ADDRESS_ENV, METRICS_PORT_ENV

if TYPE_CHECKING:
    from prometheus_client.core import Metric

    from scalecurve_api.spec.trial import TrialSpec

BUCKETS = tuple(round(10 ** (power / 10), 7) for power in range(-40, 21))
"""Upper bounds from 100 us to 100 s by a ratio of 1.26, alike on every rank so that ranks can be added up."""

_LABELS = ("experiment", "trial", "workers", "rank")


class MetricsError(RuntimeError):
    """A metrics port that cannot be had."""


class StepCounters:
    """Steps, samples, windows and the histogram of step times, exposed as of one moment.

    A rank's samples divided by its seconds are then its throughput at any scrape, at any scrape interval. The client
    library reads its own families one after another, and its histogram is ten times slower to update.
    """

    def __init__(self, labels: tuple[str, ...]) -> None:
        self._labels = labels
        self._lock = threading.Lock()
        self._counts = [0] * (len(BUCKETS) + 1)
        self._seconds = 0.0
        self._samples = 0
        self._window_samples, self._window_seconds = 0, 0.0

    def observe(self, durations_s: Sequence[float], samples: int) -> None:
        found = [bisect_left(BUCKETS, duration) for duration in durations_s]
        with self._lock:
            for bucket in found:
                self._counts[bucket] += 1
            self._seconds += sum(durations_s)
            self._samples += samples

    def close_window(self, samples: int, slowest_s: float) -> None:
        """Count a closed train window: this rank's samples, and the time of the slowest rank."""
        with self._lock:
            self._window_samples += samples
            self._window_seconds += slowest_s

    def collect(self) -> Iterator[Metric]:
        from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily
        from prometheus_client.utils import floatToGoString

        with self._lock:
            upto, seconds, count = list(accumulate(self._counts)), self._seconds, self._samples
            window_samples, window_seconds = self._window_samples, self._window_seconds
        durations = HistogramMetricFamily(
            "scalecurve_step_duration_seconds", "Time of a step in a train window, on this rank", labels=_LABELS
        )
        bounds = [*map(floatToGoString, BUCKETS), "+Inf"]
        durations.add_metric(self._labels, list(zip(bounds, upto, strict=True)), sum_value=seconds)
        yield durations
        slowest = "Time of closed train windows, each on its slowest rank, as the record has it"
        for name, value, text in (
            ("samples", count, "Samples of train windows"),
            ("steps", upto[-1], "Steps of train windows"),
            ("window_samples", window_samples, "Samples of this rank in closed train windows"),
            ("window_seconds", window_seconds, slowest),
        ):
            family = CounterMetricFamily(f"scalecurve_{name}", text, labels=_LABELS)
            family.add_metric(self._labels, value)
            yield family


class Metrics(StepCounters):
    """The families of one rank, served on a port."""

    def __init__(self, trial: TrialSpec, rank: int, port: int, address: str = "") -> None:
        from prometheus_client import CollectorRegistry, Gauge, start_http_server

        registry = CollectorRegistry()
        super().__init__((trial.experiment, trial.name, str(trial.point.workers), str(rank)))
        registry.register(self)
        # Without a value until there is one: 0 would say that communication costs nothing.
        self._exposed = Gauge(
            "scalecurve_exposed_communication_seconds",
            "Seconds of a step that its all-reduce adds, by the last two windows",
            _LABELS,
            registry=registry,
        )
        facts = ("mode", "program", "strategy", "model", "precision")
        info = Gauge("scalecurve_trial_info", "1, and what the trial is", (*_LABELS, *facts), registry=registry)
        workload = trial.workload
        info.labels(
            *self._labels,
            trial.point.mode.value,
            workload.program,
            workload.field_value("strategy") or "",
            workload.model if workload.runs else "",
            workload.precision.value,
        ).set(1)
        try:
            self._server, _ = start_http_server(port, address or "0.0.0.0", registry)
        except OSError as error:
            where = f"port {port} of {address}" if address else f"port {port}"
            raise MetricsError(f"{METRICS_PORT_ENV}: cannot listen on {where}: {error}") from error
        self.port = self._server.server_port

    def exposed(self, seconds: float) -> None:
        self._exposed.labels(*self._labels).set(seconds)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def open_metrics(trial: TrialSpec | None, rank: int, place: int) -> Metrics | None:
    """Serve /metrics where the engine asks for it, ``place`` ports further on."""
    given = os.environ.get(METRICS_PORT_ENV, "")
    if trial is None or not given:
        return None
    if not given.isdigit() or int(given) > 65535:
        raise MetricsError(f"{METRICS_PORT_ENV}={given!r}: expected a port number, or 0")
    if importlib.util.find_spec("prometheus_client") is None:
        raise MetricsError(f"{METRICS_PORT_ENV}={given!r}: needs prometheus-client, which is not installed here")
    address = os.environ.get(METRICS_ADDRESS_ENV, "").strip()
    return Metrics(trial, rank, int(given) + place if int(given) else 0, address)
