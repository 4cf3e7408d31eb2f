"""``predict POINTS.csv``, and ``predict --next`` of points or of a bundle."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from scalecurve.bundle.packed import is_packed
from scalecurve.cli.bundles import doubts, open_all
from scalecurve.cli.exit_codes import EXIT_INPUT
from scalecurve.cli.output import fail, show

if TYPE_CHECKING:
    from scalecurve.cli.price import PriceOverride


def predict_file(path: Path, counts: list[int], workers_per_node: int | None, output: str) -> None:
    """Print predictions or refusals for every series of a file of points."""
    from scalecurve_models.fit.predict_points import predict_points

    show([predict_points(path, counts, workers_per_node)], output)


def suggest_next(
    path: Path,
    counts: list[int],
    workers_per_node: int | None,
    price: PriceOverride,
    include_unproved: bool,
    output: str,
) -> None:
    """Print what to measure next, from a file of points or a bundle."""
    from scalecurve_models.fit.predict_points import suggest_points, suggestions

    if path.suffix.lower() == ".csv":
        show(price.annotated([suggest_points(path, counts, workers_per_node, price.cost)]), output)
        return
    if not (path.is_dir() or is_packed(path)):
        fail(f"{path}: --next needs measurements: a bundle, or POINTS.csv", EXIT_INPUT)
    from scalecurve.curves.compute import believable
    from scalecurve.curves.cost import merged, stated_price
    from scalecurve_models.fitting.observations import observed_series
    from scalecurve_models.laws.normal_form import CurvePoint

    (opened,) = open_all([path])
    bundle = believable(opened, include_unproved)
    observed = observed_series(bundle)
    series = {
        each.name: [CurvePoint(point.workers, point.throughput, point.point.nodes) for point in each.points]
        for each in observed
    }
    fullest = max((point.point.workers_per_node for each in observed for point in each.points), default=1)
    table = suggestions(series, counts, workers_per_node or fullest, merged(price.cost, stated_price(bundle)))
    show(price.annotated([table], [bundle]), output, warnings=doubts([opened], include_unproved))
