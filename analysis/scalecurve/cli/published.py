"""Collections of published results that a bundle is compared with, found by name in ``scalecurve.published``.

An entry is a function of bundles' paths, the name or file of the collection, what it calls the model ("" if not
stated), whether points that do not count are included, and the output format; it prints the comparison.
"""

from collections.abc import Sequence
from pathlib import Path
from types import FunctionType

from scalecurve.cli.exit_codes import EXIT_ENVIRONMENT, EXIT_INPUT
from scalecurve.cli.output import fail
from scalecurve_api.registry import Registry, RegistryError
from scalecurve_api.text import did_you_mean

PUBLISHED: Registry[FunctionType] = Registry("scalecurve.published", "collection of results", FunctionType, {})


def require_published(option: str) -> str:
    """The name of the first collection, which also reads files; ends the verb where none is installed."""
    for name in PUBLISHED.names():
        return name
    fail(f"{option}: no collection of published results is installed", EXIT_ENVIRONMENT)


def compare_with_published(paths: Sequence[Path], name: str, model: str, include_unproved: bool, output: str) -> None:
    """Print where bundles stand among the points of a collection or a file; ends the verb if ``name`` is neither."""
    first = require_published("--with")
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
