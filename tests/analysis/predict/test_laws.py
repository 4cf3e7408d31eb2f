from collections import OrderedDict
from statistics import median

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scalecurve_api.spec.scaling import Mode
from scalecurve_models.fitting.least_squares import FitError
from scalecurve_models.laws.cross_validation import compare_laws, leave_one_out
from scalecurve_models.laws.definitions import ScalingLaw, laws_of
from scalecurve_models.laws.law_fit import fit_law

COUNTS = [1, 2, 4, 8, 16, 32]
NAMES = ("linear", "amdahl", "gustafson", "usl", "ring")


def find_law(name: str, mode: Mode = Mode.weak) -> ScalingLaw:
    return next(law for law in laws_of(mode) if law.name == name)


def law_of(name, values, counts, mode=Mode.weak, rate=100.0):
    return (rate * find_law(name, mode).speedup(np.array(values), np.array(counts, dtype=float))).tolist()


def test_the_laws_are_the_published_ones():
    n = np.array([1.0, 4, 16])
    speedup = {name: find_law(name).speedup for name in NAMES}
    assert speedup["linear"](np.zeros(0), n) == pytest.approx(n)
    assert speedup["amdahl"](np.array([0.1]), n) == pytest.approx(1 / (0.1 + 0.9 / n))
    assert speedup["gustafson"](np.array([0.1]), n) == pytest.approx(n - 0.1 * (n - 1))
    assert speedup["usl"](np.array([0.1, 0.01]), n) == pytest.approx(n / (1 + 0.1 * (n - 1) + 0.01 * n * (n - 1)))
    time = 1 + 0.2 * (1 - 1 / n) + 0.03 * (n - 1)
    assert speedup["ring"](np.array([0.2, 0.03]), n) == pytest.approx(n / time)
    strong = 1 / n + 0.2 * (1 - 1 / n) + 0.03 * (n - 1)
    assert find_law("ring", Mode.strong).speedup(np.array([0.2, 0.03]), n) == pytest.approx(1 / strong)


@settings(deadline=None, max_examples=60)
@given(
    st.sampled_from([form for form in laws_of() if form.symbols]),
    st.lists(st.floats(1e-4, 0.3), min_size=2, max_size=2),
    st.sampled_from([1, 2, 4]),
)
def test_a_law_finds_its_own_parameters_from_any_baseline(form, values, baseline):
    values = values[: len(form.symbols)]
    counts = [n for n in COUNTS if n >= baseline]
    fit = fit_law(form, counts, law_of(form.name, values, counts))
    assert fit.values == pytest.approx(values, rel=1e-5, abs=1e-7)
    assert fit.throughput([64])[0] == pytest.approx(law_of(form.name, values, [64])[0], rel=1e-4)
    assert max(map(abs, fit.residuals)) < 1e-7


def test_the_baseline_is_met_exactly_and_may_be_named():
    rates = [10.0, 19, 35, 60]
    fit = fit_law(find_law("usl"), [1, 2, 4, 8], rates, baseline=2)
    assert fit.throughput([2])[0] == pytest.approx(19)
    assert fit.predict(2).low is None
    with pytest.raises(FitError, match=r"^usl: the baseline of 3 workers was not measured$"):
        fit_law(find_law("usl"), [1, 2, 4, 8], rates, baseline=3)


@pytest.mark.parametrize("name", ["usl", "ring"])
def test_too_few_worker_counts_are_refused_in_one_line(name):
    with pytest.raises(FitError, match=f"^{name}: 2 parameters need at least 2 worker counts beside the baseline of 1"):
        fit_law(find_law(name), [1, 1, 2, 2], [10, 10.1, 19, 19.1])


def test_three_counts_are_fitted_exactly_by_two_parameters_and_that_is_said():
    fit = fit_law(find_law("ring"), [1, 2, 4], [10, 18, 33])
    assert fit.exact
    assert all(p.low is None and "no error estimate" in p.note for p in fit.parameters)
    assert fit.predict(8).low is None


def test_repetitions_give_intervals_but_do_not_test_the_shape():
    fit = fit_law(find_law("amdahl"), [1, 1, 1, 2, 2, 2], [10, 10.1, 9.9, 18, 18.2, 17.9])
    assert fit.exact
    low, high = fit.predict(4).low, fit.predict(4).high
    assert low < fit.throughput([4])[0] < high


def test_the_prediction_interval_covers_a_new_run():
    rng = np.random.default_rng(5)
    counts = np.repeat([1, 2, 4, 8], 3)
    truth = np.array(law_of("ring", [0.1, 0.01], counts))
    new = law_of("ring", [0.1, 0.01], [16])[0]
    inside = 0
    for _ in range(300):
        noisy = truth * np.exp(0.02 * rng.standard_normal(len(counts)))
        prediction = fit_law(find_law("ring"), counts.tolist(), noisy.tolist()).predict(16)
        inside += prediction.low <= new * np.exp(0.02 * rng.standard_normal()) <= prediction.high
    assert 0.9 <= inside / 300 <= 0.99


def test_a_share_is_at_most_one_however_slow_more_workers_are():
    fit = fit_law(find_law("amdahl"), [1, 2, 4], [100, 50, 20])
    (share,) = fit.parameters
    assert (share.value, share.high) == (1.0, 1.0)
    assert share.note == "at its bound of 1; the curve is slower than this law allows"
    assert fit.throughput([8])[0] == pytest.approx(100)


def test_values_that_are_no_throughput_are_refused():
    for rates in ([10, 0, 3], [10, -1, 3], [10, float("nan"), 3]):
        with pytest.raises(FitError, match=r"throughputs must be finite positive numbers, got .* as number 2"):
            compare_laws([1, 2, 4], rates)
    with pytest.raises(FitError, match="same length"):
        fit_law(find_law("usl"), [1, 2], [1.0])


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
    assert compared.best.form.name == "gustafson"
    assert compared.best.held_out_mean < 1e-12
    assert compared.law("amdahl").held_out_mean > 0.05
    assert compared.law("ring").in_sample_mean is not None


def test_a_perfect_line_is_best_told_without_parameters():
    assert compare_laws(COUNTS, [10.0 * n for n in COUNTS]).best.form.name == "linear"


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
    assert median(c.best.held_out_mean for c in compared.values()) <= 0.03


def test_efficiency_that_drops_once_is_a_ring_and_not_amdahl(reference):
    torch = next(points for name, points in published(reference).items() if name.startswith("ibm_ddl_torch"))
    compared = compare_laws(list(torch), list(torch.values()))
    assert max(map(abs, compared.law("amdahl").fit.residuals)) > 0.12
    assert max(map(abs, compared.law("ring").fit.residuals)) < 0.01
    assert compared.law("ring").held_out_mean < compared.law("amdahl").held_out_mean / 5
