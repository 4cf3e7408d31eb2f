"""Bundle arguments, shared by every verb that reads bundles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from scalecurve.bundle.problem import BundleError
from scalecurve.cli.exit_codes import EXIT_INPUT
from scalecurve.cli.output import complain, fail

if TYPE_CHECKING:
    from scalecurve.bundle.open import Bundle

F = TypeVar("F", bound=Callable[..., Any])


def bundles_argument(function: F) -> F:
    """``BUNDLE...``: one or several folders or packed files."""
    return click.argument("folders", metavar="BUNDLE...", nargs=-1, required=True, type=click.Path(path_type=Path))(
        function
    )


def bundles_or_experiments_argument(function: F) -> F:
    """``BUNDLE|EXPERIMENT...``: folders or packed files, or names of experiments in a cluster."""
    return click.argument(
        "arguments", metavar="BUNDLE|EXPERIMENT...", nargs=-1, required=True, type=click.Path(path_type=Path)
    )(function)


def open_all(folders: Sequence[Path]) -> tuple[Bundle, ...]:
    """Open every bundle and list unusable files on stderr; a path that is not a bundle ends the verb."""
    from scalecurve.bundle.open import open_bundles

    try:
        bundles = open_bundles(folders)
    except BundleError as error:
        fail(str(error), EXIT_INPUT)
    for bundle in bundles:
        for problem in bundle.problems:
            complain(f"{bundle.path}/{problem}")
    return bundles
