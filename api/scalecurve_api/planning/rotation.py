"""Which devices or nodes small counts get: others in each repetition, so that no curve hangs on one device."""

import random


def rotated(slots: int, seed: int, repetition: int) -> list[int]:
    """The slots of a machine, or the nodes of a series, in the order in which a repetition uses them.

    Of as many repetitions as there are slots each begins at another one, in an order that the seed gives. Of 2, 4, 8
    slots aligned groups stay together (i xor k), as devices that share a link or a socket are aligned; of other numbers
    the order is turned.
    """
    starts = list(range(slots))
    random.Random(f"devices/{seed}").shuffle(starts)
    start = starts[repetition % slots] if slots else 0
    aligned = slots & (slots - 1) == 0
    return [slot ^ start if aligned else (slot + start) % slots for slot in range(slots)]
