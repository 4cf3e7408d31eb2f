"""``scalecurve plan FILE``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from scalecurve.cli.bundles import open_all
from scalecurve.cli.output import Real, device_memory_gb, load_experiment, output_option, overlay_option, show
from scalecurve.cli.selection import selector

if TYPE_CHECKING:
    from scalecurve.bundle.open import Bundle
    from scalecurve.render.table import Table


def _startup() -> float:
    from scalecurve.planning.plan import DEFAULT_STARTUP_SECONDS

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
@click.option("--device", help="Device that memory is compared with, such as H200.")
@click.option(
    "--search",
    is_flag=True,
    help="Show what `run --search` would drop at once, and its rounds of trials, beside the full grid.",
)
@click.option(
    "--difference",
    "differences",
    type=Real(min=0, min_open=True, max=50),
    multiple=True,
    help="Show how many repetitions decide a difference of so many percent. Repeatable.",
)
@overlay_option
@output_option
def command(
    file: Path,
    step_time: float | None,
    startup: float,
    earlier: Path | None,
    device: str | None,
    search: bool,
    differences: tuple[float, ...],
    overlays: tuple[Path, ...],
    output: str,
) -> None:
    """Show the ordered trials and the totals (trials, worker-hours, cost) without starting anything."""
    from scalecurve.planning.memory import memory_table
    from scalecurve.planning.plan import plan

    if search:
        candidates = selector().candidates(file, overlays, device_memory_gb(device))
        show(selector().planned(candidates), output)
        return
    experiment, _ = load_experiment(file, overlays)
    bundles = open_all([earlier]) if earlier else ()
    planned = plan(experiment, step_seconds=step_time, startup_seconds=startup, earlier=next(iter(bundles), None))
    spec = experiment.spec
    limit = device_memory_gb(device) or spec.resources.device_memory_gb
    laid_out = any(point.parallelism is not None for point in planned.plan.points)
    memory = memory_table(spec, limit) if laid_out or limit is not None else None
    tables = [*planned.tables(), *([memory] if memory is not None else [])]
    if differences:
        tables.append(_decisive(differences, next(iter(bundles), None)))
    show(tables, output)


def _decisive(differences: tuple[float, ...], earlier: Bundle | None) -> Table:
    from scalecurve.planning.decisive import decisive_table, repetition_noise

    changes = sorted({percent / 100 for percent in differences})
    return decisive_table(changes, repetition_noise(earlier))
