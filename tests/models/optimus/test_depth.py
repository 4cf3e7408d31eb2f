from dataclasses import replace

import numpy as np
import pytest

from scalecurve_models.fitting.least_squares import FitError
from scalecurve_models.optimus.depth import LossRun, leave_out_depth, regress
from scalecurve_models.optimus.loss import fit_loss

DEPTHS = (20, 32, 44, 56, 110)
STEPS = np.arange(1.0, 200)


def run(depth, device="gpu-a", seed=0, noise=0.02, effect=0.4, spread=0.0):
    """A net of the given depth, whose b0 grows with its parameters and whose seed moves every coefficient."""
    rng = np.random.default_rng([depth, seed, len(device)])
    size = depth * 13_000
    factor = np.exp(spread * rng.standard_normal(3))
    b = np.array([0.05 * (size / 3e5) ** effect, 0.4, 0.2 * (size / 3e5) ** -effect]) * factor
    losses = (1 / (b[0] * STEPS + b[1]) + b[2]) * (1 + noise * rng.standard_normal(len(STEPS)))
    fit = fit_loss(STEPS, losses)
    return LossRun(f"resnet{depth}", fit, STEPS, losses, depth, size, device, "cifar")


def test_a_real_dependence_on_size_is_found_and_predicts_a_left_out_depth():
    runs = [run(depth, seed=seed) for depth in DEPTHS for seed in range(2)]
    b0, b1, _ = regress(runs).coefficients
    assert b0.slope.low <= 0.4 <= b0.slope.high
    assert b0.verdict.startswith("depends on size")
    assert b0.held_out < b0.mean_held_out
    assert b1.verdict.startswith(("noise", "not shown"))
    assert b0.seed_scatter < 0.2
    for left in leave_out_depth(runs, 44):
        assert left.better_than_mean
        assert left.error < 0.1
        assert left.own_error <= left.error * 1.05


def test_seeds_alone_are_called_noise():
    runs = [run(depth, effect=0, spread=0.3) for depth in DEPTHS]
    verdicts = [c.verdict.split(":")[0] for c in regress(runs).coefficients]
    assert verdicts.count("depends on size") <= 1
    assert "one seed unless" in regress(runs).notes[0]


def test_every_further_device_has_an_effect_of_its_own():
    runs = [run(depth, device) for depth in DEPTHS for device in ("gpu-a", "gpu-bb", "gpu-ccc")]
    for coefficient in regress(runs).coefficients:
        assert coefficient.device is not None
        assert len(coefficient.further_devices) == 1


def test_a_left_out_depth_has_the_predicted_curve():
    runs = [run(depth) for depth in DEPTHS]
    (left,) = leave_out_depth(runs, DEPTHS[1])
    b0, b1, b2 = left.values
    predicted = 1 / (b0 * (left.run.steps - left.run.fit.first_step) + max(b1, 1e-12)) + b2
    assert float(np.abs(predicted / left.run.losses - 1).mean()) == pytest.approx(left.error)


def test_the_device_is_said_to_be_noise():
    runs = [run(depth, device) for depth in DEPTHS for device in ("gpu-a", "gpu-bb")]
    found = regress(runs)
    assert found.coefficients[0].device is not None
    assert any("does not depend on the device" in note for note in found.notes)
    assert regress(runs[:1] + runs[2:3]).coefficients[0].device is None


def test_depths_of_two_families_are_not_one_axis():
    runs = [run(depth) for depth in DEPTHS]
    wide = LossRun("resnet18", runs[0].fit, STEPS, runs[0].losses, 18, 11_000_000, "gpu-a", "wide")
    assert any("not comparable" in note for note in regress([*runs, wide], "depth").notes)


def test_two_depths_fit_any_line_and_say_so():
    found = regress([run(20), run(56)])
    assert all("any line" in c.verdict for c in found.coefficients)
    assert all(c.slope.low is None for c in found.coefficients)


def test_bad_input_is_refused_in_one_line():
    runs = [run(20), run(56)]
    with pytest.raises(FitError, match="no run of depth 99 \\(depths: 20, 56\\)"):
        leave_out_depth(runs, 99)
    with pytest.raises(FitError, match="a slope needs at least 2 different values of parameters, got 1"):
        leave_out_depth(runs, 20)
    unknown = LossRun("mlp", runs[0].fit, STEPS, runs[0].losses)
    with pytest.raises(FitError, match="unknown depth of mlp"):
        regress([unknown, *runs], "depth")


def test_a_coefficient_at_its_bound_has_no_error_without_end():
    """Found in a real run: b2 was 0 in all runs, b1 in nearly all, and their errors were nan and 1e13 %."""
    runs = [run(depth, seed=seed) for depth in (20, 32, 44) for seed in (0, 1)]
    flat = [replace(each, fit=replace(each.fit, values=np.array([each.fit.values[0], 1e-17, 0.0]))) for each in runs]
    flat[0] = replace(flat[0], fit=replace(flat[0].fit, values=np.array([flat[0].fit.values[0], 0.3, 0.0])))
    b0, b1, b2 = regress(flat).coefficients
    assert b0.held_out is not None
    assert b1.held_out is not None
    assert b1.held_out < 10, "over the mean size in all runs"
    assert (b2.held_out, b2.mean_held_out) == (None, None)
    assert b2.verdict == "no information: at its bound of 0 in every run"
    assert any(note.startswith("b1: 0 in some runs") for note in regress(flat).notes)
