"""What features show of a bundle when its run has ended, beside the scaling table.

An entry point in the group ``scalecurve.after_run`` names an ``AfterRun``; its module must be cheap to import.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from scalecurve_api.registry import Registry

if TYPE_CHECKING:
    from scalecurve.bundle.open import Bundle
    from scalecurve.curves.results import ScalingResult
    from scalecurve.render.table import Table


class AfterRun:
    """Of one feature; what it does not override shows nothing."""

    def results(self, bundle: Bundle) -> Sequence[Table]:
        """Tables that stand for the scaling table, of a program that trains nothing."""
        return ()

    def tables(self, bundle: Bundle, measured: ScalingResult) -> Sequence[Table]:
        """Tables below the scaling table."""
        return ()

    def lines(self, bundle: Bundle) -> Sequence[str]:
        """Sentences below the tables."""
        return ()


_INSTALLED: Registry[AfterRun] = Registry("scalecurve.after_run", "results after a run", AfterRun, {})


def after_run() -> tuple[AfterRun, ...]:
    """Those of every feature, by the names of the entry points."""
    return tuple(_INSTALLED.loadable().values())
