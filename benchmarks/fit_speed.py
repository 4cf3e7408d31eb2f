"""How long every fit takes, left-out fits included (the bar is one second each), 10,000 Paleo predictions (5 s),
and 1,000 fits of one law (6 s).

    python -m benchmarks.fit_speed [--runs 5]

Medians of five, by the clock and of the processor: on a machine that others use, the clock says more of them. Sizes are
generous: 64 worker counts, 200,000 losses, 800 runs of a speed model, 30 message sizes at 4 worker counts.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np

from scalecurve.hardware.devices import find_device, find_link
from scalecurve_api.spec.scaling import Mode
from scalecurve_models.collectives.collective_fit import TimedAllReduce
from scalecurve_models.collectives.comparison import compare_algorithms
from scalecurve_models.collectives.costs import ALGORITHMS, LinkCost, RankGroup, cost
from scalecurve_models.goodput.overlap import StepTime, fit_overlap
from scalecurve_models.laws.cross_validation import compare_laws
from scalecurve_models.laws.definitions import laws_of
from scalecurve_models.laws.law_fit import fit_law
from scalecurve_models.networks import shipped
from scalecurve_models.optimus.loss import fit_loss
from scalecurve_models.optimus.speed import fit_speed, speed
from scalecurve_models.paleo.scaling import Platform, predict_step
from scalecurve_models.projection.roofline.devices import fit_energy, fit_utilization

RNG = np.random.default_rng(0)


def main() -> None:
    """Print one row a fit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=5, help="of each fit, after a first that is not timed")
    runs = parser.parse_args().runs
    fits: dict[str, Callable[[], object]] = {
        "scaling laws, all five": laws(),
        "usl, 1,000 fits": law_fits(),
        "Optimus, loss": loss(),
        "Optimus, speed": speeds(),
        "overlap and goodput": overlap(),
        "collectives, all": collectives(),
        "utilization": lambda: fit_utilization([8, 16, 32, 64], [0.1, 0.15, 0.25, 0.45]),
        "Paleo, 10,000 predictions": paleo(),
        "energy": lambda: fit_energy([1, 2, 4, 8], [100, 190, 350, 600], [5.5, 5.7, 5.9, 6.5]),
    }
    for name, fit in fits.items():
        fit()  # scipy is imported with the first
        taken = []
        for _ in range(runs):
            began = time.perf_counter(), time.process_time()
            fit()
            taken.append((time.perf_counter() - began[0], time.process_time() - began[1]))
        wall, cpu = np.median(taken, axis=0) * 1e3
        print(f"{name:28} {wall:8.1f} ms, {cpu:8.1f} ms of the processor")


def law_fits() -> Callable[[], object]:
    (law,) = (each for each in laws_of(Mode.strong) if each.name == "usl")
    workers = [1, 2, 4, 8, 16, 32]
    curves = [noisy(np.array([100 * n / (1 + 0.02 * (n - 1)) for n in workers])) for _ in range(1000)]
    return lambda: [fit_law(law, workers, curve) for curve in curves]


def noisy(values: np.ndarray) -> list[float]:
    return [float(value) for value in values * np.exp(0.02 * RNG.standard_normal(len(values)))]


def paleo() -> Callable[[], object]:
    network = shipped("inception_v3")
    platforms = [
        Platform(find_device(device), find_link(link), 0.62, 0.72)
        for device in ("K80", "V100", "H200")
        for link in ("ethernet20", "nvlink4")
    ]
    return lambda: [
        predict_step(network, platforms[i % 6], batch=1 + i % 512, workers=1 + i % 64, scaling="weak")
        for i in range(10_000)
    ]


def laws() -> Callable[[], object]:
    workers = np.repeat(np.arange(1, 65), 3)
    rates = noisy(100 * workers / (1 + 0.1 * (1 - 1 / workers) + 0.002 * (workers - 1)))
    return lambda: compare_laws(workers.tolist(), rates)


def loss() -> Callable[[], object]:
    steps = np.arange(200_000.0)
    losses = noisy(1 / (2e-4 * steps + 1.07) + 0.07)
    return lambda: fit_loss(steps.tolist(), losses)


def speeds() -> Callable[[], object]:
    workers, servers = RNG.integers(1, 24, 800).tolist(), RNG.integers(1, 24, 800).tolist()
    theta = (1.02, 2.78, 4.92, 0.01, 0.02)
    rates = [speed("sync", theta, w, servers=p, batch=40) for w, p in zip(workers, servers, strict=True)]
    measured = noisy(np.array(rates))
    return lambda: fit_speed("sync", workers, measured, servers=servers, batch=40)


def overlap() -> Callable[[], object]:
    runs = [(w, n, m) for w, n in ((1, 1), (2, 1), (4, 1), (8, 2), (16, 4)) for m in (16, 64, 256)]
    steps = noisy(np.array([0.01 + 0.002 * m + (0.02 + 0.001 * w if w > 1 else 0) for w, _, m in runs]))
    points = [
        StepTime(w, n, m, step, 0.01 + 0.002 * m) for (w, n, m), step in zip(runs, steps, strict=True)
    ]  # fmt: skip
    return lambda: fit_overlap(points)


def collectives() -> Callable[[], object]:
    ring = ALGORITHMS["ring"]
    cases = [(RankGroup(n), 8 * 2**i) for n in (2, 4, 8, 16) for i in range(30)]
    times = noisy(np.array([20e-6 + cost(ring, shape, size, LinkCost(1e-6, 3e-12)) for shape, size in cases]))
    points = [TimedAllReduce(shape, size, seconds) for (shape, size), seconds in zip(cases, times, strict=True)]
    return lambda: compare_algorithms(points)


if __name__ == "__main__":
    main()
