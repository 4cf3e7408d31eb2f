"""Two experiments on one machine by turns. Pure."""

import random
from collections.abc import Sequence

from scalecurve_api.spec.trial import TrialSpec


def turns_of(trials: Sequence[TrialSpec], seed: int) -> list[tuple[int, str]]:
    """Which of two experiments with these trials runs its trial of a name when.

    Pairs stay together, so that they meet the same machine; who goes first alternates between repetitions of a point.
    """
    order = []
    for trial in trials:
        begins = random.Random(f"turns/{seed}/{trial.point.name}").randrange(2)
        turn = (begins + trial.repetition) % 2
        order += [(turn, trial.name), (1 - turn, trial.name)]
    return order
