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
    from scalecurve_importing.columns import Statements
    from scalecurve_importing.reading import Reading


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
        "cloudai": "scalecurve_importing.cloudai:IMPORTER",
        "tensorboard": "scalecurve_importing.tensorboard:IMPORTER",
        "nccl-tests": "scalecurve_importing.nccl_tests:IMPORTER",
        "osu": "scalecurve_importing.message_sizes:OSU",
        "ucc": "scalecurve_importing.message_sizes:UCC",
        "mllog": "scalecurve_importing.mllog:IMPORTER",
        "ramble": "scalecurve_importing.ramble:IMPORTER",
        "reframe": "scalecurve_importing.reframe:IMPORTER",
        "dllogger": "scalecurve_importing.dllogger:IMPORTER",
        "llamafactory": "scalecurve_importing.llamafactory:IMPORTER",
        "transformers": "scalecurve_importing.transformers:IMPORTER",
        "superbench": "scalecurve_importing.superbench:IMPORTER",
        "torchtitan": "scalecurve_importing.training_log:TORCHTITAN",
        "megatron": "scalecurve_importing.training_log:MEGATRON",
        "nemo": "scalecurve_importing.training_log:NEMO",
        "maxtext": "scalecurve_importing.training_log:MAXTEXT",
        "pattern": "scalecurve_importing.pattern_log:IMPORTER",  # of tools of the library, or by the user's own
        "scaling-table": "scalecurve_importing.own_table:IMPORTER",
        "markdown": "scalecurve_importing.markdown_table:IMPORTER",
        "json": "scalecurve_importing.table_file:JSON",
        "csv": "scalecurve_importing.table_file:CSV",
    },
)
