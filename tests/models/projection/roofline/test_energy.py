import numpy as np
import pytest

from scalecurve_models.projection.roofline.devices import fit_energy


def test_energy_comes_apart_into_work_and_waiting():
    workers, rate = np.array([1, 2, 4, 8]), np.array([100, 190, 350, 600])
    joules = 2.5 + 300 * workers / rate
    fit = fit_energy(workers, rate, joules)
    assert [p.value for p in fit.parameters] == pytest.approx([2.5, 300])
    assert max(map(abs, fit.held_out)) < 1e-9


def test_two_energies_have_no_error_and_perfect_scaling_tells_nothing():
    assert [p.low for p in fit_energy([1, 2], [100, 180], [5.0, 5.2]).parameters] == [None, None]
    same = fit_energy([1, 2, 4], [100, 200, 400], [5.0, 5.1, 4.9])
    assert same.parameters[0].note == "not identifiable: in these points it varies only together with p"
