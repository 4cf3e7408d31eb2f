"""Learning rate over the epochs of a training to accuracy: gradual warm-up, then constant, in steps or a cosine."""

from __future__ import annotations

import math

from scalecurve_api.programs.optimizer import Decay, Optimizer


def rate_at(asked: Optimizer, epoch: float, epochs: int, workers: int) -> float:
    """The rate at ``epoch``, a real number from 0 to ``epochs``.

    Linear scaling and gradual warm-up are P. Goyal et al., "Accurate, large minibatch SGD", arXiv:1706.02677, sections
    2.1 and 2.2: the rate rises from ``learning_rate`` to ``workers`` times that; without scaling it rises from zero.
    The cosine is I. Loshchilov, F. Hutter, arXiv:1608.03983, equation 5, without restarts, from the end of the warm-up.
    """
    top = asked.learning_rate * (workers if asked.scale_with_workers else 1)
    if epoch < asked.warmup_epochs:
        begin = asked.learning_rate if asked.scale_with_workers else 0.0
        return begin + (top - begin) * epoch / asked.warmup_epochs
    match asked.decay:
        case Decay.constant:
            return top
        case Decay.multi_step:
            return float(top * asked.decay_factor ** sum(epoch >= milestone for milestone in asked.milestones))
        case Decay.cosine:
            left = max(epochs - asked.warmup_epochs, 1e-9)
            return top * 0.5 * (1 + math.cos(math.pi * min(1.0, (epoch - asked.warmup_epochs) / left)))


def changes(asked: Optimizer) -> bool:
    """Whether the rate is not the same in every step."""
    return asked.decay is not Decay.constant or asked.warmup_epochs > 0


def while_timed(asked: Optimizer, workers: int) -> Optimizer:
    """The rule with the rate of timed steps: the scaled one, without warm-up and decay."""
    rate = asked.learning_rate * (workers if asked.scale_with_workers else 1)
    return asked.model_copy(update={"learning_rate": rate})
