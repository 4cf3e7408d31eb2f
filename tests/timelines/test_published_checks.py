"""``gate --expect corpus:p25``: points against a percentile of published systems."""

from __future__ import annotations

import pytest

from scalecurve.bundle.open import open_bundles
from scalecurve_corpus.schema import CorpusError
from scalecurve_timelines.gate import CheckOutcome
from scalecurve_timelines.published_checks import checks_against, percentile_named
from tests.corpus.published import corpus, kind, published


def outcomes(percent: int, rates: list[float]) -> dict[tuple[str, int | None], CheckOutcome]:
    (bundle,) = open_bundles(["docs/evidence/gpu/sessions.zip"])
    checks, _ = checks_against(bundle, corpus(*kind(rates)), percent / 100)
    return {(check.series, check.workers): check.outcome for check in checks}


def test_a_point_passes_or_fails_by_the_percentile_it_is_held_against():
    systems = [3700.0, 3800.0, 3900.0, 4000.0, 4100.0]
    assert outcomes(25, systems)["weak", 2] is CheckOutcome.PASSED
    assert outcomes(75, systems)["weak", 2] is CheckOutcome.FAILED


def test_points_without_enough_systems_are_undecided():
    assert set(outcomes(25, [3700.0, 3800.0]).values()) == {CheckOutcome.UNDECIDED}


@pytest.mark.parametrize(("runs", "note"), [(12, "With 9 repetitions"), (5, "Error rates")])
def test_error_rates_are_noted_for_the_repetitions_of_the_bundle(runs: int, note: str):
    rates = [[base * (1 + 0.001 * (at % 3 - 1)) for at in range(runs)] for base in (3700, 3800, 3900, 4000, 4100)]
    systems = [published(f"S{at}", each) for at, each in enumerate(rates)]
    (bundle,) = open_bundles(["docs/evidence/gpu/sessions.zip"])
    checks, notes = checks_against(bundle, corpus(*systems), 0.25)
    assert any(check.compares for check in checks)
    assert notes[0].startswith(note)
    assert all(each.startswith("Of published systems") for each in notes[1:])


@pytest.mark.parametrize(("reference", "share"), [("corpus:p25", 0.25), ("corpus:p5", 0.05), ("corpus:p99", 0.99)])
def test_a_percentile_is_read(reference: str, share: float):
    assert percentile_named(reference) == pytest.approx(share)


@pytest.mark.parametrize("reference", ["corpus:", "corpus:25", "corpus:p0", "corpus:p100", "corpus:median"])
def test_another_word_is_refused_with_an_example(reference: str):
    with pytest.raises(CorpusError, match="corpus:p25"):
        percentile_named(reference)
