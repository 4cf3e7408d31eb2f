"""How often do the intervals cover the truth, and how often do the detectors cry wolf?

    python -m benchmarks.coverage [--draws 2000] [--seed 1]

Every interval and every detector is called through the public functions of `scalecurve.statistics` on synthetic
points of known truth, and those of efficiency once more through bundles and `scalecurve.curves.compute`. Coverage is
of the intervals that are known. A share of 2,000 draws has a standard error of 0.5 points at 95 %. Sections 8 to 13
alone: `--from 8`. Takes about eight minutes.
"""

from __future__ import annotations

import argparse
import time
import timeit
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

from benchmarks.few_repetitions import print_few
from benchmarks.interval_limits import print_limits
from benchmarks.session_noise import print_alarms, print_noises, print_prior, print_shares, print_stopping
from scalecurve.statistics.autocorrelation import autocorrelation
from scalecurve.statistics.detectors import drift, warm_up
from scalecurve.statistics.estimate import RepetitionTotals
from scalecurve.statistics.intervals import difference, efficiency, throughput
from scalecurve.statistics.mean import mean
from scalecurve.statistics.modes import bimodality
from tests.analysis.synthetic_points import SyntheticPoint

FIVE = (50,) * 5
UNEQUAL = (FIVE, (50, 30, 20, 60), (80, 50, 20, 50, 40, 60))
LAYOUTS = {
    "3 v 3": ((FIVE,) * 3, (FIVE,) * 3),
    "5 v 5": ((FIVE,) * 5, (FIVE,) * 5),
    "3 v 5": ((FIVE,) * 3, (FIVE,) * 5),
    "5 v 3": ((FIVE,) * 5, (FIVE,) * 3),
    "3 v 2": ((FIVE,) * 3, (FIVE,) * 2),
    "2 v 3": ((FIVE,) * 2, (FIVE,) * 3),
    "2 v 2": ((FIVE,) * 2, (FIVE,) * 2),
    "unequal windows": (UNEQUAL, UNEQUAL),
    "250, 100, 150 steps v equal": ((FIVE, (50,) * 2, (50,) * 3), (FIVE,) * 3),
    "250, 250, 50 steps, both": ((FIVE, FIVE, (25, 25)), (FIVE, FIVE, (25, 25))),
}
BETWEEN = {"none": 0.0, "small": 0.005, "dominant": 0.05}
WORKERS = 4


@dataclass(frozen=True)
class Case:
    """A point of four workers and its one-worker baseline; the point has `inflation` times the variance."""

    layout: str
    autocorrelation: float
    between: str
    inflation: float

    @property
    def baseline(self) -> SyntheticPoint:
        return SyntheticPoint(
            windows=LAYOUTS[self.layout][1],
            autocorrelation=self.autocorrelation,
            repetition_cv=BETWEEN[self.between],
        )

    @property
    def point(self) -> SyntheticPoint:
        noisier = self.inflation**0.5
        return replace(
            self.baseline,
            windows=LAYOUTS[self.layout][0],
            step_s=0.12,
            samples_per_step=4 * self.baseline.samples_per_step,
            step_cv=noisier * self.baseline.step_cv,
            repetition_cv=noisier * self.baseline.repetition_cv,
        )

    @property
    def truth(self) -> float:
        return self.point.throughput / self.baseline.throughput / WORKERS

    def pairs(self, draws: int, seed: int) -> Iterator[tuple[tuple[RepetitionTotals, ...], ...]]:
        return zip(self.point.draws(draws, seed), self.baseline.draws(draws, seed + 1_000_003), strict=True)


def efficiency_coverage(case: Case, draws: int, seed: int) -> tuple[float, float]:
    """Percent of the known intervals that cover the truth, and the median half width in percent of it."""
    found = [efficiency(point, baseline, WORKERS, 1) for point, baseline in case.pairs(draws, seed)]
    widths = [estimate.half_width or np.inf for estimate in found]
    known = [e.covers(case.truth) for e in found if not e.unknown]
    return 100 * float(np.mean(known)), 100 * float(np.median(widths)) / case.truth


def alternatives(case: Case, draws: int, seed: int, resamples: int = 1000) -> dict[str, float]:
    """Percent coverage of what one might have used instead, on repetition means (equal repetitions only)."""
    seconds = [np.empty((draws, len(windows))) for windows in LAYOUTS[case.layout]]
    for draw, pair in enumerate(case.pairs(draws, seed)):
        for side, repetitions in zip(seconds, pair, strict=True):
            side[draw] = [repetition.total_wall_s / repetition.total_samples for repetition in repetitions]
    theta = case.truth * WORKERS  # throughput ratio: baseline seconds over the point's
    logs = [np.log(side) for side in seconds]
    gap = logs[1].mean(1) - logs[0].mean(1) - np.log(theta)
    counts = [side.shape[1] for side in seconds]
    variances = [side.var(1, ddof=1) for side in logs]
    degrees = sum(counts) - 2
    pooled = sum(v * (n - 1) for v, n in zip(variances, counts, strict=True)) / degrees
    pooled_half = special.stdtrit(degrees, 0.975) * np.sqrt(pooled * sum(1 / n for n in counts))
    linear = [side.var(1, ddof=1) / n for side, n in zip(seconds, counts, strict=True)]
    residual = seconds[1].mean(1) - theta * seconds[0].mean(1)
    parts = (theta**2 * linear[0], linear[1])
    fieller_degrees = sum(parts) ** 2 / sum(p**2 / (n - 1) for p, n in zip(parts, counts, strict=True))
    fieller_half = special.stdtrit(fieller_degrees, 0.975) * np.sqrt(sum(parts))
    rng = np.random.default_rng(seed)
    picks = [rng.integers(n, size=(resamples, n)) for n in counts]
    boot = np.log(seconds[1][:, picks[1]].mean(2)) - np.log(seconds[0][:, picks[0]].mean(2))
    low, high = np.quantile(boot, (0.025, 0.975), axis=1)
    return {
        "bootstrap of repetitions": 100 * float(np.mean((low <= np.log(theta)) & (np.log(theta) <= high))),
        "pooled t": 100 * float(np.mean(np.abs(gap) <= pooled_half)),
        "Fieller, Welch degrees": 100 * float(np.mean(np.abs(residual) <= fieller_half)),
        "used (Welch, log)": efficiency_coverage(case, draws, seed)[0],
    }


def exact_welch_coverage(first: int, second: int, variance_ratio: float, cells: int = 20_001) -> float:
    """Percent coverage of the 95 % Welch interval for normal repetition means, by one-dimensional quadrature.

    Given F = (s1²/σ1²)/(s2²/σ2²) the total χ² is independent of it, so coverage is a mean over F of Student
    probabilities with both degrees of freedom together. `variance_ratio` is σ1²/σ2² of single repetitions.
    """
    f1, f2 = first - 1, second - 1
    tau = variance_ratio * second / first
    ratio = stats.f.ppf((np.arange(cells) + 0.5) / cells, f1, f2)
    share = tau * ratio / (tau * ratio + 1)
    critical = special.stdtrit(1 / (share**2 / f1 + (1 - share) ** 2 / f2), 0.975)
    reach = critical * np.sqrt((tau * ratio + 1) * (f1 + f2) / ((f2 + f1 * ratio) * (tau + 1)))
    return 100 * float(np.mean(1 - 2 * special.stdtr(f1 + f2, -reach)))


def within_run_coverage(windows: tuple[int, ...], autocorrelation: float, draws: int, seed: int) -> float:
    """One repetition: percent coverage of that run's own long-run throughput (nothing between runs to cover)."""
    point = SyntheticPoint(windows=(windows,), autocorrelation=autocorrelation, repetition_cv=0.0)
    return 100 * float(np.mean([throughput(draw).covers(point.throughput) for draw in point.draws(draws, seed)]))


def exposed_coverage(between: float, draws: int, seed: int) -> float:
    """Exposed communication, paired by trial: what a trial has in common multiplies both kinds of window."""
    full, bare = (SyntheticPoint(repetition_cv=0.0, step_s=s, samples_per_step=1.0) for s in (0.12, 0.1))
    rng = np.random.default_rng(seed)
    covered = 0
    for with_comm, without in zip(full.draws(draws, seed), bare.draws(draws, seed + 7), strict=True):
        common = np.exp(between * rng.standard_normal(3) - between**2 / 2)
        points = [
            [RepetitionTotals(r.samples, tuple(w * c for w in r.wall_s)) for r, c in zip(p, common, strict=True)]
            for p in (with_comm, without)
        ]
        covered += difference(points[0], points[1], paired=True).covers(0.02)
    return 100 * covered / draws


Steps = NDArray[np.float64]


def detector_rates(steps: int, autocorrelation: float, step_cv: float, draws: int, seed: int) -> list[float]:
    """Percent of runs flagged: three false alarms on clean runs, then the hits on three planted defects."""
    model = SyntheticPoint(autocorrelation=autocorrelation, step_cv=step_cv, repetition_cv=0.0)
    runs = np.abs(model.steps(draws, steps, seed))
    time_axis = np.arange(steps)
    slow = np.random.default_rng(seed).random(runs.shape) < 0.2

    def flagged(detect: Callable[[Steps], bool], series: Steps) -> float:
        return 100 * float(np.mean([detect(run) for run in series]))

    detectors: tuple[Callable[[Steps], bool], ...] = (
        lambda run: drift(run).drifting,
        lambda run: bimodality(run).bimodal,
        lambda run: warm_up(run).too_short,
    )
    planted = (
        runs * (1 + 0.1 * time_axis / steps),
        runs * np.where(slow, 1.2, 1.0),
        runs * (1 + 0.5 * np.exp(-time_axis / (0.04 * steps))),
    )
    return [flagged(d, runs) for d in detectors] + [flagged(d, p) for d, p in zip(detectors, planted, strict=True)]


def print_bundles(draws: int, seed: int) -> None:
    from tests.analysis.drawn_bundles import CURVES, coverage

    print(f"   {'':40}{'efficiency':>12}{'(half width)':>14}{'throughput':>12}")
    for curve in CURVES:
        found = coverage(curve, draws, seed)
        outside = " " if 93 <= found.efficiency <= 97 else "*"
        print(
            f"   {curve.name:40}{found.efficiency:11.2f}{outside}{found.half_width:12.1f} %{found.throughput:12.2f}",
            flush=True,
        )


def accuracy_coverage(images: int, accuracy: float, between: float, runs: int, draws: int, seed: int) -> float:
    """Percent of draws whose interval holds ``accuracy``, about which seeds are normal and images binomial."""
    rng = np.random.default_rng(seed)
    held = 0
    for _ in range(draws):
        right = rng.binomial(images, np.clip(rng.normal(accuracy, between, runs), 0, 1))
        held += mean([float(each) for each in right / images], least=0, most=1).covers(accuracy)
    return 100 * held / draws


def print_accuracies(draws: int, seed: int) -> None:
    print("\n7. Accuracy, its mean over seeds that differ (and images that are counted): coverage in %")
    for images, accuracy, between in ((359, 0.985, 0.005), (359, 0.9, 0.02), (10_000, 0.94, 0.003)):
        cover = [accuracy_coverage(images, accuracy, between, runs, draws, seed) for runs in (2, 3, 5)]
        print(f"   {images:6} images, {accuracy} +- {between}, 2, 3, 5 seeds:", *(f"{c:7.2f}" for c in cover))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--draws", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--from", type=int, default=1, dest="first", help="first section to print: 1, 8 or 10")
    given = parser.parse_args()
    draws, seed, start = given.draws, given.seed, time.perf_counter()
    if given.first < 8:
        print_intervals_and_detectors(draws, seed)
    if given.first < 10:
        print_coverage_under_noise(draws, seed)
    print("\n10. compare: equal bundles of 4 points, sd 0.5 % between sessions, 0.1 % between repetitions: alarms in %")
    print_alarms(draws, seed)
    print("\n11. One call on 500,000 steps, best of 5, ms")
    run = np.random.default_rng(seed).lognormal(-2.0, 0.1, 500_000)
    for detect in (autocorrelation, drift, bimodality, warm_up):
        print(f"   {detect.__name__:16}{1e3 * min(timeit.repeat(partial(detect, run), number=1, repeat=5)):6.1f}")
    print("\n12. What no interval of few repetitions can do, computed without draws: coverage in %")
    print_limits()
    print("\n13. Two and three repetitions a point, sd 0.5 %, one session: coverage in %, % not known, half width in %")
    print_few(draws, seed)
    print("\n14. compare and gate by the prior: one session a side, 3 repetitions that differ by 0.1 %: % of the draws")
    print_prior(draws, seed)
    print(f"\n{time.perf_counter() - start:.0f} s")


def print_coverage_under_noise(draws: int, seed: int) -> None:
    print("\n8. Six kinds of noise between repetitions: 95 % intervals, coverage in %")
    print_noises(draws, seed)
    print("\n   Slow by 5 %, at 0.1 % noise, by the share of slow runs: efficiency, and throughput as shown")
    print_shares(draws, seed)
    print("\n9. Repeated until efficiency is known to the target, 12 at most: coverage in % (mean repetitions)")
    print_stopping(draws, seed)


def print_intervals_and_detectors(draws: int, seed: int) -> None:
    print(f"1. 95 % interval of efficiency: coverage in % of {draws} draws (median half width in % of the value)")
    print("   columns: variance of the point over that of the baseline\n")
    print(f"{'repetitions':28} {'steps':>6} {'between':>9} " + "".join(f"{f'1:{r}':>16}" for r in (1, 3, 10)))
    for layout in LAYOUTS:
        for rho in (0.0, 0.6, 0.95):
            for between in BETWEEN:
                cells = [efficiency_coverage(Case(layout, rho, between, r), draws, seed) for r in (1, 3, 10)]
                row = "".join(
                    f"{cover:7.2f}{'  ' if 93 <= cover <= 97 else ' *'}({width:5.1f})" for cover, width in cells
                )
                print(f"{layout:28} {rho:6} {between:>9} {row}", flush=True)
    print("   * outside 93-97\n")

    print("2. What else might have been used, 3 v 3, lag-1 correlation 0.6: coverage in %")
    for between in BETWEEN:
        for inflation in (1, 10):
            rates = alternatives(Case("3 v 3", 0.6, between, inflation), draws, seed)
            print(f"   between {between:9} 1:{inflation:<3}", ", ".join(f"{n} {v:.1f}" for n, v in rates.items()))

    print("\n3. Exact coverage for normal repetition means; columns: variance of the first over the second")
    ratios = (0.01, 0.03, 0.1, 1 / 3, 1, 3, 10, 30, 100)
    print("         " + "".join(f"{r:8.3g}" for r in ratios))
    for first, second in ((2, 2), (2, 3), (3, 3), (3, 4), (3, 5), (4, 4), (5, 5), (3, 10), (10, 10)):
        print(f"{first:4} v {second:2}" + "".join(f"{exact_welch_coverage(first, second, r):8.2f}" for r in ratios))

    print("\n4. One repetition (within-run only), its own long-run throughput: coverage in %")
    for windows in ((50,) * 3, (50,) * 5, (50,) * 10, (200,) * 5):
        cover = [within_run_coverage(windows, rho, draws, seed) for rho in (0.0, 0.6, 0.95)]
        print(
            f"   {len(windows):2} windows of {windows[0]:3} steps, lag-1 0, 0.6, 0.95:", *(f"{c:7.2f}" for c in cover)
        )
    print("   exposed communication, paired, between 0, 0.005, 0.05:", end="")
    print(*(f"{exposed_coverage(between, draws, seed):7.2f}" for between in BETWEEN.values()))

    print("\n5. Detectors, % of runs flagged: clean drift, modes, warm-up | +10 % drift, 20 % of steps +20 %, warm-up")
    for steps in (50, 250, 2000):
        for rho in (0.0, 0.6, 0.95):
            for step_cv in (0.02, 0.1):
                row = "".join(f"{r:7.1f}" for r in detector_rates(steps, rho, step_cv, draws // 4, seed))
                print(f"   {steps:5} steps, lag-1 {rho:4}, noise {step_cv:4}: {row}", flush=True)
    print("\n6. Whole bundles: 3 trials of 1 and of 4 workers through their records, 95 % intervals: coverage in %")
    print_bundles(draws, seed)
    print_accuracies(draws, seed)


if __name__ == "__main__":
    main()
