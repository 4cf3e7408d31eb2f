"""The verbs that print an analysis of bundles: ``compare``, ``cost`` and ``diagnose``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING

import click

from scalecurve.cli.bundles import bundles_argument, doubts, include_unproved_option, label_option, open_all
from scalecurve.cli.exit_codes import EXIT_ENVIRONMENT, EXIT_FAILED, EXIT_INPUT
from scalecurve.cli.output import Fraction, fail, output_option, say, show, show_or_end, text_width
from scalecurve.cli.price import price_options
from scalecurve_api.registry import Registry, RegistryError
from scalecurve_api.text import did_you_mean

if TYPE_CHECKING:
    from scalecurve.checks.compare import Comparison
    from scalecurve.cli.price import PriceOverride

PUBLISHED: Registry[FunctionType] = Registry("scalecurve.published", "collection of results", FunctionType, {})
"""Collections of published results that a bundle is compared with.

An entry is a function of bundles' paths, the name or file of the collection, what it calls the model ("" if not
stated), whether points that do not count are included, and the output format; it prints the comparison.
"""


@click.command("compare")
@click.argument("before", type=click.Path(path_type=Path))
@click.argument("after", required=False, type=click.Path(path_type=Path))
@click.option(
    "--with",
    "corpus",
    metavar="CORPUS",
    help="In place of AFTER: set the points beside published ones; 'corpus' is the collection that ships.",
)
@click.option("--as", "model", metavar="MODEL", help="With --with: what the corpus calls the model, such as bert.")
@click.option(
    "--threshold",
    type=Fraction(0, 1),
    default=0.01,
    show_default=True,
    help="Fail if the throughput of a point changed by more than this fraction, beyond noise.",
)
@click.option(
    "--history",
    multiple=True,
    metavar="BUNDLE",
    type=click.Path(path_type=Path),
    help="Earlier bundle of the same experiment, for the spread between sessions. Repeatable.",
)
@click.option(
    "--session-sd",
    type=Fraction(0, 1, min_open=True, max_open=True),
    help="Standard deviation of throughput between sessions, such as 0.5% or 0.005.  [default: as the sessions show; "
    "of fewer than three, with a prior of 0.9 %]",
)
@include_unproved_option
@output_option
def compare(
    before: Path,
    after: Path | None,
    corpus: str | None,
    model: str | None,
    threshold: float,
    history: tuple[Path, ...],
    session_sd: float | None,
    include_unproved: bool,
    output: str,
) -> None:
    """Show which points changed beyond noise; exit code 1 if one exceeds the threshold.

    Bundles that ran by turns in one session (run --against) are decided by it, others by the spread between sessions:
    that of several sessions, --history, or --session-sd; where these are few, by a prior. Two bundles without a common
    point are bad input (exit code 2).

    With --with, show where each point of one bundle stands among published systems: percentile, and what differs.
    """
    from scalecurve.checks.compare import compare

    if corpus is not None:
        paths = [path for path in (before, after) if path]
        _compare_with_published(paths, corpus, model or "", include_unproved, output)
        return
    if after is None:
        fail("AFTER: missing; expected a second bundle, or --with corpus", EXIT_INPUT)
    if model is not None:
        fail("--as applies to --with", EXIT_INPUT)
    if history and session_sd is not None:
        fail("--session-sd states what --history would estimate; drop one of them", EXIT_INPUT)
    first, second, *earlier = open_all([before, after, *history])
    try:
        comparison = compare(
            first, second, threshold, history=earlier, session_sd=session_sd, include_unproved=include_unproved
        )
    except ValueError as error:
        fail(f"--history: {error}", EXIT_INPUT)
    first_lines = doubts([first, second], include_unproved)
    if comparison.points or output in ("json", "csv"):
        show([comparison.table()], output, _result(comparison), first_lines)
    if not comparison.points:
        why = f" ({'; '.join(first_lines)})" if first_lines else ""
        fail(f"{before} and {after} have no measured point in common: nothing to compare{why}", EXIT_INPUT)
    sys.exit(EXIT_FAILED if comparison.past_threshold else 0)


def _result(comparison: Comparison) -> dict[str, object]:
    """Return what is said of all points together."""
    return {
        "pastThreshold": comparison.past_threshold,
        "decidedBy": comparison.decided_by,
        "falseAlarms": comparison.false_alarms,
    }


def _require_published(option: str) -> str:
    """Return the name of the first collection, which also reads files; ends the verb where none is installed."""
    for name in PUBLISHED.names():
        return name
    fail(f"{option}: no collection of published results is installed", EXIT_ENVIRONMENT)


def _compare_with_published(paths: Sequence[Path], name: str, model: str, include_unproved: bool, output: str) -> None:
    """Print where bundles stand among the points of a collection or a file; ends the verb if ``name`` is neither."""
    first = _require_published("--with")
    if name not in PUBLISHED and not Path(name).exists():
        near = did_you_mean(name, [*PUBLISHED.names(), *(path.name for path in Path().glob("*.corpus"))])
        hint = f"; did you mean {near!r}?" if near else ""
        expected = " or ".join(map(repr, PUBLISHED.names()))
        fail(f"--with: got {name!r}; expected {expected}, which ships, or a file of your own{hint}", EXIT_INPUT)
    try:
        compare = PUBLISHED.get(name if name in PUBLISHED else first)
    except RegistryError as error:
        fail(f"--with: {error}", EXIT_ENVIRONMENT)
    compare(paths, name, model, include_unproved, output)


@click.command("cost")
@bundles_argument
@label_option
@price_options
@include_unproved_option
@output_option
def cost(
    folders: tuple[Path, ...], labels: tuple[str, ...], price: PriceOverride, include_unproved: bool, output: str
) -> None:
    """Show time and cost of every point with intervals: per epoch, for the full training, and to the target.

    Marks the cheapest, the fastest and the Pareto-optimal worker counts.
    """
    from scalecurve.curves.cost import cost

    bundles = price.priced(open_all(folders, labels))
    costs = cost(bundles, price.cost, price_notes=price.notes(bundles), include_unproved=include_unproved)
    show_or_end([costs.table()], output, doubts(bundles, include_unproved))


@click.command("diagnose")
@bundles_argument
@output_option
def diagnose(folders: tuple[Path, ...], output: str) -> None:
    """Find stragglers, drift, bimodal steps, slow ranks and short warm-ups, with evidence and a suggested action."""
    from scalecurve.checks.diagnose import diagnose

    bundles = open_all(folders)
    diagnosis, first = diagnose(bundles), doubts(bundles, included=True)
    if output == "table":
        for line in first:
            say(f"warning: {line}")
        click.echo(diagnosis.paragraphs(text_width()), nl=False)
    else:
        show([diagnosis.table()], output, warnings=first)
