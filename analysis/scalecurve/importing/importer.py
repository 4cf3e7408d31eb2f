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


IMPORTERS: Registry[Importer] = Registry(
    "scalecurve.importers",
    "format",
    Importer,
    {  # in the order in which they are tried: those that are surest of their own come first
        "cloudai": "scalecurve.importing.cloudai:IMPORTER",
        "tensorboard": "scalecurve.importing.tensorboard:IMPORTER",
        "nccl-tests": "scalecurve.importing.nccl_tests:IMPORTER",
        "osu": "scalecurve.importing.message_sizes:OSU",
        "ucc": "scalecurve.importing.message_sizes:UCC",
        "mllog": "scalecurve.importing.mllog:IMPORTER",
        "ramble": "scalecurve.importing.ramble:IMPORTER",
        "reframe": "scalecurve.importing.reframe:IMPORTER",
        "dllogger": "scalecurve.importing.dllogger:IMPORTER",
        "llamafactory": "scalecurve.importing.llamafactory:IMPORTER",
        "transformers": "scalecurve.importing.transformers:IMPORTER",
        "superbench": "scalecurve.importing.superbench:IMPORTER",
        "torchtitan": "scalecurve.importing.training_log:TORCHTITAN",
        "megatron": "scalecurve.importing.training_log:MEGATRON",
        "nemo": "scalecurve.importing.training_log:NEMO",
        "maxtext": "scalecurve.importing.training_log:MAXTEXT",
        "pattern": "scalecurve.importing.pattern_log:IMPORTER",  # of tools of the library, or by the user's own
        "scaling-table": "scalecurve.importing.own_table:IMPORTER",
        "markdown": "scalecurve.importing.markdown_table:IMPORTER",
        "json": "scalecurve.importing.table_file:JSON",
        "csv": "scalecurve.importing.table_file:CSV",
    },
)
