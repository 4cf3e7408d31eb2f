"""Learning-rate schedules of a training to accuracy: linear warm-up, then constant, multi-step or cosine."""

import math

from scalecurve_api.programs.optimizer import Decay, Optimizer


def rate_at(optimizer: Optimizer, epoch: float, epochs: int, workers: int) -> float:
    """Return the rate at ``epoch``, a real number from 0 to ``epochs``.

    Linear scaling and gradual warm-up are P. Goyal et al., "Accurate, large minibatch SGD", arXiv:1706.02677, sections
    2.1 and 2.2: the rate rises from ``learning_rate`` to ``workers`` times that; without scaling it rises from zero.
    The cosine is I. Loshchilov, F. Hutter, arXiv:1608.03983, equation 5, without restarts, from the end of the warm-up.
    """
    top = optimizer.learning_rate * (workers if optimizer.scale_with_workers else 1)
    if epoch < optimizer.warmup_epochs:
        begin = optimizer.learning_rate if optimizer.scale_with_workers else 0.0
        return begin + (top - begin) * epoch / optimizer.warmup_epochs
    match optimizer.decay:
        case Decay.constant:
            return top
        case Decay.multi_step:
            return float(top * optimizer.decay_factor ** sum(epoch >= milestone for milestone in optimizer.milestones))
        case Decay.cosine:
            left = max(epochs - optimizer.warmup_epochs, 1e-9)
            return top * 0.5 * (1 + math.cos(math.pi * min(1.0, (epoch - optimizer.warmup_epochs) / left)))


def changes(optimizer: Optimizer) -> bool:
    """Tell whether the rate is not the same in every step."""
    return optimizer.decay is not Decay.constant or optimizer.warmup_epochs > 0


def while_timed(optimizer: Optimizer, workers: int) -> Optimizer:
    """Return the rule with the rate of timed steps: the scaled one, without warm-up and decay."""
    rate = optimizer.learning_rate * (workers if optimizer.scale_with_workers else 1)
    return optimizer.model_copy(update={"learning_rate": rate})
