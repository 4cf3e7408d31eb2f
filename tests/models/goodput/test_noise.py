import pytest

from scalecurve_models.fitting.least_squares import FitError
from scalecurve_models.goodput.noise import fit_critical_batch, statistical_efficiency


def test_efficiency_is_one_at_the_reference_and_falls_with_the_batch():
    assert statistical_efficiency(1000, 100, 100) == pytest.approx(1)
    assert statistical_efficiency(1000, 100, 400) == pytest.approx((1000 + 100) / (1000 + 400))
    assert statistical_efficiency(1e-9, 64, 128) == pytest.approx(0.5)
    for bad in ((0, 8, 8), (10, 0, 8), (10, 8, 0)):
        with pytest.raises(FitError, match="noise scale and batches must be finite positive"):
            statistical_efficiency(*bad)


def test_the_critical_batch_comes_back_from_steps_to_a_target():
    batches = [32, 64, 128, 512, 2048]
    fit = fit_critical_batch(batches, [1000 * (1 + 400 / b) for b in batches])
    assert [p.value for p in fit.parameters] == pytest.approx([1000, 400])
    assert max(map(abs, fit.held_out)) < 1e-9
    flat = fit_critical_batch([32, 64], [100, 100])
    assert flat.parameters[1].note == "not identifiable: the larger batch saved no step"
    with pytest.raises(FitError, match="2 parameters need at least 2 different batches, got 1"):
        fit_critical_batch([32, 32], [100, 90])
