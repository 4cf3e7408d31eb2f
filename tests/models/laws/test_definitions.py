import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scalecurve_api.spec.scaling import Mode
from scalecurve_models.laws.definitions import laws_of
from scalecurve_models.laws.law_fit import fit_law
from tests.models.laws.laws_cases import COUNTS, NAMES, find_law, law_of


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


@settings(max_examples=60)
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
