"""Does ``scalecurve run`` measure what a plain loop under torchrun does, and what makes the difference if not?

    PYTHONPATH=api:worker:local:analysis python -m benchmarks.fidelity.engine_fidelity --out engine.json

Every run is a process tree of its own, as a user starts it: ``plain`` is torchrun with ``plain_ddp.py``, ``engine``
is ``scalecurve run`` without exposed communication, ``exposed`` is the same with it.
Round by round each arm runs once, in an order that rotates; a ratio is an arm over the plain run of its round.

``--suspects`` adds arms that change one thing: ``worker`` (our worker under torchrun, no engine), ``plain-env`` (the
plain loop in the environment that the engine gives), ``no-nvml`` (the engine without NVML, so that nothing samples the
GPU), ``one-window`` (the engine with all steps in one window).

An experiment needs two worker counts: the engine is interrupted (Ctrl-C) once the trial that is compared is recorded,
before the other, of twice as many workers, has begun to compute.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.fidelity.engine_arms import ARMS, Run, Waiting
from benchmarks.fidelity.fidelity import BAR, WARMUP, Configuration, configurations, default_workers, quick

COMPARED = ("plain", "engine", "exposed")


def compare(configuration: Configuration, arms: Sequence[str], rounds: int, over: float) -> dict[str, Any]:
    """All rounds of one configuration; none starts that would end past ``over`` if it took as long as the last one.

    ``over`` is a time of the monotonic clock.
    """
    done: list[dict[str, Run]] = []
    errors: list[str] = []
    waiting: list[Waiting] = []
    took = 0.0
    try:
        for index in range(rounds):
            if time.monotonic() + took > over:
                break
            began, found = time.monotonic(), {}
            order = in_turn(arms, index)
            for position, arm in enumerate(order):
                next_round = in_turn(arms, index + 1) if index + 1 < rounds else []
                plain_next = plain_runs([*order[position + 1 :], *next_round])
                try:
                    if arm == "plain" and waiting:
                        found[arm] = waiting.pop().let_go()
                    else:
                        if arm != "plain":
                            waiting += [Waiting(configuration) for _ in range(plain_next - len(waiting))]
                        with tempfile.TemporaryDirectory() as folder:
                            found[arm] = ARMS[arm](configuration, Path(folder))
                except (RuntimeError, OSError, subprocess.SubprocessError) as error:
                    print(f"{configuration.name}, {arm}: {error}", file=sys.stderr, flush=True)
                    errors.append(f"{arm}: {error}"[:500])
                    continue
                run = found[arm]
                print(f"{configuration.name} #{index} {arm:<12}{run.rate:>12,.1f}/s {run.seconds:6.1f} s", flush=True)
            took = time.monotonic() - began
            if len(found) == len(arms):
                done.append(found)
    finally:
        for each in waiting:
            each.give_up()
    rows = {arm: summarize([each[arm] for each in done], [each["plain"] for each in done]) for arm in arms}
    return {**asdict(configuration), "arms": rows} | ({"errors": errors} if errors else {})


def in_turn(arms: Sequence[str], index: int) -> list[str]:
    """The arms of a round, another one first each time."""
    return [*arms[index % len(arms) :], *arms[: index % len(arms)]]


def plain_runs(arms: Sequence[str]) -> int:
    """How many plain runs come before anything else does."""
    return next((index for index, arm in enumerate(arms) if arm != "plain"), len(arms))


def summarize(runs: Sequence[Run], baseline: Sequence[Run]) -> dict[str, Any]:
    if not runs:
        return {}
    ratios = [run.rate / base.rate for run, base in zip(runs, baseline, strict=True)]
    return {
        "rates": [run.rate for run in runs],
        "median": statistics.median(run.rate for run in runs),
        "ratios": ratios,
        "ratio_median": statistics.median(ratios),
        "details": [run.details for run in runs if run.details],
    }


def table(rows: Sequence[dict[str, Any]]) -> str:
    lines = [f"{'configuration':<26}{'arm':<12}{'median/s':>12}{'ratio':>9}  of rounds"]
    for row in rows:
        for arm, found in row["arms"].items():
            if found:
                ratios = " ".join(f"{ratio:.4f}" for ratio in found["ratios"])
                lines.append(
                    f"{row['name']:<26}{arm:<12}{found['median']:>12,.1f}{found['ratio_median']:>9.4f}  {ratios}"
                )
    return "\n".join(lines)


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--workers", type=int, nargs="+", default=None, help="default: 1, 2, 4 as far as GPUs go")
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--suspects", nargs="*", choices=ARMS, default=(), help="arms beside plain, engine, exposed")
    arguments.add_argument("--arms", nargs="+", choices=ARMS, help="these arms alone, plain first")
    arguments.add_argument("--only", nargs="+", help="configurations whose name has one of these words")
    arguments.add_argument("--quick", action="store_true", help="a tiny model on CPUs, to try the script")
    arguments.add_argument("--seconds", type=float, default=3600.0, help="start nothing that would not end by then")
    arguments.add_argument("--out", type=Path, default=None, help="file for the JSON")
    given = arguments.parse_args()
    over = time.monotonic() + given.seconds
    if given.quick:
        os.environ.update(FIDELITY_DEVICE="cpu", CUDA_VISIBLE_DEVICES="")
    arms = given.arms or list(dict.fromkeys([*COMPARED, *given.suspects]))
    wanted = [
        each
        for workers in given.workers or default_workers(given.quick)
        for each in (quick if given.quick else configurations)(workers)
        if not given.only or any(word in each.name for word in given.only)
    ]
    rows = []
    for configuration in wanted:
        rows.append(compare(configuration, arms, given.rounds, over))
        if given.out:
            given.out.write_text(json.dumps({"bar": BAR, "warmup_steps": WARMUP, "rows": rows}, indent=1) + "\n")
    print(table(rows))
    engines = [row["arms"][arm].get("ratio_median", 0) for row in rows for arm in ("engine", "exposed") if arm in arms]
    return 0 if given.quick or all(ratio >= BAR for ratio in engines) else 1


if __name__ == "__main__":
    sys.exit(main())
