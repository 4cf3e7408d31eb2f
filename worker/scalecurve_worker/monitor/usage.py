"""Usage over time in a few entries: it travels in a pod's log."""

from collections.abc import Sequence

from scalecurve_api.record.rank import Usage

MOST = 60


def thinned(usage: Sequence[Usage]) -> list[Usage]:
    """Thin to at most ``MOST`` entries: merge neighbors into one, with the mean of their shares weighted by time."""
    kept = list(usage)
    while len(kept) > MOST:
        starts = [0.0, *(each.until_s for each in kept)]
        pairs = [slice(place, place + 2) for place in range(0, len(kept), 2)]
        kept = [_merge_entries(kept[pair], starts[pair.start]) for pair in pairs]
    return kept


def _merge_entries(entries: Sequence[Usage], start_s: float) -> Usage:
    starts = [start_s, *(each.until_s for each in entries)]
    used_s = sum(each.share * (each.until_s - start) for each, start in zip(entries, starts, strict=False))
    until_s = entries[-1].until_s
    return Usage(
        until_s=until_s, share=round(used_s / (until_s - start_s), 4) if until_s > start_s else entries[-1].share
    )
