"""Coefficients of factors: what was put into the curves comes out, and what they do not tell is not told."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scalecurve.bundle.open import Bundle, distinct_labels, open_bundle
from scalecurve_importing.import_bundle import import_bundle
from scalecurve_models.comparison.factors import EFFICIENCY, THROUGHPUT, Coefficient, factor_coefficients, factor_table

COUNTS = (1, 2, 4, 8)


def bundle_of(folder: Path, name: str, factors: dict[str, str], rate: float, slope: float = 0.0) -> Bundle:
    """A weak curve of ``rate`` a worker that loses ``slope`` of it at each doubling."""
    header = ",".join(["workers", "images/s", "mode", *factors])
    rows = [
        ",".join([str(n), repr(rate * n * (1 - slope * doubling)), "weak", *factors.values()])
        for doubling, n in enumerate(COUNTS)
    ]
    (folder / f"{name}.csv").write_text("\n".join([header, *rows]) + "\n")
    import_bundle([folder / f"{name}.csv"], folder / name)
    return open_bundle(folder / name)


def at(coefficients: tuple[Coefficient, ...], quantity: str, level: str) -> Coefficient:
    return next(each for each in coefficients if (each.quantity, each.level) == (quantity, level))


@settings(max_examples=15)
@given(device=st.floats(0.05, 20), network=st.floats(0.3, 3))
def test_crossed_factors_come_out(tmp_path_factory: pytest.TempPathFactory, device: float, network: float) -> None:
    folder = tmp_path_factory.mktemp("crossed")
    cells = [("T4", "tcp", 1.0), ("T4", "rdma", network), ("V100", "tcp", device), ("V100", "rdma", device * network)]
    bundles = [
        bundle_of(folder, f"{gpu}-{net}".lower(), {"gpu": gpu, "network": net}, 100 * factor, 0.02)
        for gpu, net, factor in cells
    ]
    coefficients, _ = factor_coefficients(bundles)
    assert at(coefficients, THROUGHPUT, "V100").ratio == pytest.approx(device, rel=1e-6)
    assert at(coefficients, THROUGHPUT, "rdma").ratio == pytest.approx(network, rel=1e-6)
    assert at(coefficients, EFFICIENCY, "V100").ratio == pytest.approx(1, rel=1e-6)


def test_the_interval_includes_how_far_curves_are_from_parallel(tmp_path: Path) -> None:
    flat = bundle_of(tmp_path, "t4", {"gpu": "T4"}, 100)
    bent = bundle_of(tmp_path, "v100", {"gpu": "V100"}, 300, 0.1)
    (coefficients, notes) = factor_coefficients([flat, bent])
    throughput = at(coefficients, THROUGHPUT, "V100")
    assert throughput.low is not None
    assert throughput.high is not None
    assert throughput.low < 3 * 0.85 < throughput.high
    efficiency = at(coefficients, EFFICIENCY, "V100")
    assert efficiency.ratio == pytest.approx((0.9 * 0.8 * 0.7) ** (1 / 3))
    assert not notes


def test_factors_that_go_together_are_named(tmp_path: Path) -> None:
    old = bundle_of(tmp_path, "old", {"gpu": "T4", "network": "tcp"}, 100)
    new = bundle_of(tmp_path, "new", {"gpu": "V100", "network": "rdma"}, 300)
    coefficients, notes = factor_coefficients([old, new])
    assert {each.factor for each in coefficients} == {"device"}
    assert notes == ("network differs exactly as device does: its effect is in that of device",)


def test_bundles_alone_are_a_factor(tmp_path: Path) -> None:
    last = bundle_of(tmp_path, "last", {"gpu": "T4"}, 100)
    this = bundle_of(tmp_path, "this", {"gpu": "T4"}, 110)
    coefficients, _ = factor_coefficients(distinct_labels([last, this]))
    assert at(coefficients, THROUGHPUT, "this").factor == "experiment"
    assert at(coefficients, THROUGHPUT, "this").ratio == pytest.approx(1.1)


def test_one_curve_has_no_factors(tmp_path: Path) -> None:
    assert not factor_table([bundle_of(tmp_path, "alone", {"gpu": "T4"}, 100)]).rows
