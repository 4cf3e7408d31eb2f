import numpy as np
import pytest

from scalecurve_models.projection.roofline.devices import fit_utilization


def test_the_batch_that_reaches_half_speed_comes_back():
    batches = np.array([8, 16, 32, 64, 128])
    fit = fit_utilization(batches, 0.02 + 0.001 * batches, flops_per_sample=1e9, peak=4e12)
    values = {p.name: p.value for p in fit.parameters}
    assert values == pytest.approx({"t0": 0.02, "t1": 0.001, "half_batch": 20, "mfu_max": 0.25})
    assert max(map(abs, fit.held_out)) < 1e-9
    unknown = fit_utilization(batches, 0.02 + 0.001 * batches)
    assert [p.name for p in unknown.parameters] == ["t0", "t1", "half_batch"]
