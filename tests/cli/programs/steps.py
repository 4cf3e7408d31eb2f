"""A light training script with the SDK's three lines, and ways to misbehave.

    steps.py [--hold FILE] [--rows] [--fail RANK] [--block]

A step takes a millisecond, and fifty while the file to hold by exists; after some steps it waits until that is gone.
``--rows`` adds rows of an all-reduce table, ``--fail`` raises on that rank, ``--block`` puts a folder where the
supervisor writes its report, as a full disk would stand in its way.
"""

from __future__ import annotations

import argparse
import os
import time
from pathlib import Path

import scalecurve_worker
from scalecurve_api.features.collectives.facts import ALLREDUCE, AllReduceRow

HELD_STEPS = 15


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--hold", type=Path)
    parser.add_argument("--rows", action="store_true")
    parser.add_argument("--fail", type=int)
    parser.add_argument("--block", action="store_true")
    given = parser.parse_args()
    rank = int(os.environ["RANK"])
    print(f"steps: rank {rank} begins", flush=True)
    if given.block:
        Path(os.environ["SCALECURVE_OUT"], "exit.json.new").mkdir(exist_ok=True)
    if given.fail == rank:
        raise RuntimeError("the widget \x1b[31mbroke")
    bench = scalecurve_worker.attach()
    steps = 0
    while bench.step():
        steps += 1
        time.sleep(0.05 if given.hold and given.hold.exists() else 0.001)
        while steps >= HELD_STEPS and given.hold and given.hold.exists():
            time.sleep(0.01)
    if given.rows:
        ALLREDUCE.extend(bench.session.facts, [rows(size) for size in (8, 1 << 20)])
    bench.finish()


def rows(size: int) -> AllReduceRow:
    microseconds = 20 + size / 1e4
    speed = size / microseconds / 1e3
    return AllReduceRow(
        bytes=size,
        in_place=True,
        iterations=20,
        time_us_median=microseconds,
        time_us_min=microseconds,
        time_us_p95=microseconds,
        algbw=speed,
        busbw=speed,
        errors=0,
    )


if __name__ == "__main__":
    main()
