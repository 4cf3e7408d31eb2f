"""Importers by the name of their format: the project's own, and those of installed packages.

A package adds a format by an entry point in the group ``scalecurve.importers``: an `Importer`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from scalecurve_api.registry import Registry

if TYPE_CHECKING:  # the names are needed wherever help is printed
    from scalecurve.importing.columns import Statements
    from scalecurve.importing.reading import Reading


def _no_units(path: Path, statements: Statements) -> Sequence[str]:
    return ()


@dataclass(frozen=True)
class Importer:
    """Reads sources of one format.

    ``recognized`` takes a source's path and the beginning of its text, which is empty for a folder. ``read`` raises
    SourceError. ``units`` gives how the columns of a table are read; other formats have units of their own.
    """

    recognized: Callable[[Path, str], bool]
    read: Callable[[Path, Statements], Sequence[Reading]]
    units: Callable[[Path, Statements], Sequence[str]] = _no_units


_MODULES = "scalecurve.importing"

IMPORTERS: Registry[Importer] = Registry(
    "scalecurve.importers",
    "format",
    Importer,
    {  # in the order in which they are tried: those that are surest of their own come first
        "cloudai": f"{_MODULES}.cloudai:IMPORTER",
        "tensorboard": f"{_MODULES}.tensorboard:IMPORTER",
        "nccl-tests": f"{_MODULES}.nccl_tests:IMPORTER",
        "osu": f"{_MODULES}.message_sizes:OSU",
        "ucc": f"{_MODULES}.message_sizes:UCC",
        "mllog": f"{_MODULES}.mllog:IMPORTER",
        "ramble": f"{_MODULES}.ramble:IMPORTER",
        "reframe": f"{_MODULES}.reframe:IMPORTER",
        "dllogger": f"{_MODULES}.dllogger:IMPORTER",
        "llamafactory": f"{_MODULES}.llamafactory:IMPORTER",
        "transformers": f"{_MODULES}.transformers:IMPORTER",
        "superbench": f"{_MODULES}.superbench:IMPORTER",
        "torchtitan": f"{_MODULES}.training_log:TORCHTITAN",
        "megatron": f"{_MODULES}.training_log:MEGATRON",
        "nemo": f"{_MODULES}.training_log:NEMO",
        "maxtext": f"{_MODULES}.training_log:MAXTEXT",
        "pattern": f"{_MODULES}.pattern_log:IMPORTER",  # of tools of the library, or by the user's own
        "scaling-table": f"{_MODULES}.own_table:IMPORTER",
        "markdown": f"{_MODULES}.markdown_table:IMPORTER",
        "json": f"{_MODULES}.table_file:JSON",
        "csv": f"{_MODULES}.table_file:CSV",
    },
)
