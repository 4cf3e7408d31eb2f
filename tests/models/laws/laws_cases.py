"""Shared by the tests of laws."""

import numpy as np

from scalecurve_api.spec.scaling import Mode
from scalecurve_models.laws.definitions import ScalingLaw, laws_of

COUNTS = [1, 2, 4, 8, 16, 32]


NAMES = ("linear", "amdahl", "gustafson", "usl", "ring")


def find_law(name: str, mode: Mode = Mode.weak) -> ScalingLaw:
    return next(law for law in laws_of(mode) if law.name == name)


def law_of(name, values, counts, mode=Mode.weak, rate=100.0):
    return (rate * find_law(name, mode).speedup(np.array(values), np.array(counts, dtype=float))).tolist()
