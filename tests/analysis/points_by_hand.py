"""Points made by hand: one window a repetition."""

from scalecurve.statistics.estimate import RepetitionTotals


def point_of(*seconds: float, samples: float = 100.0) -> list[RepetitionTotals]:
    """One window a repetition."""
    return [RepetitionTotals((samples,), (wall,)) for wall in seconds]
