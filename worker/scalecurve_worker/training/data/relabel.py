"""``workload.data.labels``: which stored items train, how often, and under which label."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scalecurve_api.programs.labels import PseudoLabels, Resampling, TrainingLabels
from scalecurve_api.record.facts.dataset import LabelFacts
from scalecurve_worker.training.data.images import DataError

Items = NDArray[np.int64]
Scores = NDArray[np.floating]
Teacher = Callable[[Items], Scores]
"""Probabilities (items, classes) of stored items."""

_EXPONENT = {Resampling.natural: 1.0, Resampling.square_root: 0.5, Resampling.uniform: 0.0}


@dataclass(frozen=True)
class Relabeled:
    """``items`` are positions in the stored set, repeats included, and ``labels`` what each trains as."""

    items: Items
    labels: Items
    facts: LabelFacts


def relabel(
    stored: Items, classes: int, request: TrainingLabels, seed: int, teacher: Teacher | None = None
) -> Relabeled:
    """Make the training set that ``request`` asks for from labels (items,), the same in every process and run.

    Raises DataError where nothing is left to train on, or pseudo-labels lack their teacher.
    """
    present = _long_tail(stored, classes, request.imbalance, seed)
    labeled, unlabeled = _split(present, stored, classes, request.labeled, seed)
    labels, flipped = _add_noise(stored[labeled], classes, request.noise, seed)
    pseudo = Relabeled(labeled[:0], labels[:0], LabelFacts(stored=0))
    if request.pseudo_labels is not None:
        if teacher is None:
            raise DataError("data.labels.pseudoLabels: no teacher for this data set")
        pseudo = _pseudo(unlabeled, stored, teacher(unlabeled), request.pseudo_labels)
        if request.pseudo_labels.only:
            labeled, labels, flipped = labeled[:0], labels[:0], 0
    items, labels = np.concatenate([labeled, pseudo.items]), np.concatenate([labels, pseudo.labels])
    if not len(items):
        raise DataError("data.labels: no item is left to train on")
    before = len(items)
    if request.resampling is not Resampling.natural:
        chosen = _resample(labels, classes, _EXPONENT[request.resampling], seed)
        items, labels = items[chosen], labels[chosen]
    facts = LabelFacts(
        stored=len(stored),
        stored_counts=np.bincount(stored, minlength=classes).tolist(),
        left_out=len(stored) - len(present),
        unlabeled=len(unlabeled),
        flipped=flipped,
        pseudo_labeled=len(pseudo.items),
        pseudo_correct=int((pseudo.labels == stored[pseudo.items]).sum()),
        distinct=len(np.unique(items)),
        before_resampling=before,
    )
    return Relabeled(items, labels, facts)


def _random(seed: int, purpose: int) -> np.random.Generator:
    """A generator of its own for each step, so that one option does not change the draws of another."""
    return np.random.default_rng((seed, purpose))


def _members(labels: Items, classes: int) -> list[Items]:
    return [np.flatnonzero(labels == number) for number in range(classes)]


def _long_tail(stored: Items, classes: int, imbalance: float, seed: int) -> Items:
    """Class c of C keeps the share imbalance^(-c/(C-1)), at least one item: exponential, as in long-tailed CIFAR."""
    if imbalance == 1 or classes < 2:
        return np.arange(len(stored))
    random = _random(seed, 1)
    kept = []
    for number, members in enumerate(_members(stored, classes)):
        size = max(1, round(len(members) * imbalance ** (-number / (classes - 1)))) if len(members) else 0
        kept.append(random.permutation(members)[:size])
    return np.sort(np.concatenate(kept))


def _split(present: Items, stored: Items, classes: int, share: float, seed: int) -> tuple[Items, Items]:
    """(labeled, unlabeled) items: of each class the share rounded up."""
    if share == 1:
        return present, present[:0]
    random = _random(seed, 2)
    shuffled = [random.permutation(present[members]) for members in _members(stored[present], classes)]
    parts = [(members[: (cut := math.ceil(share * len(members)))], members[cut:]) for members in shuffled]
    return np.sort(np.concatenate([one for one, _ in parts])), np.sort(np.concatenate([rest for _, rest in parts]))


def _add_noise(labels: Items, classes: int, share: float, seed: int) -> tuple[Items, int]:
    """Symmetric noise: exactly the share, rounded, is replaced by one of the other classes."""
    flips = round(share * len(labels))
    if flips == 0 or classes < 2:
        return labels, 0
    random = _random(seed, 3)
    where = random.permutation(len(labels))[:flips]
    noisy = labels.copy()
    noisy[where] = (noisy[where] + random.integers(1, classes, flips)) % classes
    return noisy, flips


def _pseudo(unlabeled: Items, stored: Items, scores: Scores, request: PseudoLabels) -> Relabeled:
    """Section 3.2 of arXiv:1905.00546: an image is ranked in its P best classes, and a class takes its K best images.

    Ties go to the item that is stored first.
    """
    if len(scores) != len(unlabeled) or not np.isfinite(scores).all():
        raise DataError("data.labels.pseudoLabels.teacher: it gives scores that are not finite numbers")
    best = np.argsort(-scores, axis=1, kind="stable")[:, : request.classes_per_image]
    items, labels = [], []
    for number in range(scores.shape[1]):
        ranked = np.flatnonzero((best == number).any(axis=1))
        ranked = ranked[np.argsort(-scores[ranked, number], kind="stable")][: request.per_class]
        items.append(unlabeled[ranked])
        labels.append(np.full(len(ranked), number, np.int64))
    return Relabeled(np.concatenate(items), np.concatenate(labels), LabelFacts(stored=len(stored)))


def _resample(labels: Items, classes: int, exponent: float, seed: int) -> Items:
    """As many items as before, class sizes in proportion to their power of ``exponent``: copies and a random rest."""
    random = _random(seed, 4)
    members = [each for each in _members(labels, classes) if len(each)]
    weights = np.array([float(len(each)) ** exponent for each in members])
    exact = weights / weights.sum() * len(labels)
    sizes = np.floor(exact).astype(int)
    missing = len(labels) - int(sizes.sum())
    sizes[np.argsort(-(exact - sizes), kind="stable")[:missing]] += 1
    chosen = []
    for each, size in zip(members, sizes.tolist(), strict=True):
        times, rest = divmod(size, len(each))
        chosen.append(np.concatenate([np.tile(each, times), random.permutation(each)[:rest]]))
    return np.concatenate(chosen)
