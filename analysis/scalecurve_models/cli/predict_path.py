"""``scalecurve predict EXPERIMENT|BUNDLE``: before anything has run, or from measurements."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from scalecurve.bundle.packed import is_packed
from scalecurve.cli.bundles import doubts, include_unproved_option, open_all
from scalecurve.cli.exit_codes import EXIT_ENVIRONMENT, EXIT_INPUT
from scalecurve.cli.output import fail, load_experiment, options_as, output_option, overlay_option, show
from scalecurve.cli.price import price_options
from scalecurve_models.cli.arguments import input_errors, integers, network_named, platform_of, ppp_options
from scalecurve_models.cli.predict import PREDICTORS

if TYPE_CHECKING:
    from scalecurve.cli.price import PriceOverride
    from scalecurve_models.networks import Network
    from scalecurve_models.paleo.scaling import Platform


@dataclass(frozen=True)
class _Projection:
    """What a projection is made from, and where it is kept."""

    measured: tuple[Path, ...]
    node_link: str | None
    record: Path | None
    score: bool

    @property
    def requested(self) -> bool:
        return bool(self.measured) or self.score

    def check(self, path: Path, other: bool) -> None:
        """Refuse combinations; ``other`` tells whether there are options of another prediction."""
        if (self.node_link or self.record) and not self.measured:
            fail("--node-link and --record require --measured", EXIT_INPUT)
        if self.requested and (other or (self.measured and self.score)):
            which = "--measured" if self.measured else "--score"
            fail(f"{which}: --device, --network, --precision, --hold-out and --next do not apply", EXIT_INPUT)
        is_bundle = path.is_dir() or is_packed(path)
        if self.measured and (is_bundle or path.suffix.lower() == ".csv"):
            fail(f"{path}: --measured applies to an experiment; a bundle is predicted from what it holds", EXIT_INPUT)
        if self.score and not is_bundle:
            fail(f"{path}: --score needs a bundle", EXIT_INPUT)


_projection_options = options_as(
    "projection",
    _Projection,
    click.option(
        "--measured",
        metavar="BUNDLE",
        multiple=True,
        type=click.Path(path_type=Path),
        help="For an experiment: project its step from one measured worker and measured collectives. Repeatable.",
    ),
    click.option("--node-link", help="With --measured: the link between nodes, as --link. Required for several nodes."),
    click.option(
        "--record",
        metavar="BUNDLE",
        type=click.Path(path_type=Path),
        help="With --measured: keep the prediction in the bundle of the run to come, as the next line of its ledger; "
        "run with --resume then.",
    ),
    click.option(
        "--score", is_flag=True, help="For a bundle: compare its recorded predictions with what was measured."
    ),
)


@click.command("predict")
@click.argument("path", metavar="EXPERIMENT|BUNDLE|POINTS.csv", type=click.Path(path_type=Path))
@overlay_option
@click.option("--workers", metavar="N,N", help="Worker counts: 8,16,64.  [default: those of the experiment or bundle]")
@click.option(
    "--workers-per-node",
    type=click.IntRange(min=1),
    help="At counts that were not measured.  [default: the most that were]",
)
@click.option("--next", "suggest", is_flag=True, help="Show which count to measure next, to predict the largest.")
@click.option("--device", help="A shipped device, or a .yaml file. Required for an experiment.")
@click.option(
    "--link",
    help="A shipped link, a .yaml file, or a rate such as 25gbps. Requires --device or --measured.",
)
@click.option("--network", "net", help="A network other than the workload's model: a shipped name, or a file.")
@ppp_options
@click.option("--precision", help="For a bundle with --device.  [default: the workload's]")
@click.option("--hold-out", metavar="N,N", help="Worker counts of a bundle to exclude from every fit.")
@_projection_options
@price_options
@include_unproved_option
@output_option
def command(
    path: Path,
    overlays: tuple[Path, ...],
    workers: str | None,
    workers_per_node: int | None,
    suggest: bool,
    device: str | None,
    link: str | None,
    net: str | None,
    ppp_comp: float | None,
    ppp_comm: float | None,
    software: str,
    precision: str | None,
    hold_out: str | None,
    projection: _Projection,
    price: PriceOverride,
    include_unproved: bool,
    output: str,
) -> None:
    """Predict throughput, run time and cost at any worker count.

    An EXPERIMENT (YAML) is predicted before anything has run, from its network, a device and a link; or with --measured
    from the step that it would run, one measured worker and measured all-reduces (or --link). A BUNDLE is
    predicted by every model that its measurements support, each with its errors at points excluded from its fit; with
    --device also by Paleo, uncalibrated and calibrated on one worker. Of timed collectives alone, such as those of
    nccl-tests, the time at every message size is predicted. A MODEL name instead of the path predicts with that model
    alone: see scalecurve predict --help.

    POINTS.csv has the columns workers,throughput[,series][,nodes]; others are ignored, and a row without a throughput
    requests a prediction at its count and nodes. Each count is predicted with an interval, or refused with the reason.
    """
    if not path.exists():
        models = ", ".join(PREDICTORS.names())
        fail(f"{path}: no such experiment, bundle, points file or model (models: {models})", EXIT_INPUT)

    counts = integers(workers, "--workers")
    projection.check(path, other=bool(device or net or precision or hold_out or suggest))
    by_device = (net, precision, ppp_comp, ppp_comm, None if projection.measured else link)
    if device is None and any(each is not None for each in by_device):
        fail("--link, --network, --precision, --ppp-comp and --ppp-comm require --device", EXIT_INPUT)
    with input_errors():
        if projection.requested:
            _predict_projection(path, overlays, counts, link, projection, output)
            return
        points = path.suffix.lower() == ".csv"
        if (points or suggest) and (device or net or hold_out or overlays):
            what = "POINTS.csv" if points else "--next"
            fail(f"{what}: --device, --network, --hold-out and --overlay do not apply", EXIT_INPUT)
        if suggest:
            _suggest_next(path, counts, workers_per_node, price, include_unproved, output)
            return
        if points:
            from scalecurve_models.fit.predict_points import predict_points

            show([predict_points(path, counts, workers_per_node)], output)
            return
        platform = platform_of(device, link, ppp_comp, ppp_comm, software, precision or "fp32") if device else None
        network = network_named(net) if net else None
        if path.is_dir() or is_packed(path):
            if overlays:
                fail("--overlay applies to experiments only; a bundle holds what was measured", EXIT_INPUT)
            held_out = integers(hold_out, "--hold-out")
            _predict_bundle(
                path, counts, workers_per_node, platform, network, precision, held_out, price, include_unproved, output
            )
            return
        if hold_out is not None or precision is not None or include_unproved:
            only = "--hold-out, --precision and --include-unproved"
            fail(f"{only} apply to bundles only; an experiment defines its own", EXIT_INPUT)
        if workers_per_node is not None:
            fail("--workers-per-node: an experiment has its own placement", EXIT_INPUT)
        _predict_experiment(path, overlays, counts, platform, network, price, output)


def _predict_experiment(
    path: Path,
    overlays: tuple[Path, ...],
    counts: list[int],
    platform: Platform | None,
    network: Network | None,
    price: PriceOverride,
    output: str,
) -> None:
    from scalecurve.curves.cost import merged
    from scalecurve.hardware.devices import devices
    from scalecurve_models.paleo.a_priori import predict_experiment

    experiment, _ = load_experiment(path, overlays, reads_data=False)
    if (cost := price.source_price(str(path))) is not None:
        spec = experiment.spec.model_copy(update={"cost": merged(cost, experiment.spec.cost)})
        experiment = experiment.model_copy(update={"spec": spec})
    if platform is None:
        known = ", ".join(devices())
        fail(f"{path}: --device is required to predict from an experiment (devices: {known})", EXIT_INPUT)
    show(price.annotate(predict_experiment(experiment, platform, counts, network)), output)


def _predict_bundle(
    path: Path,
    counts: list[int],
    workers_per_node: int | None,
    platform: Platform | None,
    network: Network | None,
    precision: str | None,
    hold_out: list[int],
    price: PriceOverride,
    include_unproved: bool,
    output: str,
) -> None:
    from scalecurve.curves.compute import believable, set_aside_note
    from scalecurve_models.collectives.comparison import compare_bundle
    from scalecurve_models.collectives.predictions import list_timed_counts, predict_collective, prediction_table
    from scalecurve_models.comparison.tables import prediction_tables
    from scalecurve_models.fitting.observations import observed_series
    from scalecurve_models.paleo.paleo_fit import paleo_models

    (opened,) = price.priced(open_all([path]))
    bundle = believable(opened, include_unproved)
    series = observed_series(bundle)
    collectives, too_few = ((), ()) if series else compare_bundle(bundle)
    if collectives:
        if platform or hold_out:
            fail(f"{path}: has timed collectives only; --device and --hold-out apply to trainings", EXIT_INPUT)
        counts = counts or list_timed_counts(collectives)
        predicted = [predict_collective(compared, counts, workers_per_node) for compared in collectives]
        show([prediction_table(collectives, predicted)], output, warnings=doubts([opened], include_unproved))
        return
    counts = counts or sorted({n for each in series for n in each.workers})
    if not counts:
        why = "".join(f"; {reason}" for reason in too_few)
        fail(f"{path}: has no measured points to predict from{set_aside_note(bundle)}{why}", EXIT_INPUT)
    extra = paleo_models(bundle, platform, network, precision) if platform else None
    tables = prediction_tables(
        bundle,
        counts,
        price.cost,
        hold_out=hold_out,
        extra_models=extra,
        include_unproved=True,
        workers_per_node=workers_per_node,
    )
    show(price.annotate(tables, [bundle]), output, warnings=doubts([opened], include_unproved))


def _suggest_next(
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
        show(price.annotate([suggest_points(path, counts, workers_per_node, price.source_price(str(path)))]), output)
        return
    if not (path.is_dir() or is_packed(path)):
        fail(f"{path}: --next needs measurements: a bundle, or POINTS.csv", EXIT_INPUT)
    from scalecurve.curves.compute import believable
    from scalecurve.curves.cost import merged, stated_price
    from scalecurve_models.fitting.observations import observed_series
    from scalecurve_models.laws.normal_form import CurvePoint

    (opened,) = price.priced(open_all([path]))
    bundle = believable(opened, include_unproved)
    observed = observed_series(bundle)
    series = {
        each.name: [CurvePoint(point.workers, point.throughput, point.point.nodes) for point in each.points]
        for each in observed
    }
    fullest = max((point.point.workers_per_node for each in observed for point in each.points), default=1)
    table = suggestions(series, counts, workers_per_node or fullest, merged(price.cost, stated_price(bundle)))
    show(price.annotate([table], [bundle]), output, warnings=doubts([opened], include_unproved))


def _predict_projection(
    path: Path, overlays: tuple[Path, ...], counts: list[int], link: str | None, options: _Projection, output: str
) -> None:
    """Print the projection of an experiment, and keep it with ``--record``; or a bundle's scores."""
    if options.score:
        _score(path, output)
        return
    from scalecurve.hardware.devices import find_link
    from scalecurve_models.projection.error_ledger import prediction_of, record_prediction
    from scalecurve_models.projection.links import links_of
    from scalecurve_models.projection.projection import project
    from scalecurve_models.projection.tables import exchange_table, projection_table

    experiment, text = load_experiment(path, overlays, reads_data=False)
    bundles = open_all(options.measured)
    node_link = find_link(options.node_link) if options.node_link else None
    links = links_of(bundles, find_link(link) if link else None, node_link)
    projections = project(experiment, counts, bundles, links)
    if all(each.refused for each in projections):
        fail(f"{path}: {projections[0].refused}", EXIT_INPUT)
    tables = [projection_table(projections, experiment.metadata.name), exchange_table(projections)]
    if options.record is not None:
        prediction = prediction_of(experiment, projections, bundles)
        try:
            name = record_prediction(options.record, experiment, text, prediction)
        except OSError as error:
            fail(f"{options.record}: {error.strerror or error}", EXIT_ENVIRONMENT)
        click.echo(f"recorded in {options.record} as {name}; run it with: --bundle {options.record} --resume", err=True)
    show(tables, output)


def _score(path: Path, output: str) -> None:
    """Print every recorded prediction of a bundle beside what was measured."""
    from scalecurve_models.projection.error_ledger import scores
    from scalecurve_models.projection.tables import score_table

    (bundle,) = open_all([path])
    show([score_table(scores(bundle))], output)
