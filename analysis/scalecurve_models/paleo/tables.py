"""Tables of Paleo's predictions."""

from collections.abc import Sequence
from dataclasses import replace

from scalecurve.render.table import Cell, Column, Table, columns_of
from scalecurve_api.text import count
from scalecurve_models.comparison.compare_models import CostBasis
from scalecurve_models.networks.counting import CONVENTIONS
from scalecurve_models.networks.graph import Network
from scalecurve_models.paleo.calibration import MeasuredStep, PppCalibration
from scalecurve_models.paleo.parallel import HybridPart, ModelParallelStep
from scalecurve_models.paleo.plus import PlusPrediction
from scalecurve_models.paleo.scaling import InferenceRate, Platform, StepPrediction, predict_step
from scalecurve_models.paleo.terms import HEAD, Variant

_PASSES = columns_of("number", "ms", forward_ms="forward", backward_ms="backward", update_ms="update")
_STEP_COLUMNS = (*columns_of("count", workers="workers", batch_per_worker="batch/worker"), *_PASSES)
_RATE_COLUMNS = (
    Column("step_ms", "step", "number", "ms"),
    Column("throughput", "throughput", "number", "samples/s"),
    Column("speedup", "speed-up", "number"),
)


def _step(step: StepPrediction) -> tuple[Cell, ...]:
    """The cells under ``_STEP_COLUMNS``."""
    return step.workers, step.batch_per_worker, step.forward_ms, step.backward_ms, step.update_ms


def _rates(step: StepPrediction | PlusPrediction, base: float, workers: int, work: CostBasis) -> tuple[Cell, ...]:
    """The cells under ``_RATE_COLUMNS`` and those of the work."""
    return step.step_ms, step.throughput, step.throughput / base, *work.cells(step.throughput, workers)


def _work_columns(work: CostBasis) -> tuple[Column, ...]:
    return tuple(replace(column, title=column.title.lower()) for column in work.columns())


def scaling_table(
    predictions: Sequence[StepPrediction],
    network: Network,
    platform: Platform,
    scaling: str,
    revision: str,
    work: CostBasis,
) -> Table:
    """Tabulate the predictions, a row per number of workers.

    Speed-up is relative to the throughput per worker of the first row.
    """
    columns = (
        *_STEP_COLUMNS,
        *columns_of("number", "ms", one_to_all_ms="one to all", tree_ms="tree", butterfly_ms="butterfly"),
        *_RATE_COLUMNS,
        *_work_columns(work),
    )
    base = predictions[0].throughput / predictions[0].workers
    rows = [(*_step(p), *p.communication_ms.values(), *_rates(p, base, p.workers, work)) for p in predictions]
    notes = (
        "Step, throughput and speed-up use the tree, without overlap and without message latency.",
        f"Revision {revision} of the authors' code, GEMM only.",
        _platform_note(platform),
    )
    return Table("paleo", f"Paleo: {network.name}, {scaling} scaling", columns, tuple(rows), notes)


def plus_table(
    predictions: Sequence[PlusPrediction], network: Network, platform: Platform, scaling: str, work: CostBasis
) -> Table:
    """Tabulate the predictions, a row per number of workers, with the exchange and step of Paleo+."""
    columns = (
        *_STEP_COLUMNS,
        *columns_of("number", "ms", exchange_ms="exchange", exposed_ms="exposed"),
        *_RATE_COLUMNS,
        *_work_columns(work),
    )
    base = predictions[0].throughput / predictions[0].paleo.workers
    rows = [
        (*_step(p.paleo), p.exchange_ms, p.exposed_ms, *_rates(p, base, p.paleo.workers, work)) for p in predictions
    ]
    terms = predictions[0].terms
    notes = (
        f"Paleo+ is not part of Paleo: {terms.scheme}, {terms.latency_us:g} us per message, overlap {terms.overlap:g} "
        "(1 none, 10 nearly full).",
        _platform_note(platform),
    )
    return Table("paleo_plus", f"Paleo+: {network.name}, {scaling} scaling", columns, tuple(rows), notes)


def model_parallel_table(
    steps: Sequence[ModelParallelStep], network: Network, platform: Platform, work: CostBasis, variant: Variant = HEAD
) -> Table:
    """Tabulate the steps, a row per number of workers; speed-up is relative to the network on one of them."""
    columns = (
        Column("workers", "workers", "count"),
        *columns_of("number", "ms", forward_ms="forward", forward_most_ms="branches in sequence"),
        *columns_of("number", "ms", backward_ms="backward", backward_most_ms="branches in sequence"),
        *_RATE_COLUMNS,
        *_work_columns(work),
    )
    rows = tuple(
        (
            *(s.workers, *(ms for each in s.passes for ms in (each.least_ms, each.most_ms))),
            *(s.step_ms, s.throughput, s.speedup, *work.cells(s.throughput, s.workers)),
        )
        for s in steps
    )
    notes = (
        f"Layers written for several devices are split over the workers, the others run on one; every step is of "
        f"{steps[0].batch:,} samples. Paleo's rules (Qi et al., ICLR 2017), its authors' simulate_model_parallel.",
        "Forward, backward and step have branches in parallel, and no update, as in the authors' code.",
        "Values of other devices are fetched at the link's bandwidth."
        if variant.corrected
        else "Values of other devices are fetched at the device's memory bandwidth, a mistake of theirs: --corrected.",
        "Speed-up: time on one machine over time on N, as in Dean et al., NIPS 2012, Figure 3.",
        _platform_note(platform),
    )
    return Table("paleo_model", f"Paleo: {network.name}, model parallel", columns, rows, notes)


def hybrid_table(parts: Sequence[HybridPart], network: Network, platform: Platform) -> Table:
    """Tabulate the data-parallel and the model-parallel part of a step, for each number of workers."""
    columns = (
        Column("part", "layers"),
        *columns_of("count", workers="workers", batch="global batch"),
        *_PASSES,
        Column("communication_ms", "tree", "number", "ms"),
    )
    rows = tuple(tuple(vars(part).values()) for part in parts)
    return Table("paleo_hybrid", f"Paleo: {network.name}, hybrid", columns, rows, (_platform_note(platform),))


def calibration_table(calibration: PppCalibration) -> Table:
    """Tabulate each measured step with the prediction at the common PPP."""
    columns = (
        Column("network", "network"),
        Column("batch", "batch", "count"),
        *columns_of("number", "ms", measured_ms="measured", predicted_ms="predicted"),
        Column("error", "error", "percent"),
        Column("exact_ppp", "exact PPP", "number"),
    )
    rows = tuple(
        (
            point.measured.network.name, point.measured.batch_per_worker, point.measured.step_ms, point.predicted_ms,
            point.error, point.exact_ppp,
        )
        for point in calibration.points
    )  # fmt: skip
    return Table("calibration", calibration.sentence, columns, rows, calibration.notes)


def measurement_table(
    points: Sequence[MeasuredStep],
    initial: Platform,
    calibrated: Platform,
    work: CostBasis,
    *,
    variant: Variant = HEAD,
) -> Table:
    """Tabulate measured steps against Paleo, uncalibrated and with the PPP calibrated on one worker.

    Run time and cost are of ``work``.
    """
    columns = (
        *columns_of("count", workers="workers", batch_per_worker="batch/worker"),
        *columns_of("number", "samples/s", measured="throughput", uncalibrated="uncalibrated"),
        Column("uncalibrated_error", "error", "percent"),
        Column("calibrated", "calibrated", "number", "samples/s"),
        Column("calibrated_error", "error", "percent"),
        *columns_of("number", "s", measured_s=work.title, calibrated_s="calibrated"),
        *columns_of("number", work.currency, measured_cost="cost", calibrated_cost="calibrated"),
        Column("cost_error", "error", "percent"),
    )

    def rate(point: MeasuredStep, on: Platform) -> float:
        batch, workers = point.batch_per_worker, point.workers
        return predict_step(point.network, on, batch=batch, workers=workers, variant=variant).throughput

    rows: list[tuple[Cell, ...]] = []
    for point in sorted(points, key=lambda each: (each.workers, each.batch_per_worker)):
        n = point.workers
        measured = point.batch_per_worker * n / point.step_ms * 1e3
        plain, fitted = rate(point, initial), rate(point, calibrated)
        costs = (work.cost(measured, n), work.cost(fitted, n))
        rates = (measured, plain, plain / measured - 1, fitted, fitted / measured - 1)
        error = None if costs[0] is None else measured / fitted - 1
        rows.append((n, point.batch_per_worker, *rates, work.seconds(measured), work.seconds(fitted), *costs, error))
    notes = (
        "The PPP was calibrated on the one-worker steps; all other predictions are blind, and all uncalibrated ones.",
        f"PPP uncalibrated: {initial.ppp_comp:.4g}; calibrated: {calibrated.ppp_comp:.4g}; both use "
        f"{initial.ppp_comm:.4g} of {initial.link.title} for communication, by the tree.",
    )
    return Table("paleo_measured", "Paleo vs. measured", columns, tuple(rows), notes)


def inference_table(rates: Sequence[InferenceRate], ppp: float) -> Table:
    """Tabulate the upper bound of a device and Paleo's forward pass."""
    columns = (
        Column("network", "network"),
        Column("gflops", "work/image", "number", "GFLOP"),
        Column("bound_ms", "bound", "number", "ms/image"),
        Column("practical_ms", "Paleo", "number", "ms/image"),
        *columns_of("number", "images/s", bound="bound", practical="Paleo"),
        Column("share", "Paleo / bound", "percent"),
    )
    rows = tuple(
        (r.network.name, r.flops / 1e9, 1e3 / r.bound, 1e3 / r.practical, r.bound, r.practical, r.share) for r in rates
    )
    first = rates[0]
    notes = [
        f"Bound: {first.peak_gflops:,.10g} GFLOPS, with a multiply-add as two, over the work.",
        f"Work: {CONVENTIONS[first.convention]}.",
        f"Paleo: forward pass of {count(first.batch, 'image')} with a PPP of {ppp:g}.",
    ]
    if first.convention != "2mac":
        notes.append("A multiply-add counts as one FLOP here and as two in the peak, so the bound is twice too high.")
    if first.device.note:
        notes.append(first.device.note)
    return Table("inference", f"Inference on {first.device.title}", columns, rows, tuple(notes))


def _platform_note(platform: Platform) -> str:
    device, link = platform.device, platform.link
    peak = f"{device.peak(platform.precision):,.10g} GFLOPS {platform.precision}"
    return (
        f"{device.title} ({peak}, {device.memory_gb_s:g} GB/s), {link.title} ({link.gbps:g} Gbit/s), "
        f"PPP {platform.ppp_comp:.4g} for compute, {platform.ppp_comm:.4g} for communication."
    )
