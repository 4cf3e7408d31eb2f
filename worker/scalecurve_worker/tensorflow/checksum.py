"""A digest of what every replica must agree on, taken outside any window."""

import hashlib
from typing import Any

import numpy as np

from scalecurve_worker.tensorflow.training import components


def replica_checksums(strategy: Any, model: Any) -> list[str]:
    """For each replica of this process: names, shapes, types and bits of its own trainable variables, by name.

    Running statistics of batch norm are left out: they are each replica's own.
    """
    ordered = sorted(model.trainable_variables, key=lambda variable: str(variable.path))
    digests = [hashlib.blake2b(digest_size=16) for _ in components(strategy, ordered[0])]
    for variable in ordered:
        for digest, value in zip(digests, components(strategy, variable), strict=True):
            values = np.ascontiguousarray(value.numpy())
            digest.update(f"{variable.path}{values.shape}{values.dtype}".encode())
            digest.update(values.tobytes())
    return [digest.hexdigest() for digest in digests]
