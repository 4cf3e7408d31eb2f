"""Acceptance against published systems, and its error rates before the run."""

from __future__ import annotations

import math

import numpy as np
import pytest

from scalecurve.corpus.acceptance import BELOW, error_rates, refuses
from scalecurve.corpus.corpus_file import load_shipped
from tests.analysis.corpus.published import corpus, published


def test_a_machine_below_beyond_doubt_is_refused_and_one_within_noise_is_not():
    rates = [98.9, 99.0, 99.1]
    assert refuses(rates, 100.0) is True
    assert refuses(rates, 99.05) is False
    assert refuses([101.0, 101.1, 101.2], 100.0) is False


def test_one_repetition_decides_nothing():
    assert refuses([50.0], 100.0) is None


def test_the_rates_hold_for_machines_that_were_drawn_anew():
    """2,000 acceptances of drawn machines against what was stated beforehand from others, within two points."""
    draw = np.random.default_rng(11)

    def machine(at: int) -> list[float]:
        return list(np.exp(draw.normal(0, 0.004 * math.exp(draw.normal(0, 0.5)), 10)))

    stated = error_rates(3, corpus(*(published(f"S{at}", machine(at)) for at in range(600))))
    refused = np.zeros(len(BELOW) + 1)
    for at in range(2000):
        runs = machine(at)
        truth = math.exp(float(np.log(runs).mean()))
        begin = int(draw.integers(8))
        for place, below in enumerate((0.0, *BELOW)):
            refused[place] += refuses(runs[begin : begin + 3], truth / (1 - below)) is True
    for seen, said in zip(refused / 2000, (stated.false_alarms, *stated.power), strict=True):
        assert abs(seen - said) < 0.03, (refused / 2000, stated)


def test_more_repetitions_find_more_and_raise_few_alarms():
    shipped = load_shipped()
    few, many = error_rates(3, shipped), error_rates(8, shipped)
    assert few.false_alarms < 0.06
    assert many.false_alarms < 0.06
    assert list(few.power) == sorted(few.power)
    assert many.power[1] > few.power[1] > 0.7
    assert few.sentence.startswith("With 3 repetitions")


@pytest.mark.parametrize("repetitions", [1, 40])
def test_repetitions_that_nothing_is_known_of_are_refused(repetitions: int):
    with pytest.raises(ValueError, match=f"repetitions: got {repetitions}"):
        error_rates(repetitions, corpus(published(per_device=[100.0 + at for at in range(10)])))
