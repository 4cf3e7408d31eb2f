from collections import OrderedDict
from statistics import median

import pytest

from scalecurve_api.spec.scaling import Mode
from scalecurve_models.laws.cross_validation import compare_laws, leave_one_out
from tests.models.laws.laws_cases import COUNTS, NAMES, find_law, law_of


def test_held_out_errors_come_from_fits_that_did_not_see_the_point():
    rates = law_of("ring", [0.1, 0.01], [1, 2, 4, 8])
    spoilt = [*rates[:3], rates[3] / 2]
    left = leave_one_out(find_law("ring"), [1, 2, 4, 8], spoilt)
    assert [point.workers for point in left] == [2, 4, 8]
    assert left[-1].predicted == pytest.approx(rates[3])
    assert left[-1].error == pytest.approx(1)


def test_the_best_law_is_chosen_by_what_it_did_not_see():
    rates = law_of("gustafson", [0.15], COUNTS)
    compared = compare_laws(COUNTS, rates)
    assert [law.form.name for law in compared.leading] == ["gustafson", "ring"], "0.3 points apart"
    assert compared.best is None
    assert compared.leading[0].held_out_mean < 1e-12
    assert compared.law("amdahl").held_out_mean > 0.05
    assert compared.law("ring").in_sample_mean is not None


def test_a_perfect_line_crowns_no_law_that_can_be_one():
    compared = compare_laws(COUNTS, [10.0 * n for n in COUNTS])
    assert compared.leading[0].form.name == "linear"
    assert len(compared.leading) > 1
    assert compared.best is None


def test_two_counts_leave_the_line_alone_and_one_leaves_nothing():
    two = compare_laws([1, 2], [10, 19])
    assert two.best.form.name == "linear"
    assert two.law("amdahl").held_out_mean is None
    assert "got 1" in two.law("ring").failure
    assert compare_laws([4], [10]).best is None


def test_a_strong_ring_is_the_universal_law():
    rates = [10, 18, 33, 50, 66]
    compared = compare_laws([1, 2, 4, 8, 16], rates, mode=Mode.strong)
    assert compared.law("ring").fit.values == pytest.approx(compared.law("usl").fit.values)


def published(reference):
    """Every published series of three or more worker counts: {name: {gpus: value}}."""
    series = OrderedDict()
    for row in reference("published_scaling.csv"):
        key = " ".join(row[part] for part in ("source_id", "model", "batch_per_gpu", "data", "comm"))
        series.setdefault(key, {})[int(row["gpus"])] = float(row["value"])
    return {name: points for name, points in series.items() if len(points) >= 3}


def test_published_series_are_predicted_within_three_percent(reference, capsys):
    compared = {name: compare_laws(list(p), list(p.values())) for name, p in published(reference).items()}
    assert len(compared) == 26
    by_form = {
        name: [c.law(name).held_out_mean for c in compared.values() if c.law(name).held_out_mean is not None]
        for name in NAMES
    }
    with capsys.disabled():
        print("\nmean held-out error of", len(compared), "published series, median (largest):", end=" ")
        print(", ".join(f"{n} {median(e):.1%} ({max(e):.1%})" for n, e in by_form.items() if e))
    assert min(median(errors) for errors in by_form.values()) <= 0.03
    assert median(min(law.held_out_mean for law in c.leading) for c in compared.values()) <= 0.03


def test_efficiency_that_drops_once_is_a_ring_and_not_amdahl(reference):
    torch = next(points for name, points in published(reference).items() if name.startswith("ibm_ddl_torch"))
    compared = compare_laws(list(torch), list(torch.values()))
    assert max(map(abs, compared.law("amdahl").fit.residuals)) > 0.12
    assert max(map(abs, compared.law("ring").fit.residuals)) < 0.01
    assert compared.law("ring").held_out_mean < compared.law("amdahl").held_out_mean / 5
