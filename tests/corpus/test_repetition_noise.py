"""Between repetitions of published systems: what a plan takes as evidence of the noise."""

from scalecurve_corpus.repetition_noise import noise_of
from tests.corpus.published import corpus, published


def test_evidence_is_the_median_and_the_noisiest_tenth_of_published_systems():
    steady = [published(name, [1000, 1001, 1000, 1001, 1000]) for name in "ABCDEFGH"]
    median, ninetieth = noise_of(corpus(*steady, published("I", [1000, 1100, 900, 1000, 1050])))
    assert median.sd < 0.001 < ninetieth.sd
    assert "9" in median.seen_in
    assert (median.repetitions(0.05) or 0) < (ninetieth.repetitions(0.05) or 0)


def test_a_corpus_without_repetitions_is_no_evidence():
    assert noise_of(corpus(published("A", [1000.0]))) == []
