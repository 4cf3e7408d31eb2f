"""Draws of whole bundles of known truth, in memory: real trial records around synthetic wall times.

A curve is one worker and several, three trials of each. Their step times come from `tests.analysis.synthetic_points`;
everything between a record's windows and the interval is the program's own.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from scalecurve.bundle.open import Bundle
from scalecurve.bundle.trial import Trial
from scalecurve.curves.compute import scaling
from scalecurve.statistics.estimate import RepetitionTotals
from scalecurve_api.planning.plan import make_plan
from scalecurve_api.record.rank import WindowKind
from scalecurve_api.record.trial_record import TrialRecord, TrialWindow
from tests.analysis.synthetic import Truth, experiment, run
from tests.analysis.synthetic_points import SyntheticPoint

WORKERS = 4
BASE_STEP_S = 0.1
EQUAL = ((50,) * 5,) * 3
UNEQUAL = ((50,) * 5, (50, 30, 20, 60), (80, 50, 20, 50, 40, 60))


@dataclass(frozen=True)
class Curve:
    """`windows` holds, for each repetition, the steps of its windows; `inflation` is the point's variance over the
    baseline's; with `alternated` every other window is one of another kind, which no throughput may count."""

    name: str
    mode: str = "weak"
    windows: tuple[tuple[int, ...], ...] = EQUAL
    autocorrelation: float = 0.6
    repetition_cv: float = 0.01
    step_cv: float = 0.1
    inflation: float = 1.0
    alternated: bool = False

    @property
    def baseline(self) -> SyntheticPoint:
        """One worker, 64 samples a step in weak and 256 in strong scaling."""
        return SyntheticPoint(
            windows=self.windows,
            step_s=BASE_STEP_S,
            samples_per_step=64 if self.mode == "weak" else 256,
            step_cv=self.step_cv,
            autocorrelation=self.autocorrelation,
            repetition_cv=self.repetition_cv,
        )

    @property
    def point(self) -> SyntheticPoint:
        """Several workers, a sixth short of perfect scaling."""
        noisier = self.inflation**0.5
        return replace(
            self.baseline,
            step_s=1.2 * BASE_STEP_S / (1 if self.mode == "weak" else WORKERS),
            samples_per_step=256,
            step_cv=noisier * self.step_cv,
            repetition_cv=noisier * self.repetition_cv,
        )

    @property
    def speedup(self) -> float:
        """The truth."""
        return self.point.throughput / self.baseline.throughput


CURVES = (
    Curve("weak, steps correlated by 0.6"),
    Curve("strong, windows of two kinds by turns", mode="strong", alternated=True),
    Curve("steps not correlated", autocorrelation=0.0),
    Curve("steps correlated by 0.95", autocorrelation=0.95),
    Curve("unequal windows", windows=UNEQUAL),
    Curve("unequal windows, correlated by 0.95", windows=UNEQUAL, autocorrelation=0.95),
    Curve("nothing between repetitions", repetition_cv=0.0),
    Curve("repetitions differ by 5 %", repetition_cv=0.05),
    Curve("the point has 3 times the variance", inflation=3.0),
    Curve("the point has 10 times the variance", inflation=10.0),
    Curve("unequal, correlated, 10 times", windows=UNEQUAL, autocorrelation=0.95, inflation=10.0),
)


def draw_bundles(curve: Curve, draws: int, seed: int) -> Iterator[Bundle]:
    """`draws` bundles of the curve, the same for the same seed."""
    of = experiment(
        modes=[curve.mode], workers=[1, WORKERS], repetitions=len(curve.windows), steps_per_window=curve.windows[0][0]
    )
    plan = make_plan(of)
    templates = [(trial, run(trial, Truth(), seed=[seed], tables=False)[0]) for trial in plan.trials]
    points = (curve.baseline.draws(draws, seed), curve.point.draws(draws, seed + 1_000_003))
    for baseline, several in zip(*points, strict=True):
        trials = tuple(
            Trial(trial, Path(), _timed(record, (baseline if trial.point.workers == 1 else several), curve))
            for trial, record in templates
        )
        yield Bundle("drawn", Path(), of, plan, trials, ())


@dataclass(frozen=True)
class Coverage:
    """Percent of the 95 % intervals that cover the truth: of efficiency, and of the throughput of several workers;
    `half_width` is the median of efficiency's, in percent of the truth, and `unknown` the percent without one."""

    efficiency: float
    throughput: float
    half_width: float
    unknown: float


def coverage(curve: Curve, draws: int, seed: int) -> Coverage:
    """How often the intervals that `scalecurve.curves.compute.scaling` gives for whole bundles cover the truth."""
    truth, hits, unknown, widths = curve.speedup / WORKERS, [0, 0], [0, 0], []
    for bundle in draw_bundles(curve, draws, seed):
        (series,) = scaling([bundle]).series
        largest = series.points[-1]
        assert largest.efficiency is not None
        assert largest.throughput is not None
        for at, (found, true) in enumerate(((largest.efficiency, truth), (largest.throughput, curve.point.throughput))):
            hits[at] += found.covers(true)
            unknown[at] += found.unknown
        widths.append(largest.efficiency.half_width or math.inf)
    efficiency, throughput = (100 * hit / (draws - without) for hit, without in zip(hits, unknown, strict=True))
    return Coverage(efficiency, throughput, 100 * sorted(widths)[draws // 2] / truth, 100 * unknown[0] / draws)


def _timed(record: TrialRecord, repetitions: Sequence[RepetitionTotals], curve: Curve) -> TrialRecord:
    """The record with the windows of its repetition."""
    repetition = record.trial.repetition
    found, lengths = repetitions[repetition], curve.windows[repetition]
    other = WindowKind.plain if record.trial.point.workers == 1 else WindowKind.no_communication
    windows: list[TrialWindow] = []
    start, step = record.windows[0].start_ns, 0
    for samples, wall_s, steps in zip(found.samples, found.wall_s, lengths, strict=True):
        for kind in (WindowKind.train, other) if curve.alternated else (WindowKind.train,):
            wall_ns = round(wall_s * 1e9) if kind is WindowKind.train else round(wall_s * 5e8)
            windows.append(
                TrialWindow.model_construct(
                    index=len(windows),
                    kind=kind,
                    start_ns=start,
                    wall_ns=wall_ns,
                    fastest_ns=wall_ns,
                    slowest_rank=0,
                    first_step=step,
                    steps=steps,
                    samples=int(samples),
                )
            )
            start, step = start + wall_ns, step + steps
    return record.model_copy(update={"windows": windows})
