"""``scalecurve demo``."""

from __future__ import annotations

import os
import shutil
import sys
import webbrowser
from importlib import resources
from pathlib import Path

import click

from scalecurve.cli.exit_codes import EXIT_ENVIRONMENT
from scalecurve.cli.output import fail, show
from scalecurve.cli.price import PriceOverride
from scalecurve.cli.quickstart import command as quickstart
from scalecurve.cli.report import write_report
from scalecurve_api.problem import printable

SHIPPED = "demo.zip"
"""ResNet-50 on 1, 2 and 4 H200s; docs/evidence/h200 says how it was measured."""
PRICES = "hyperstack_h200"
"""A published price of an H200, in place of the one in the experiment."""
_DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY")


@click.command("demo")
@click.option("--into", type=click.Path(path_type=Path), default="results", show_default=True, help="Output folder.")
@click.option("--live", is_flag=True, help="Measure on this machine instead: the same as `scalecurve quickstart`.")
@click.option("--browser/--no-browser", default=True, help="Open the report in a browser, if there is a display.")
@click.pass_context
def command(context: click.Context, into: Path, live: bool, browser: bool) -> None:
    """Show a finished measurement: ResNet-50 on 1, 2 and 4 H200 GPUs, its table and its report.

    Needs no GPU, no torch and no network. The bundle is copied beside the report, to try every verb on.
    """
    if live:
        context.invoke(quickstart, into=into, resume=False, time_limit=180.0, quiet=False)
        return
    bundle, page = _write_demo(into / "demo")
    _show_table(bundle)
    click.echo(f"\nbundle: {printable(str(bundle))}  (try: scalecurve explain {printable(str(bundle))})")
    click.echo(f"report: {printable(str(page))}")
    if browser and has_display():
        webbrowser.open(page.resolve().as_uri())


def _write_demo(folder: Path) -> tuple[Path, Path]:
    """The shipped bundle in a folder of the user's, and the page of its report."""
    from scalecurve.bundle.open import open_bundle
    from scalecurve.hardware.prices import find_price

    bundle = folder / "resnet50-h200.zip"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with resources.files("scalecurve.cli").joinpath(SHIPPED).open("rb") as shipped, bundle.open("wb") as copy:
            shutil.copyfileobj(shipped, copy)
    except OSError as error:
        fail(f"{error.filename or folder}: cannot be written: {error.strerror}", EXIT_ENVIRONMENT)
    price = find_price(PRICES)
    (page,) = write_report([open_bundle(bundle)], folder / "report", ("html",), PriceOverride(price.cost(), price))
    return bundle, page


def _show_table(bundle: Path) -> None:
    from scalecurve.bundle.open import open_bundle
    from scalecurve.curves.compute import scaling
    from scalecurve.curves.tables import scaling_table

    measured = scaling([open_bundle(bundle)])
    for series in measured.series:
        click.echo(printable(series.headline))
    click.echo("")
    show([scaling_table(measured)], "table")


def has_display() -> bool:
    """Whether a browser has a screen to open on."""
    return sys.platform in ("darwin", "win32") or any(os.environ.get(name) for name in _DISPLAYS)
