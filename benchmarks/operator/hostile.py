"""Hostile envelopes, termination messages, pods and jobs: how many the operator survives, and what became of them.

    python -m benchmarks.operator.hostile [--count 100000] [--seed 0]

Inputs are those of tests/operator/fuzz.py: input N is the same in every run. Exit code 1 with the first that raises, or
makes what no API server takes.
"""

from __future__ import annotations

import argparse
import asyncio
import resource
import time
from collections import Counter

from scalecurve_operator.reconcile.judge_process import Judges
from tests.operator import fuzz

STEP = 1000


def main() -> int:
    """Run, and print how many ended how."""
    parser = argparse.ArgumentParser(description="Give the operator hostile input.")
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    sleep = asyncio.sleep
    asyncio.sleep = lambda delay, *_: sleep(0)  # type: ignore[assignment]  # collections are repeated at once
    ends: dict[str, Counter[str]] = {}
    judges, began = Judges(), time.monotonic()
    for first in range(chosen.seed, chosen.seed + chosen.count, STEP):
        try:
            part = fuzz.run(first, min(STEP, chosen.seed + chosen.count - first), judges)
        except AssertionError as error:
            print(error, flush=True)
            return 1
        for kind, counts in part.items():
            ends.setdefault(kind, Counter()).update(counts)
        done = sum(counts.total() for counts in ends.values())
        peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(f"{done:,} inputs, {time.monotonic() - began:.0f} s, peak {peak_mib:.0f} MiB", flush=True)
    judges.close()
    for kind, counts in ends.items():
        print(f"{kind}: {counts.total():,}: " + ", ".join(f"{end} {count:,}" for end, count in counts.most_common()))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
