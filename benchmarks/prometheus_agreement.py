"""Throughput by PromQL against the record, by counters alone and by Prometheus' clock, over windows of several lengths.

    python -m benchmarks.prometheus_agreement                         # windows of 0.3 to 40 s, 10 minutes
    python -m benchmarks.prometheus_agreement --seconds 0.3 2 --interval 1 5

Real ranks under `scalecurve run`, steps of 10 ms and of 0.7 s, one and two workers; a real Prometheus for each interval
scrapes them all at once. Bar: 2 % by the counters, at every length. By the clock that takes windows of many seconds.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from scalecurve_api.record.trial_record import TrialRecord
from tests.prometheus import scene
from tests.prometheus.agreement import Agreement, NoSamples, by_clock, by_windows
from tests.prometheus.prometheus_server import PrometheusServer
from tests.worker.ports import free_pair

BAR = 0.02
PROGRAM = """
import os, time
import scalecurve_worker as scalecurve
bench = scalecurve.attach()
while bench.step():
    time.sleep(float(os.environ["STEP"]))
bench.finish(checksum="same")
"""


def experiment(program: Path, windows: Sequence[tuple[float, float]]) -> list[dict[str, Any]]:
    """One experiment of two trials for each (seconds of a window, seconds of a step)."""
    return [
        {
            "apiVersion": "scalecurve.dev/v1alpha1",
            "kind": "ScalingExperiment",
            "metadata": {"name": f"window-{window:g}-step-{step:g}".replace(".", "-")},
            "spec": {
                "scaling": {"modes": ["weak"], "workers": [1, 2], "batch": {"perWorker": 4}},
                "workload": {
                    "program": "custom",
                    "command": ["python", str(program)],
                    "launcher": "processes",
                    "env": {"STEP": str(step)},
                },
                "measure": {
                    "warmupSteps": 2,
                    "maxWarmupSteps": 2,
                    "windows": 3 if window < 10 else 1,
                    "stepsPerWindow": max(3, round(window / step)),
                    "repetitions": 1,
                    "maxForeignLoad": 1.0,
                },
            },
        }
        for window, step in windows
    ]


def clocked(record: TrialRecord, server: PrometheusServer) -> str:
    """What the clock says, where a window was scraped at least twice."""
    try:
        return spelled(by_clock(record, server.instant))
    except NoSamples:
        return "too short"


def spelled(found: Agreement) -> str:
    return f"{100 * found.difference:+.3f} %"


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--seconds", type=float, nargs="+", default=[0.3, 1, 2, 5, 10, 20, 40])
    arguments.add_argument("--steps", type=float, nargs="+", default=[0.01, 0.7])
    arguments.add_argument("--interval", type=float, nargs="+", default=[1, 5])
    given = arguments.parse_args()
    wanted = [(window, step) for step in given.steps for window in given.seconds if window >= 3 * step]
    good = True
    print(f"{'window':>7} {'step':>6} {'workers':>8} {'scraped':>8} {'by the counters':>16} {'by the clock':>13}")
    with ExitStack() as stack:
        root = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        program = root / "program.py"
        program.write_text(PROGRAM)
        first = free_pair()
        servers = {}
        for interval in given.interval:
            folder = root / f"every-{interval:g}"
            folder.mkdir()
            config = scene.static("trials", {"worker-0": first, "worker-1": first + 1}, "here")
            config["scrape_interval"] = f"{round(interval * 1000)}ms"
            servers[interval] = stack.enter_context(PrometheusServer(folder, [config]))
        linger = max(given.interval) + 1
        for (window, step), each in zip(wanted, experiment(program, wanted), strict=True):
            folder = root / each["metadata"]["name"]
            folder.mkdir()
            for record in scene.run(each, folder, first, linger).values():
                for interval, server in servers.items():
                    counted = by_windows(record, server.instant, linger)
                    good &= abs(counted.difference) < BAR
                    row = f"{window:>5g} s {step:>4g} s {record.trial.point.workers:>8} {interval:>6g} s"
                    print(f"{row} {spelled(counted):>16} {clocked(record, server):>13}", flush=True)
    print("by the counters: within 2 % everywhere" if good else "by the counters: NOT within 2 % everywhere")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
