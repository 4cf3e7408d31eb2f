"""Acceptance against published systems, and its error rates before the run."""

from __future__ import annotations

import math

import numpy as np
import pytest

from scalecurve_corpus.acceptance import BELOW, error_rates, refuses
from scalecurve_corpus.corpus_file import load_shipped
from scalecurve_corpus.refused_systems import refused_systems
from tests.corpus.published import corpus, published


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
        begin = int(draw.integers(8))
        others = runs[:begin] + runs[begin + 3 :]
        truth = math.exp(float(np.log(others).mean()))
        for place, below in enumerate((0.0, *BELOW)):
            refused[place] += refuses(runs[begin : begin + 3], truth / (1 - below), further=7) is True
    for seen, said in zip(refused / 2000, (stated.false_alarms, *stated.power), strict=True):
        assert abs(seen - said) < 0.03, (refused / 2000, stated)


@pytest.mark.parametrize("repetitions", [3, 5, 8])
def test_false_alarms_are_as_promised_whatever_the_repetitions(repetitions: int):
    """They were counted against a mean that the tested runs were part of, and so fell to 0.1 % with eight."""
    draw = np.random.default_rng(5)
    systems = [published(f"S{at}", list(np.exp(draw.normal(0, 0.01, 10)))) for at in range(600)]
    assert error_rates(repetitions, corpus(*systems)).false_alarms == pytest.approx(0.05, abs=0.015)


def test_published_systems_are_refused_about_as_often_as_the_percentile_says():
    found = refused_systems(load_shipped(), 0.25, 3)
    assert found is not None
    assert (found.refused, found.judged) == (33, 146)
    assert found.sentence.startswith("Of published systems 23 % would be refused (33 of 146), by p25")
    assert refused_systems(corpus(published("A"), published("B")), 0.25, 3) is None


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
