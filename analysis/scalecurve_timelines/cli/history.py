"""``scalecurve history FOLDER...``."""

from __future__ import annotations

from pathlib import Path

import click

from scalecurve.bundle.problem import BundleError
from scalecurve.cli.bundles import include_unproved_option
from scalecurve.cli.exit_codes import EXIT_ENVIRONMENT, EXIT_INPUT
from scalecurve.cli.output import fail, output_option, progress_bar, quiet_option, show
from scalecurve_api.problem import printable
from scalecurve_api.text import count


@click.command("history")
@click.argument("folders", metavar="FOLDER...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--experiment", "experiments", metavar="NAME", multiple=True, help="Only this experiment. Repeatable.")
@click.option(
    "--metric",
    type=click.Choice(("throughput", "efficiency")),
    default="throughput",
    show_default=True,
    help="What is followed over time.",
)
@click.option(
    "--by",
    metavar="FACT",
    help="Group sessions by what was recorded of them: session, machine, device, GPU, engine, torch or another "
    "version. The table of groups then comes first.",
)
@click.option(
    "--site", metavar="DIR", type=click.Path(path_type=Path), help="Also write a static site into this folder."
)
@click.option("--mlflow", metavar="URI", help="Also log each session as a run at this MLflow tracking URI, once.")
@click.option(
    "--catalog",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="SQLite file that keeps what was read of each bundle.  [default: history.sqlite in the user's cache]",
)
@include_unproved_option
@output_option
@quiet_option
def command(
    folders: tuple[Path, ...],
    experiments: tuple[str, ...],
    metric: str,
    by: str | None,
    site: Path | None,
    mlflow: str | None,
    catalog: Path | None,
    include_unproved: bool,
    output: str,
    quiet: bool,
) -> None:
    """Show experiments over time: every bundle, folder or packed file, at or below each FOLDER.

    Lists each point with its level now and its last change, and all changes with when, by how much, and what else was
    recorded differently. Changes are tested per session, with a 5 % false-positive rate per experiment.
    """
    from scalecurve_timelines.catalog import default_catalog
    from scalecurve_timelines.tables import SESSION, changes_table, groups_table, points_table, sessions_table
    from scalecurve_timelines.timeline import history

    try:
        with progress_bar("reading bundles", quiet) as progress:
            found = history(
                folders,
                "efficiency" if metric == "efficiency" else "throughput",
                catalog=catalog or default_catalog(),
                experiments=experiments,
                include_unproved=include_unproved,
                progress=progress,
            )
        tables = [points_table(found), changes_table(found)]
        if by == SESSION or (experiments and by is None):
            sessions = [sessions_table(timeline) for timeline in found.timelines]
            tables = [*sessions, *tables] if by else [*tables, *sessions]
        elif by is not None:
            tables.insert(0, groups_table(found, by))
    except BundleError as error:
        fail(str(error), EXIT_INPUT)
    except ValueError as error:
        fail(f"--by: {error}" if by and "recorded" in str(error) else str(error), EXIT_INPUT)
    except OSError as error:
        fail(f"--catalog {error.filename or catalog}: {error.strerror}", EXIT_ENVIRONMENT)
    show(tables, output, {"bundlesRead": found.read, "bundles": found.bundles})
    if mlflow is not None:
        from scalecurve_timelines.mlflow_export import MlflowError, export

        try:
            logged, known = export(found, mlflow)
        except MlflowError as error:
            fail(f"--mlflow: {error}", EXIT_ENVIRONMENT)
        click.echo(printable(f"{count(logged, 'run')} logged at {mlflow}, {known} before"), err=output != "table")
    if site is not None:
        from scalecurve_timelines.site import write_site

        try:
            written = write_site(found, site)
        except OSError as error:
            fail(f"--site {error.filename or site}: cannot be written: {error.strerror}", EXIT_ENVIRONMENT)
        click.echo(
            printable(f"{count(len(written), 'file')} in {site}, beginning with {written[0]}"), err=output != "table"
        )
