"""``scalecurve gate BUNDLE``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from scalecurve.bundle.problem import BundleError
from scalecurve.cli.bundles import include_unproved_option, open_all
from scalecurve.cli.exit_codes import EXIT_ENVIRONMENT, EXIT_FAILED, EXIT_INPUT
from scalecurve.cli.output import Fraction, fail, output_option, show, show_or_end
from scalecurve_api.problem import printable
from scalecurve_api.registry import RegistryError

if TYPE_CHECKING:
    from scalecurve.bundle.open import Bundle
    from scalecurve_timelines.gate import Gate, GateCheck


@click.command("gate")
@click.argument("bundle", required=False, type=click.Path(path_type=Path))
@click.option("--baseline", metavar="BUNDLE", type=click.Path(path_type=Path), help="Bundle to compare with.")
@click.option(
    "--history",
    "folders",
    metavar="FOLDER",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Folder of earlier bundles: their sessions since the last change decide. Repeatable.",
)
@click.option(
    "--expect",
    metavar="FILE",
    multiple=True,
    help="YAML file of expected throughputs by device, fabric and model; 'shipped' are those that ScaleCurve's "
    "authors measured; 'corpus:p25' is the 25th percentile of published systems (`scalecurve corpus`). Repeatable.",
)
@click.option(
    "--threshold",
    type=Fraction(0, 10),
    default=0.01,
    show_default=True,
    help="Against a baseline or a history: fail where throughput fell by more than this fraction, beyond noise.",
)
@click.option(
    "--session-sd",
    type=Fraction(0, 1, min_open=True, max_open=True),
    help="Standard deviation of throughput between sessions, such as 0.5% or 0.005.  [default: as the sessions show; "
    "of fewer than three, with a prior of 0.9 %]",
)
@click.option(
    "--allow-undecided", is_flag=True, help="Exit 0 also if no number could be compared, as at the first run."
)
@click.option("--markdown", metavar="FILE", type=click.Path(path_type=Path), help="Write a comment for a pull request.")
@click.option("--junit", "junit_file", metavar="FILE", type=click.Path(path_type=Path), help="Write JUnit's XML.")
@click.option(
    "--write-expect",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Write this bundle's results as a file of expectations and exit.",
)
@click.option(
    "--tolerance",
    type=Fraction(0, 1, min_open=True, max_open=True),
    help="With --write-expect: allowed shortfall, as a fraction.  [default: by the spread of the bundle's sessions]",
)
@click.option(
    "--catalog",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="As of `scalecurve history`.  [default: history.sqlite in the user's cache]",
)
@include_unproved_option
@output_option
def command(
    bundle: Path | None,
    baseline: Path | None,
    folders: tuple[Path, ...],
    expect: tuple[str, ...],
    threshold: float,
    session_sd: float | None,
    allow_undecided: bool,
    markdown: Path | None,
    junit_file: Path | None,
    write_expect: Path | None,
    tolerance: float | None,
    catalog: Path | None,
    include_unproved: bool,
    output: str,
) -> None:
    """Check a BUNDLE in CI: every trial valid, and throughput not below a baseline, its history, or expectations.

    Exit code 0 if nothing failed, 1 if a check failed, 2 for bad input, if a point failed once and needs a fresh
    session (run --add-session), and also if no number could be compared (see --allow-undecided). The bundle itself
    may be in the history: it is not compared with itself.

    Without a BUNDLE, before anything is run, show the smallest regression that it would see at each point.
    """
    from scalecurve.curves.compute import believable
    from scalecurve.hardware.entries import EntryError
    from scalecurve_timelines.catalog import default_catalog
    from scalecurve_timelines.expectations import expectations_of, written_expectations
    from scalecurve_timelines.gate import gate
    from scalecurve_timelines.verdicts import comment, gate_table, junit

    kept = (catalog or default_catalog()) if folders else None
    if bundle is None:
        _show_foreseen(baseline, folders, threshold, session_sd, kept, include_unproved, output)
        return
    opened, *others = open_all([bundle, *([baseline] if baseline else [])])
    if write_expect is not None:
        try:
            text = written_expectations(opened, _relative(bundle), tolerance, session_sd)
        except ValueError as error:
            fail(str(error), EXIT_INPUT)
        _write(write_expect, text)
        click.echo(printable(str(write_expect)))
        return
    if tolerance is not None:
        fail("--tolerance applies to --write-expect; files of expectations state their own", EXIT_INPUT)
    named = [reference for reference in expect if ":" in reference and not Path(reference).exists()]
    try:
        result = gate(
            opened,
            others[0] if others else None,
            folders,
            expectations_of(reference for reference in expect if reference not in named),
            threshold,
            session_sd=session_sd,
            catalog=kept,
            include_unproved=include_unproved,
            further=_further(believable(opened, include_unproved), named),
        )
    except (BundleError, EntryError) as error:
        fail(str(error), EXIT_INPUT)
    except ValueError as error:
        fail(f"{bundle}: {error} (--baseline, --history, --expect)", EXIT_INPUT)
    except OSError as error:
        fail(f"--catalog {error.filename or catalog}: {error.strerror}", EXIT_ENVIRONMENT)
    if markdown is not None:
        _write(markdown, comment(result))
    if junit_file is not None:
        _write(junit_file, junit(result))
    if output == "md":
        click.echo(comment(result), nl=False)
    else:
        show([gate_table(result)], output, _result(result))
    _exit(result, bundle, allow_undecided)


def _exit(result: Gate, bundle: Path, allow_undecided: bool) -> None:
    from scalecurve_timelines.gate import CheckOutcome

    if result.failed:
        sys.exit(EXIT_FAILED)
    if result.unconfirmed:
        where = ", ".join(check.where for check in result.of(CheckOutcome.UNCONFIRMED))
        fail(f"{bundle}: failed once: {where}; confirm or clear it: {result.fresh_session}", EXIT_INPUT)
    if not result.decided and not allow_undecided:
        fail(f"{bundle}: no number could be compared, so nothing was let through; see the details", EXIT_INPUT)


def _result(result: Gate) -> dict[str, object]:
    """What is said of all checks together."""
    return {
        "passed": not (result.failed or result.unconfirmed),
        "decided": result.decided,
        "decidedBy": result.decided_by,
        "falseAlarms": result.false_alarms,
        "freshSession": result.fresh_session if result.unconfirmed else None,
    }


def _show_foreseen(
    baseline: Path | None,
    folders: Sequence[Path],
    threshold: float,
    session_sd: float | None,
    catalog: Path | None,
    include_unproved: bool,
    output: str,
) -> None:
    from scalecurve_timelines.foresight import foreseen

    if baseline is None and not folders:
        fail(
            "BUNDLE: missing; expected one to check, or --baseline or --history for what it would find",
            EXIT_INPUT,
        )
    others = open_all([baseline]) if baseline else [None]
    try:
        table = foreseen(
            others[0], folders, threshold, session_sd=session_sd, catalog=catalog, include_unproved=include_unproved
        )
    except BundleError as error:
        fail(str(error), EXIT_INPUT)
    show_or_end([table], output)


def _relative(bundle: Path) -> str:
    """A path that means the same in another checkout: below the working directory, else the name alone."""
    place = bundle.resolve()
    return place.relative_to(Path.cwd()).as_posix() if place.is_relative_to(Path.cwd()) else place.name


def _further(bundle: Bundle, references: Sequence[str]) -> tuple[list[GateCheck], list[str]]:
    """What packages make of references such as ``corpus:p25``, and each note once."""
    from scalecurve_timelines.expectations import EXPECTATIONS

    checks: list[GateCheck] = []
    notes: list[str] = []
    for reference in references:
        try:
            made, said = EXPECTATIONS.get(reference.partition(":")[0])(bundle, reference)
        except (RegistryError, ValueError) as error:
            fail(f"--expect {reference}: {error}", EXIT_INPUT)
        checks += made
        notes += [note for note in said if note not in notes]
    return checks, notes


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        fail(f"{path}: cannot be written: {error.strerror}", EXIT_ENVIRONMENT)
