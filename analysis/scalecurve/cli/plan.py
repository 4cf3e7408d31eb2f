"""``scalecurve plan FILE``."""

from pathlib import Path

import click

from scalecurve.cli.bundles import open_all
from scalecurve.cli.output import Real, load_experiment, output_option, overlay_option, show


def _startup() -> float:
    from scalecurve.planning import DEFAULT_STARTUP_SECONDS

    return DEFAULT_STARTUP_SECONDS


@click.command("plan")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--step-time", type=Real(min=0, min_open=True, max=1e9), help="Seconds per step, for the totals.")
@click.option(
    "--startup",
    type=Real(min=0, max=1e9),
    default=_startup,
    show_default="15",
    help="Seconds per trial in addition to its steps.",
)
@click.option("--from", "earlier", type=click.Path(path_type=Path), help="Earlier bundle to take step times from.")
@overlay_option
@output_option
def command(
    file: Path,
    step_time: float | None,
    startup: float,
    earlier: Path | None,
    overlays: tuple[Path, ...],
    output: str,
) -> None:
    """Show the ordered trials and the totals (trials, worker-hours, cost) without starting anything."""
    from scalecurve.planning import plan

    experiment, _ = load_experiment(file, overlays)
    bundles = open_all([earlier]) if earlier else ()
    planned = plan(experiment, step_seconds=step_time, startup_seconds=startup, earlier=next(iter(bundles), None))
    show(planned.tables(), output)
