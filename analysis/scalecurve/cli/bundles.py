"""Bundle arguments, shared by every verb that reads bundles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from scalecurve.bundle.problem import BundleError
from scalecurve.cli.exit_codes import EXIT_INPUT
from scalecurve.cli.output import complain, fail, warn
from scalecurve_api.problem import printable
from scalecurve_api.text import count as counted

if TYPE_CHECKING:
    from scalecurve.bundle.open import Bundle

bundles_argument = click.argument(
    "folders", metavar="BUNDLE...", nargs=-1, required=True, type=click.Path(path_type=Path)
)
bundles_or_experiments_argument = click.argument(
    "arguments", metavar="BUNDLE|EXPERIMENT...", nargs=-1, required=True, type=click.Path(path_type=Path)
)


include_unproved_option = click.option(
    "--include-unproved",
    is_flag=True,
    help="Also use points that are unproved, reported by the program, or impossible; they are excluded otherwise.",
)


def doubts(bundles: Sequence[Bundle], included: bool) -> list[str]:
    """The first lines above what is made of the points that count, or of all if doubtful ones are ``included``."""
    from scalecurve.curves.compute import scaling, warnings

    lines = list(warnings(bundles))
    if not included and any(p.doubts for _, p in scaling(bundles).named_points()):
        lines.append("points that are unproved, reported or impossible are excluded; --include-unproved includes them")
    return lines


label_option = click.option(
    "--label",
    "labels",
    metavar="NAME",
    multiple=True,
    help="Name of a bundle in tables and plots, such as T4; one for each, in their order.  [default: the experiments']",
)


def open_all(folders: Sequence[Path], labels: Sequence[str] = ()) -> tuple[Bundle, ...]:
    """Open every bundle, and list its warnings and unusable files on stderr; no bundle at a path ends the verb."""
    from scalecurve.bundle.open import open_bundles

    if labels and (len(labels) != len(folders) or len(set(labels)) < len(labels) or not all(map(str.strip, labels))):
        fail(
            f"--label: got {', '.join(labels)}; expected a different name for each of "
            f"{counted(len(folders), 'bundle')}",
            EXIT_INPUT,
        )
    try:
        bundles = open_bundles(folders)
    except BundleError as error:
        fail(str(error), EXIT_INPUT)
    if labels:
        bundles = tuple(replace(bundle, label=printable(label)) for bundle, label in zip(bundles, labels, strict=True))
    warn(bundles)
    for bundle in bundles:
        for problem in bundle.problems:
            complain(f"{bundle.path}/{problem}")
    return bundles
