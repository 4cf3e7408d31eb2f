"""What the harness costs a step: a loop with and without ``bench.steps``, in interleaved pairs.

    python -m benchmarks.harness_cost              # a CPU
    python -m benchmarks.harness_cost --device gpu

Steps of 50 us and of 5 ms, which the host spends computing or the device spins through. A window is long enough to
hold several writes of the journal and of the metrics. On a CPU processor time is compared, which other programs on a
busy machine do not add to; on a GPU wall time. Bars: 5 us a step, and 0.1 % of a 5 ms step.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import scalecurve_worker as scalecurve
from scalecurve_api.contract import METRICS_PORT_ENV, OUT_ENV, TRIAL_ENV
from scalecurve_api.programs.custom import CustomWorkload
from scalecurve_api.spec.measure import Measure
from scalecurve_api.spec.scaling import Mode
from scalecurve_api.spec.trial import Point, TrialSpec

SHORT_STEPS, SHORT_STEP_S = 30_000, 50e-6
LONG_STEPS, LONG_STEP_S = 300, 5e-3
BAR_US = 5.0
BAR_SHARE = 0.001

Work = Callable[[], Any]


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--device", choices=["cpu", "gpu"], default="cpu")
    arguments.add_argument("--pairs", type=int, default=9)
    arguments.add_argument("--json", action="store_true")
    given = arguments.parse_args()
    model, work = works(given.device)
    with tempfile.TemporaryDirectory() as folder:
        rows = [
            compare("50 us", model, lambda: work(SHORT_STEP_S), SHORT_STEPS, given.pairs, Path(folder)),
            compare("5 ms", model, lambda: work(LONG_STEP_S), LONG_STEPS, given.pairs, Path(folder)),
        ]
    if given.json:
        print(json.dumps(rows, indent=1))
    else:
        print(table(rows))
    return 0 if passed(rows) else 1


def works(device: str) -> tuple[Any, Callable[[float], None]]:
    """The model that names the device, and a step of so many seconds."""
    if device == "cpu":
        return None, spin
    import torch

    model = torch.nn.Linear(1, 1).cuda()
    cycles_per_s = calibrate(torch)
    return model, lambda seconds: torch.cuda._sleep(int(seconds * cycles_per_s))


def calibrate(torch: Any) -> float:
    """Cycles a second that the device spins through, at the clock it has under load."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    cycles = 1_000_000_000
    torch.cuda._sleep(cycles)
    begin.record()
    torch.cuda._sleep(cycles)
    end.record()
    end.synchronize()
    return float(cycles / begin.elapsed_time(end) * 1e3)


def spin(seconds: float) -> None:
    """Compute for so much processor time: sleeping would let the scheduler decide how long a step is."""
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


def compare(name: str, model: Any, work: Work, steps: int, pairs: int, folder: Path) -> dict[str, Any]:
    """Median over interleaved pairs of the time that a step takes more with the harness than without."""
    differences, plain_us, bench_us = [], [], []
    for pair in range(pairs):
        first, second = (plain_loop, bench_loop) if pair % 2 == 0 else (bench_loop, plain_loop)
        seconds = {loop.__name__: loop(model, work, steps, folder) for loop in (first, second)}
        plain_us.append(seconds["plain_loop"] / steps * 1e6)
        bench_us.append(seconds["bench_loop"] / steps * 1e6)
        differences.append(bench_us[-1] - plain_us[-1])
    quartiles = statistics.quantiles(differences, n=4)
    return {
        "step": name,
        "plain_us": statistics.median(plain_us),
        "with_harness_us": statistics.median(bench_us),
        "cost_us": statistics.median(differences),
        "cost_us_quartiles": [quartiles[0], quartiles[2]],
        "pairs": pairs,
    }


def plain_loop(model: Any, work: Work, steps: int, folder: Path) -> float:
    """Seconds of the bare loop."""
    return seconds_of(range(steps), model, work, steps)


def bench_loop(model: Any, work: Work, steps: int, folder: Path) -> float:
    """Seconds of one window of the same loop under the harness, journal and metrics included."""
    with (
        tempfile.TemporaryDirectory(dir=folder) as trial,
        environment(steps, Path(trial)),
        contextlib.redirect_stdout(io.StringIO()),
    ):
        bench = scalecurve.attach(model)
        seconds = seconds_of(bench.steps(range(steps), samples=1), model, work, steps)
        bench.finish()
    return seconds


def seconds_of(batches: Iterable[int], model: Any, work: Work, steps: int) -> float:
    """From the beginning of the first step to the beginning of the last, on a device that is idle at both.

    The harness runs one step more than a window has, and takes it from the beginning of the batches again.
    """
    now = time.perf_counter if model is not None else time.process_time
    began = ended = 0.0
    for step in batches:
        if step == 0:
            began = began or now()
        elif step == steps - 1:
            wait_for_device(model)
            ended = now()
        work()
    wait_for_device(model)
    if not ended:
        raise RuntimeError(f"the loop ended before step {steps - 1}: nothing was measured")
    return (ended - began) * steps / (steps - 1)


@contextlib.contextmanager
def environment(steps: int, folder: Path) -> Iterator[None]:
    trial = TrialSpec(
        experiment="harness-cost",
        name="trial",
        point=Point(mode=Mode.weak, workers=1, nodes=1, workers_per_node=1, series="weak", name="weak-1-1x1"),
        repetition=0,
        seed=0,
        workload=CustomWorkload(program="custom", command=["benchmark"]),
        measure=Measure(windows=1, steps_per_window=steps, warmup_steps=0, max_warmup_steps=0),
    )
    wanted = {TRIAL_ENV: json.dumps(trial.wire()), OUT_ENV: str(folder), METRICS_PORT_ENV: "0"}
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def wait_for_device(model: Any) -> None:
    if model is not None:
        sys.modules["torch"].cuda.synchronize()


def passed(rows: list[dict[str, Any]]) -> bool:
    short, long = rows
    return bool(short["cost_us"] <= BAR_US and long["cost_us"] <= BAR_SHARE * LONG_STEP_S * 1e6)


def table(rows: list[dict[str, Any]]) -> str:
    lines = [f"{'step':<12}{'plain us':>12}{'harness us':>12}{'cost us':>10}   quartiles"]
    for row in rows:
        low, high = row["cost_us_quartiles"]
        lines.append(
            f"{row['step']:<12}{row['plain_us']:>12.3f}{row['with_harness_us']:>12.3f}{row['cost_us']:>10.3f}"
            f"   {low:.3f} to {high:.3f}"
        )
    share = rows[1]["cost_us"] / (LONG_STEP_S * 1e6)
    lines.append(f"bars: {BAR_US:g} us a step; {BAR_SHARE:.1%} of a 5 ms step (here {share:.3%})")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
