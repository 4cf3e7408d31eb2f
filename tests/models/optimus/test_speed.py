import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scalecurve_models.fitting.least_squares import FitError
from scalecurve_models.optimus.speed import fit_speed, speed

SYNC = (1.02, 2.78, 4.92, 0.0, 0.02)


ASYNC = (2.83, 3.92, 0.0, 0.11)


def test_published_vectors_are_met_to_their_last_digit(reference):
    for row in reference("optimus_speed_vectors.csv"):
        p, w = int(row["p"]), int(row["w"])
        assert speed("sync", SYNC, w, servers=p, batch=40) == pytest.approx(
            float(row["sync_steps_per_s(M=40)"]), abs=6e-7
        )
        assert speed("async", ASYNC, w, servers=p) == pytest.approx(float(row["async_steps_per_s"]), abs=6e-7)


def runs(count, seed=0):
    rng = np.random.default_rng(seed)
    return rng.integers(1, 13, count), rng.integers(1, 13, count)


@settings(max_examples=40)
@given(st.lists(st.floats(0.01, 10), min_size=5, max_size=5), st.integers(0, 1000))
def test_known_coefficients_come_back(theta, seed):
    p, w = runs(60, seed)
    sync = [speed("sync", theta, a, servers=b, batch=128) for a, b in zip(w, p, strict=True)]
    fit = fit_speed("sync", w, sync, servers=p, batch=128)
    assert fit.values == pytest.approx(theta, rel=1e-6, abs=1e-9)
    apart = [speed("async", theta[:4], a, servers=b) for a, b in zip(w, p, strict=True)]
    assert fit_speed("async", w, apart, servers=p).values == pytest.approx(theta[:4], rel=1e-6, abs=1e-9)


@pytest.mark.parametrize(("kind", "theta"), [("sync", SYNC), ("async", ASYNC)])
def test_speeds_of_unseen_runs_are_predicted_from_ten_noisy_ones(kind, theta):
    errors = []
    for seed in range(30):
        p, w = runs(10, seed)
        rng = np.random.default_rng(seed)
        measured = [speed(kind, theta, a, servers=b, batch=40) for a, b in zip(w, p, strict=True)]
        fit = fit_speed(kind, w, measured * (1 + 0.03 * rng.standard_normal(10)), servers=p, batch=40)
        new_p, new_w = runs(20, seed + 1000)
        errors += [
            fit.predict(a, servers=b, batch=40).value / speed(kind, theta, a, servers=b, batch=40) - 1
            for a, b in zip(new_w, new_p, strict=True)
        ]
    assert np.median(np.abs(errors)) <= 0.05


def test_left_out_runs_are_predicted_by_the_others():
    p, w = runs(40)
    measured = np.array([speed("sync", SYNC, a, servers=b, batch=40) for a, b in zip(w, p, strict=True)])
    fit = fit_speed("sync", w, measured, servers=p, batch=40)
    assert max(map(abs, fit.held_out)) < 1e-9
    exact = fit_speed("async", [1, 2, 1, 2], [0.1, 0.2, 0.3, 0.25], servers=[1, 1, 2, 2])
    assert exact.held_out == (None,) * 4
    assert any("fits exactly" in note for note in exact.notes)


def test_runs_with_as_many_servers_as_workers_identify_less_and_say_so():
    n = [1, 2, 3, 4, 6, 8]
    measured = [speed("sync", SYNC, a, servers=a, batch=40) for a in n]
    fit = fit_speed("sync", n, measured, servers=n, batch=40)
    by_name = {p.name: p for p in fit.parameters}
    assert by_name["theta0"].value == pytest.approx(1.02)
    assert by_name["theta3"].note.endswith("only together with theta4")
    assert by_name["theta1"].note.endswith("only together with theta2")
    assert any("not identifiable" in note for note in fit.notes)
    assert fit.predict(5, servers=5, batch=40).value == pytest.approx(speed("sync", SYNC, 5, servers=5, batch=40))


def test_workers_alone_are_the_same_equation_with_servers_fixed():
    w = np.repeat([1, 2, 4, 8, 12], 2)
    batch = np.tile([64, 128], 5)
    measured = [speed("sync", SYNC, a, servers=2, batch=b) for a, b in zip(w, batch, strict=True)]
    fit = fit_speed("workers", w, measured, batch=batch)
    assert fit.values == pytest.approx([1.02, 2.78 + 0.04, 4.92 / 2])


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: fit_speed("sync", [1, 2, 3, 4], [1, 1, 1, 1], servers=[1, 1, 2, 2], batch=8), "5 parameters need at "),
        (lambda: fit_speed("async", [1, 2, 3], [1, 1, 1], servers=[1, 1, 2]), "at least 4 different runs, got 3"),
        (lambda: fit_speed("sync", [1, 2], [1, 1], servers=[0, 1], batch=8), "server counts must be .* got 0 as "),
        (lambda: fit_speed("sync", [1, 2], [0, 1], servers=[1, 1], batch=8), "speeds must be .* got 0 as number 1"),
        (lambda: fit_speed("sync", [1, 2], [1, 1], batch=8), "needs the number of parameter servers"),
        (lambda: fit_speed("workers", [1, 2, 3], [1, 1, 1]), "needs the global batch M"),
        (lambda: speed("sync", SYNC, 2, servers=1), "needs the global batch M"),
        (lambda: speed("sync", (1, 2), 2, servers=1, batch=8), "needs 5 coefficients, got 2"),
        (lambda: speed("asink", (1, 2), 2), "kind 'asink': expected one of sync, async, workers"),
        (lambda: speed("async", (0, 0, 0, 0), 2), "give a step time of 0"),
    ],
)
def test_bad_input_is_refused_in_one_line(call, said):
    with pytest.raises(FitError, match=said) as caught:
        call()
    assert "\n" not in str(caught.value)
