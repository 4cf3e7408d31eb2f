"""Shared by the tests of optimus_loss."""

import numpy as np

PAPER = np.array([0.21, 1.07, 0.07])  # Seq2Seq of the Optimus paper


STEPS = np.arange(350.0)


def losses(values, steps=STEPS):
    return 1 / (values[0] * steps + values[1]) + values[2]


def noisy(values, steps=STEPS, noise=0.03, seed=0):
    return losses(values, steps) * (1 + noise * np.random.default_rng(seed).standard_normal(len(steps)))
