"""The steps of one run, one after another -> stretches of them, without those at the beginning."""

from collections.abc import Sequence

from scalecurve.importing.reading import Stretch

WARMUP = 5
"""Steps left out at the beginning of a run, as CloudAI does by default."""
_MOST = 10


def stretches(steps: Sequence[Stretch], warmup: int = WARMUP) -> tuple[tuple[Stretch, ...], str]:
    """At most ten stretches of consecutive steps, which show how steady the run was; and a note on what was left out.

    Of few steps only the first is left out; of one, none.
    """
    skipped = min(warmup, max(0, len(steps) // 3), len(steps) - 1) if len(steps) <= 3 * warmup else warmup
    kept = steps[skipped:]
    size = -(-len(kept) // _MOST)
    parts = [kept[at : at + size] for at in range(0, len(kept), size)]
    note = f"first {skipped} of {len(steps)} entries skipped as warm-up" if skipped else ""
    return tuple(_joined(part) for part in parts), note


def _joined(part: Sequence[Stretch]) -> Stretch:
    steps = None if any(each.steps is None for each in part) else sum(each.steps or 0 for each in part)
    return Stretch(sum(each.work for each in part), sum(each.seconds for each in part), steps)
