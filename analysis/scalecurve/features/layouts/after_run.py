"""The best layout of each worker count, after a run (entry point ``scalecurve.after_run``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from scalecurve.cli.after_run import AfterRun

if TYPE_CHECKING:
    from scalecurve.bundle.open import Bundle
    from scalecurve.curves.results import ScalingResult
    from scalecurve.render.table import Table


class BestLayouts(AfterRun):
    """The table of layouts; of a search, over all of its axes."""

    def tables(self, bundle: Bundle, measured: ScalingResult) -> Sequence[Table]:
        from scalecurve.bundle.measurement import measure
        from scalecurve.curves.doubts import all_counted
        from scalecurve.features.layouts.best_layout import best_layouts, layout_table

        competes = (lambda axis: True) if bundle.selected else None
        table = layout_table(best_layouts(all_counted(measure(bundle), measured), compared=competes))
        return (table,) if table.rows else ()


BEST_LAYOUTS = BestLayouts()
