"""Which of many trained points to draw."""

from collections.abc import Sequence

from scalecurve.training_results import PointTraining

MOST_CURVES = 12


def drawn_points(points: Sequence[PointTraining]) -> tuple[Sequence[PointTraining], str]:
    """All points if they are few enough, otherwise each series' largest count, and a sentence for the caption."""
    if len(points) <= MOST_CURVES:
        return points, ""
    largest = {(p.bundle, p.series): p for p in sorted(points, key=lambda p: p.point.workers)}
    kept = [p for p in points if largest[p.bundle, p.series] is p]
    shown = kept[:MOST_CURVES]
    which = "The largest worker count of each series" if len(kept) < len(points) else "Series"
    of = f", the first {MOST_CURVES} of {len(kept)}" if len(kept) > MOST_CURVES else ""
    more = len(points) - len(shown)
    return shown, f" {which}{of}; {more} more point{'s are' if more > 1 else ' is'} in the table."
