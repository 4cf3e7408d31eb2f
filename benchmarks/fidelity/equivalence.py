"""What the harness costs at most, from pairs of runs: two one-sided t-tests of the log ratios. Pure.

python -m benchmarks.fidelity.equivalence RESULTS.json...   # the rows of files that fidelity.py and others wrote
"""

from __future__ import annotations

import json
import math
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

MARGIN = 0.005


@dataclass(frozen=True)
class Overhead:
    """Of harness over plain loop: 0.01 is 1 % slower. Each limit holds with 95 %; negative where it was faster."""

    mean: float
    lower: float
    upper: float
    equivalent: bool
    """Whether both limits lie within the margin: a difference that matters is refuted, not only unseen."""


def overhead(ratios: Sequence[float], margin: float = MARGIN) -> Overhead | None:
    """Bound the overhead by pairs of harness / plain; None from fewer than two pairs."""
    from scipy.stats import t

    if len(ratios) < 2:
        return None
    logs = [-math.log(ratio) for ratio in ratios]
    mean = statistics.fmean(logs)
    width = float(t.ppf(0.95, len(logs) - 1)) * statistics.stdev(logs) / math.sqrt(len(logs))
    lower, upper = math.expm1(mean - width), math.expm1(mean + width)
    return Overhead(math.expm1(mean), lower, upper, -margin <= lower and upper <= margin)


def main() -> None:
    """Print a row for each configuration of the files."""
    print("| configuration | pairs | overhead | 95 % limits | within 0.5 % |\n| --- | ---: | ---: | ---: | --- |")
    for path in map(Path, sys.argv[1:]):
        for row in json.loads(path.read_text())["rows"]:
            if found := overhead(row.get("ratios", ())):
                limits = f"{found.lower:+.2%} to {found.upper:+.2%}"
                verdict = "yes" if found.equivalent else "not shown"
                print(f"| {row['name']} | {len(row['ratios'])} | {found.mean:+.2%} | {limits} | {verdict} |")


if __name__ == "__main__":
    main()
