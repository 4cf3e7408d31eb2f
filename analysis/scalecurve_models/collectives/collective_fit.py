"""α and β of an algorithm from timed all-reduces, cross-validated over message sizes and worker counts.

Residuals are relative, so that 8 bytes weigh as much as 1 GiB. γ is part of β: within one algorithm the bytes reduced
are a fixed share of the bytes sent, and no timing can separate the two.

A real call also has a cost that does not grow with the ranks (launching a kernel; NCCL's base latency, tuning.cc):
``launch``, separable from α with several worker counts, and omitted with only one.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from scalecurve_models.collectives.costs import Algorithm, RankGroup
from scalecurve_models.collectives.regimes import divisions, piece_errors
from scalecurve_models.fitting.least_squares import (
    Array,
    FitError,
    LinearFit,
    Parameter,
    Prediction,
    mean_absolute,
    nonnegative,
    positive_array,
    require_points,
)

MOST_REGIMES = 4
SMALL = 1 << 20  # bytes below which latency dominates; errors are reported separately below and above


@dataclass(frozen=True)
class TimedAllReduce:
    """One measured all-reduce: who took part, bytes, seconds of the slowest rank."""

    shape: RankGroup
    bytes: int
    seconds: float


@dataclass(frozen=True)
class Regime:
    """One set of parameters; ``up_to`` is the largest size it covers, None for the last one.

    ``launch`` is in seconds per call (None where it is omitted), ``latencies`` in seconds per message and ``inverse``
    in seconds per byte, one of each for every kind of link.
    """

    up_to: float | None
    launch: Parameter | None
    latencies: tuple[Parameter, ...]
    inverse: tuple[Parameter, ...]
    _linear: LinearFit

    @property
    def bandwidths(self) -> tuple[Parameter, ...]:
        """1/β in GB/s; without a value where bytes cost nothing."""
        return tuple(_bandwidth(parameter) for parameter in self.inverse)


@dataclass(frozen=True)
class CollectiveFit:
    """An algorithm with its regimes; ``residuals`` are predicted/measured - 1 in the order of the points."""

    algorithm: Algorithm
    regimes: tuple[Regime, ...]
    residuals: tuple[float, ...]

    def seconds(self, shape: RankGroup, size: float) -> float:
        return self.predict(shape, size).value

    def predict(self, shape: RankGroup, size: float) -> Prediction:
        """Seconds, with the interval for another measurement; none without degrees of freedom.

        Raises FitError for a size that is not positive.
        """
        if not (np.isfinite(size) and size > 0):
            raise FitError(f"{self.algorithm.name}: message size must be positive, got {size:g} bytes")
        regime = next(r for r in self.regimes if r.up_to is None or size <= r.up_to)
        if shape.ranks == 1:
            return Prediction(0.0)
        return regime._linear.predict(_row(self.algorithm, shape, size, regime.launch is not None))


@dataclass(frozen=True)
class HeldOutTiming:
    """A point predicted by a fit without its size, or without its worker count."""

    point: TimedAllReduce
    predicted: float

    @property
    def error(self) -> float:
        return self.predicted / self.point.seconds - 1


@dataclass(frozen=True)
class CrossValidatedCollective:
    """A fit with its predictions of left-out sizes and, where there are several, of left-out worker counts."""

    fit: CollectiveFit
    by_size: tuple[HeldOutTiming, ...]
    by_ranks: tuple[HeldOutTiming, ...]

    @property
    def small_error(self) -> float | None:
        return mean_absolute([left.error for left in self.by_size if left.point.bytes < SMALL])

    @property
    def large_error(self) -> float | None:
        return mean_absolute([left.error for left in self.by_size if left.point.bytes >= SMALL])

    @property
    def size_error(self) -> float | None:
        return mean_absolute([left.error for left in self.by_size])

    @property
    def ranks_error(self) -> float | None:
        """Over all left-out worker counts; None with fewer than three, which leaves a single one to predict from."""
        counts = {left.point.shape.ranks for left in self.by_ranks}
        return mean_absolute([left.error for left in self.by_ranks]) if len(counts) > 2 else None

    @property
    def held_out(self) -> float:
        """The selection criterion: mean error at left-out sizes and, where possible, at left-out worker counts."""
        return mean_absolute([self.size_error, self.ranks_error]) or 0.0


def fit_collective(algorithm: Algorithm, points: Sequence[TimedAllReduce], *, regimes: int = 1) -> CollectiveFit:
    """Fit α and β to ``points`` in up to ``regimes`` ranges of size (one, where links are of two kinds).

    Raises FitError for fewer than three message sizes, times that are not positive, a single rank.
    """
    return _fits(algorithm, checked(algorithm, points), 1 if algorithm.links > 1 else regimes)[-1]


def cross_validate_collective(
    algorithm: Algorithm, points: Sequence[TimedAllReduce], *, most: int = MOST_REGIMES
) -> CrossValidatedCollective:
    """The number of regimes that best predicts left-out sizes, and how well it does.

    Raises FitError as ``fit_collective``; and for fewer than four sizes, of which none could be left out.
    """
    kept = checked(algorithm, points)
    sizes = len({point.bytes for point in kept})
    require_points(f"{algorithm.name}, one size left out", sizes, 4, "message sizes")
    fits = _fits(algorithm, kept, 1 if algorithm.links > 1 else most)
    by_size = _leave_out(algorithm, kept, lambda point: point.bytes, len(fits))
    by_ranks = _leave_out(algorithm, kept, lambda point: point.shape.ranks, len(fits))
    errors = [mean_absolute([left.error for left in found]) or 0.0 for found in by_size]
    best = min(range(len(fits)), key=lambda index: (round(errors[index], 12), index))
    return CrossValidatedCollective(fits[best], tuple(by_size[best]), tuple(by_ranks[best]))


def checked(algorithm: Algorithm, points: Sequence[TimedAllReduce]) -> list[TimedAllReduce]:
    """The points of several ranks. Raises FitError where they cannot support a fit (see ``fit_collective``)."""
    positive_array(algorithm.name, "times", [point.seconds for point in points])
    positive_array(algorithm.name, "message sizes", [point.bytes for point in points])
    kept = [point for point in points if point.shape.ranks > 1]
    if points and not kept:
        raise FitError(f"{algorithm.name}: all points have a single rank, which sends nothing")
    needed = max(3, len(algorithm.symbols))
    sizes = len({point.bytes for point in kept})
    if sizes < needed:
        raise FitError(f"{algorithm.name}: needs at least {needed} message sizes, got {sizes}")
    return kept


def _fits(algorithm: Algorithm, points: Sequence[TimedAllReduce], most: int) -> list[CollectiveFit]:
    sizes = np.array(sorted({point.bytes for point in points}), dtype=np.float64)
    times = np.array([point.seconds for point in points])
    counts = np.array([(1.0, *algorithm.coefficients(shape)[0]) for shape in {point.shape for point in points}])
    launch = bool(np.linalg.matrix_rank(counts) == counts.shape[1])
    rows = np.stack([_row(algorithm, point.shape, point.bytes, launch) for point in points]) / times[:, None]
    size_of = np.searchsorted(sizes, [point.bytes for point in points])
    splits: list[tuple[tuple[int, int], ...]] = [((0, len(sizes) - 1),)]
    if most > 1:
        splits = divisions(piece_errors(size_of, rows, len(sizes)), most)
    fits = []
    for division in splits:
        residuals = np.zeros(len(times))
        regimes = []
        for first, last in division:
            here = (size_of >= first) & (size_of <= last)
            # Halfway, in ratio, to the first size of the next piece.
            up_to = None if last == len(sizes) - 1 else float(np.sqrt(sizes[last] * sizes[last + 1]))
            regime = _regime(algorithm, rows[here], launch, up_to)
            residuals[here] = regime._linear.residuals
            regimes.append(regime)
        fits.append(CollectiveFit(algorithm, tuple(regimes), tuple(residuals.tolist())))
    return fits


def _regime(algorithm: Algorithm, rows: Array, launch: bool, up_to: float | None) -> Regime:
    links = algorithm.links
    names = ("launch", *algorithm.symbols) if launch else algorithm.symbols
    linear = nonnegative(rows, np.ones(len(rows)), names)
    parameters = linear.parameters(["s"] * (len(names) - links) + ["s/B"] * links)
    start = parameters[0] if launch else None
    return Regime(up_to, start, parameters[-2 * links : -links], parameters[-links:], linear)


def _leave_out(
    algorithm: Algorithm, points: Sequence[TimedAllReduce], group_of: Callable[[TimedAllReduce], int], most: int
) -> list[tuple[HeldOutTiming, ...]]:
    """For 1, 2, … ``most`` regimes every point, predicted without its group; fewer if too few are left."""
    out: list[list[HeldOutTiming]] = [[] for _ in range(most)]
    for group in sorted({group_of(point) for point in points}):
        rest = [point for point in points if group_of(point) != group]
        if len({point.bytes for point in rest}) < max(3, len(algorithm.symbols)):
            continue
        fits = _fits(algorithm, rest, most)
        for index, found in enumerate(out):
            fit = fits[min(index, len(fits) - 1)]
            here = (point for point in points if group_of(point) == group)
            found += (HeldOutTiming(point, fit.seconds(point.shape, point.bytes)) for point in here)
    return [tuple(found) for found in out]


def _row(algorithm: Algorithm, shape: RankGroup, size: float, launch: bool) -> Array:
    messages, sent, _ = algorithm.coefficients(shape)
    return np.array([*([1.0] if launch else []), *messages, *(share * size for share in sent)])


def _bandwidth(inverse: Parameter) -> Parameter:
    name = inverse.name.replace("beta", "bandwidth")
    if inverse.value is None or inverse.value == 0:
        note = inverse.note if inverse.value is None else "bytes cost nothing in these points"
        return Parameter(name, unit="GB/s", note=note)
    low = None if inverse.high is None else 1e-9 / inverse.high
    high = None if inverse.low is None else (1e-9 / inverse.low if inverse.low > 0 else np.inf)
    return Parameter(name, 1e-9 / inverse.value, low, high, "GB/s", inverse.note)
