"""The largest batch per worker that fit into memory, of every ladder of batches."""

from collections.abc import Sequence

from scalecurve.bundle.open import Bundle
from scalecurve.render.table import Column, Table, experiment_column
from scalecurve_api.planning.ladder import LargestFit, largest_fits
from scalecurve_api.spec.experiment import LADDER_AXIS
from scalecurve_api.text import count, spell_value


def largest_batch_table(bundles: Sequence[Bundle]) -> Table:
    """One row per worker count; empty where no experiment raises the batch until memory is full."""
    rows = [
        (bundle.label, _program(fit), fit.point.workers, fit.point.layout, fit.fits, fit.full)
        for bundle in bundles
        for fit in sorted(_fits(bundle), key=lambda fit: (_program(fit), fit.point.workers))
    ]
    columns = (
        experiment_column(row[0] for row in rows),
        Column("program", "Program"),
        Column("workers", "Workers", "count"),
        Column("layout", "Layout"),
        Column("fits", "Largest batch per worker that fit", "count"),
        Column("full", "First that did not", "count"),
    )
    notes = (
        "The batch was raised until a trial ran out of memory; larger batches were not run. Where no batch did, the "
        "ladder ended at its largest, and more may fit.",
    )
    return Table("largest-batch", "Largest batch that fits into memory", columns, tuple(rows), notes if rows else ())


def largest_in_words(bundles: Sequence[Bundle]) -> list[str]:
    """A sentence per ladder that ended."""
    sentences = []
    for bundle in bundles:
        for fit in sorted(_fits(bundle), key=lambda fit: (_program(fit), fit.point.workers)):
            if fit.full is None:
                continue
            largest = f"largest batch that fit: {fit.fits}" if fit.fits else "no batch fit"
            where = f"{count(fit.point.workers, 'worker')}" + (f" ({fit.point.layout})" if fit.point.nodes > 1 else "")
            parts = [bundle.label] * (len(bundles) > 1) + [_program(fit), where]
            sentences.append(f"{', '.join(parts)}: {largest} per worker; {fit.full} ran out of memory.")
    return sentences


def _fits(bundle: Bundle) -> list[LargestFit]:
    return largest_fits((trial.spec.point, trial.phase) for trial in bundle.trials)


def _program(fit: LargestFit) -> str:
    others = [f"{name}={spell_value(value)}" for name, value in fit.point.axes.items() if name != LADDER_AXIS]
    return " ".join([fit.point.mode.value, *others])
