"""What α and β in several ranges of size predict of left-out message sizes, and what lies at the ranges' borders.

    python docs/evidence/h200/scripts/collective_regimes.py docs/evidence/h200/allreduce.zip

One line for each largest number of ranges, then every left-out size that misses its bar, with what the range above the
border says of it: a size is left out together with the knowledge of which side of a border it lies on.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from scalecurve.bundle.open import open_bundle
from scalecurve_models.collectives.collective_fit import (
    SMALL,
    HeldOutTiming,
    TimedAllReduce,
    cross_validate_collective,
    fit_collective,
)
from scalecurve_models.collectives.comparison import timed_points
from scalecurve_models.collectives.costs import ALGORITHMS, Algorithm

BARS = {False: 0.20, True: 0.10}
"""Largest error that is good, below 1 MiB and from there on."""
BEYOND = 1 + 1e-9


def main() -> int:
    """Print the tables of every series."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("bundle", type=Path)
    arguments.add_argument("--algorithm", choices=sorted(ALGORITHMS), default="ring")
    arguments.add_argument("--most", type=int, default=5, help="ranges of size")
    given = arguments.parse_args()
    algorithm = ALGORITHMS[given.algorithm]
    for series, points in timed_points(open_bundle(given.bundle)).items():
        print(f"{series}, {algorithm.name}")
        for most in range(1, given.most + 1):
            judged = cross_validate_collective(algorithm, points, most=most)
            said = ", ".join(summary(judged.by_size, large) for large in (False, True))
            print(f"  up to {most} ranges, {len(judged.fit.regimes)} taken: {said}")
        for left in cross_validate_collective(algorithm, points).by_size:
            if abs(left.error) > BARS[left.point.bytes >= SMALL]:
                print(f"  {beside(algorithm, points, left)}")
    return 0


def summary(left: Sequence[HeldOutTiming], large: bool) -> str:
    """Mean, largest, and how many keep to the bar."""
    errors = [abs(each.error) for each in left if (each.point.bytes >= SMALL) is large]
    if not errors:
        return "no size from 1 MiB on" if large else "no size below 1 MiB"
    good = sum(error <= BARS[large] for error in errors)
    where = "from 1 MiB on" if large else "below 1 MiB"
    mean = sum(errors) / len(errors)
    return f"{where} mean {mean:.1%}, largest {max(errors):.1%}, {good} of {len(errors)} within the bar"


def beside(algorithm: Algorithm, points: Sequence[TimedAllReduce], left: HeldOutTiming) -> str:
    """A left-out size, with the prediction of the range that begins just above it."""
    size, shape = left.point.bytes, left.point.shape
    rest = [point for point in points if point.bytes != size]
    fit = fit_collective(algorithm, rest, regimes=len(cross_validate_collective(algorithm, points).fit.regimes))
    above = fit.seconds(shape, size * BEYOND) / left.point.seconds - 1
    own = f"{shape.ranks} ranks, {size:,} B: {left.point.seconds * 1e6:.1f} us, predicted {left.error:+.1%}"
    border = "" if abs(above - left.error) < 1e-6 else f"; by the range above the border, which lies here, {above:+.1%}"
    return own + border


if __name__ == "__main__":
    sys.exit(main())
