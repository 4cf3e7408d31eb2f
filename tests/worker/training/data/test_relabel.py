"""Label noise, long tails, resampling and a teacher's labels: exact counts, and the same draws everywhere."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalecurve_api.programs.labels import PseudoLabels, Resampling, TrainingLabels
from scalecurve_worker.training.data.images import DataError
from scalecurve_worker.training.data.relabel import Items, Scores, relabel

STORED = np.repeat(np.arange(4), 25)


def counts(labels: Items) -> list[int]:
    return np.bincount(labels, minlength=4).tolist()


def test_labels_as_stored_by_default():
    same = relabel(STORED, 4, TrainingLabels(), seed=0)
    assert same.items.tolist() == list(range(100))
    assert same.labels.tolist() == STORED.tolist()
    assert (same.facts.flipped, same.facts.unlabeled, same.facts.distinct) == (0, 0, 100)


@given(st.floats(0, 0.99), st.integers(0, 5))
def test_noise_flips_exactly_its_share(noise: float, seed: int):
    noisy = relabel(STORED, 4, TrainingLabels(noise=noise), seed)
    assert int((noisy.labels != STORED[noisy.items]).sum()) == noisy.facts.flipped == round(100 * noise)
    assert set(noisy.labels.tolist()) <= set(range(4))


def test_the_same_draws_for_the_same_seed_and_others_for_another():
    first, again, other = (relabel(STORED, 4, TrainingLabels(noise=0.3), seed) for seed in (1, 1, 2))
    assert first.labels.tolist() == again.labels.tolist() != other.labels.tolist()


def test_a_long_tail_by_hand():
    # 27^(-c/3) of 25: 25, 8.33, 2.78, 0.93.
    tail = relabel(STORED, 4, TrainingLabels(imbalance=27.0), seed=0)
    assert counts(tail.labels) == [25, 8, 3, 1]
    assert tail.facts.left_out == 100 - 37
    assert tail.labels.tolist() == STORED[tail.items].tolist()


@pytest.mark.parametrize(
    ("resampling", "sizes"),
    # Of 37 items in 25, 8, 3, 1: equal shares, and 17.5, 9.9, 6.1, 3.5 in proportion to 5, 2.83, 1.73, 1.
    [(Resampling.uniform, [10, 9, 9, 9]), (Resampling.square_root, [18, 10, 6, 3])],
)
def test_resampling_by_hand(resampling: Resampling, sizes: list[int]):
    even = relabel(STORED, 4, TrainingLabels(imbalance=27.0, resampling=resampling), seed=0)
    assert counts(even.labels) == sizes
    assert even.labels.tolist() == STORED[even.items].tolist()
    assert even.facts.before_resampling == 37
    assert even.facts.distinct == len(set(even.items.tolist()))


def perfect(items: Items) -> Scores:
    """Sure of the label, the surer the earlier the item, and second of the class after it."""
    scores = np.full((len(items), 4), 0.01)
    scores[np.arange(len(items)), STORED[items]] = 0.9 - items / 1000
    scores[np.arange(len(items)), (STORED[items] + 1) % 4] = 0.05 + items / 10_000
    return scores


def test_a_teacher_labels_the_best_of_each_class():
    request = TrainingLabels(labeled=0.2, pseudo_labels=PseudoLabels(teacher="t.pt", per_class=3))
    student = relabel(STORED, 4, request, 0, perfect)
    assert counts(student.labels) == [5 + 3] * 4
    assert (student.facts.unlabeled, student.facts.pseudo_labeled, student.facts.pseudo_correct) == (80, 12, 12)
    labeled, pseudo = student.items[:20].tolist(), student.items[20:].tolist()
    # The first three of each class that have no label.
    assert pseudo == [i for k in range(4) for i in sorted(set(range(25 * k, 25 * k + 25)) - set(labeled))[:3]]


def test_an_image_may_be_of_several_classes():
    request = TrainingLabels(labeled=0.2, pseudo_labels=PseudoLabels(teacher="t.pt", per_class=40, classes_per_image=2))
    facts = relabel(STORED, 4, request, 0, perfect).facts
    # All 20 unlabeled ones of the class, and as many of the class before it.
    assert (facts.pseudo_labeled, facts.pseudo_correct) == (160, 80)


def test_a_student_may_see_pseudo_labels_alone():
    request = TrainingLabels(labeled=0.2, noise=0.5, pseudo_labels=PseudoLabels(teacher="t", per_class=2, only=True))
    student = relabel(STORED, 4, request, 0, perfect)
    assert (len(student.items), student.facts.flipped) == (8, 0)


def test_a_teacher_that_knows_nothing_is_refused():
    request = TrainingLabels(labeled=0.2, pseudo_labels=PseudoLabels(teacher="t"))
    with pytest.raises(DataError, match="not finite"):
        relabel(STORED, 4, request, 0, lambda items: np.full((len(items), 4), np.nan))
    with pytest.raises(DataError, match="no teacher"):
        relabel(STORED, 4, request, 0)
