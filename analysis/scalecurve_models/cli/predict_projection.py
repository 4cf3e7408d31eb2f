"""``predict EXPERIMENT --measured BUNDLE``: the step that would run, and ``predict BUNDLE --score``."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click

from scalecurve.bundle.packed import is_packed
from scalecurve.cli.bundles import open_all
from scalecurve.cli.exit_codes import EXIT_ENVIRONMENT, EXIT_INPUT
from scalecurve.cli.output import fail, load_experiment, options_as, show


@dataclass(frozen=True)
class ProjectionOptions:
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


projection_options = options_as(
    "projection",
    ProjectionOptions,
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


def predict_projection(
    path: Path, overlays: tuple[Path, ...], counts: list[int], link: str | None, options: ProjectionOptions, output: str
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

    experiment, text = load_experiment(path, overlays)
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
