"""Paleo beside the measurement: throughput, run time and cost at every worker count, and the errors in percent.

A report has this section where it is made for a device (``report --device``). The question is that of the Paleo paper:
what would a model that never ran the program have said?
"""

from dataclasses import dataclass

from scalecurve.curves.compute import believable
from scalecurve.hardware.devices import HardwareError, find_device, find_link
from scalecurve.render.table import Cell, Column, Table, columns_of
from scalecurve.reporting.findings import Analysis
from scalecurve.reporting.registry import Body
from scalecurve_models.comparison.compare_models import LEFT_OUT, SeriesComparison, compare_models
from scalecurve_models.fitting.least_squares import FitError
from scalecurve_models.networks import NetworkError, find_network
from scalecurve_models.paleo.paleo_fit import CALIBRATED, PALEO, PLUS, paleo_models
from scalecurve_models.paleo.scaling import SOFTWARE, Platform
from scalecurve_models.paleo.terms import PaleoError

MODELS = (PALEO, CALIBRATED, PLUS)
DEFAULT_LINK = "ethernet20"
_METHOD = (
    f"Paleo (Qi et al., ICLR 2017) predicts a step from the network, the device and the link; {PALEO} has nothing "
    f"fitted, {CALIBRATED} has its fraction of peak from the steps of one worker, {PLUS} has a ring and an overlap "
    "fitted to the other counts. Each error is of a prediction that did not use the point."
)


@dataclass(frozen=True)
class BesidePaleo:
    """Curves with Paleo's predictions, each with the name of its bundle where there are several; why there are none."""

    curves: tuple[tuple[str, SeriesComparison], ...] = ()
    notes: tuple[str, ...] = ()


def compare_paleo(analysis: Analysis) -> BesidePaleo:
    """Paleo on every curve of a report; call it as ``analysis.once(compare_paleo)``."""
    target = analysis.target
    if target is None:
        return BesidePaleo()
    curves: list[tuple[str, SeriesComparison]] = []
    notes: list[str] = []
    for bundle in analysis.bundles:
        try:
            platform = Platform(find_device(target.device), find_link(target.link or DEFAULT_LINK), *_PPP)
            network = find_network(target.network) if target.network else None
            models = paleo_models(bundle, platform, network)
            kept = believable(bundle, analysis.include_unproved)
            compared = compare_models(kept, price=analysis.price, extra_models=models, include_unproved=True)
        except (FitError, NetworkError, PaleoError, HardwareError) as error:
            notes.append(f"{bundle.label}: not predicted: {' '.join(str(error).split())}")
            continue
        named = f"{bundle.label}, " if len(analysis.bundles) > 1 else ""
        curves += [(f"{named}{each.series.name}", each) for each in compared if each.measured]
        notes += dict.fromkeys(
            f"{model.name}: {note}"
            for each in compared
            for model in each.prediction.models
            if model.name in (PALEO, CALIBRATED)
            for note in model.notes
        )
    return BesidePaleo(tuple(curves), tuple(dict.fromkeys(notes)))


_PPP = SOFTWARE["tensorflow"]


def paleo_body(analysis: Analysis) -> Body:
    """The section's table, or why there is none."""
    beside = analysis.once(compare_paleo)
    if not beside.curves:
        return Body(sentences=beside.notes)
    return Body((errors_table(beside),), methods=(_METHOD,))


def errors_table(beside: BesidePaleo) -> Table:
    """One row per measured point and model: samples/s, run time and money, measured and predicted, and the error."""
    bases = {each.cost_basis.title for _, each in beside.curves}
    money = next((each.cost_basis.currency for _, each in beside.curves), "")
    work = bases.pop() if len(bases) == 1 else "each curve's own work"
    columns = (
        Column("series", "Series"),
        Column("workers", "Workers", "count"),
        Column("model", "Model"),
        *columns_of("number", "samples/s", measured="Measured", predicted="Predicted"),
        Column("error", "Error", "percent"),
        *columns_of("number", "s", measured_s=f"Run time ({work})", predicted_s="Predicted run time"),
        *columns_of("number", money, measured_cost=f"Cost ({work})", predicted_cost="Predicted cost"),
    )
    rows: list[tuple[Cell, ...]] = []
    for name, each in beside.curves:
        basis = each.cost_basis
        for row in each.rows:
            if row.model not in MODELS or row.measured is None or row.how != LEFT_OUT:
                continue
            measured, predicted, n = row.measured, row.predicted, row.workers
            times = (basis.seconds(measured), basis.seconds(predicted))
            rows.append(
                (
                    *(name, n, row.model, measured, predicted, row.error, *times),
                    *(basis.cost(measured, n), basis.cost(predicted, n)),
                )
            )
    return Table("paleo-errors", "Predicted and measured, and the error in percent", columns, tuple(rows), beside.notes)
