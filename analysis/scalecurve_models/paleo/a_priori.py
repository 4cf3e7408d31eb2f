"""A priori prediction of an experiment, from its network, a device and a link: Paleo and an upper bound."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from scalecurve.render.table import Cell, Column, Table
from scalecurve_api.planning.plan import make_plan
from scalecurve_api.spec.experiment import ScalingExperiment
from scalecurve_api.spec.scaling import Mode
from scalecurve_api.spec.trial import TrialSpec
from scalecurve_models.comparison.compare_models import cost_basis
from scalecurve_models.fitting.least_squares import FitError
from scalecurve_models.networks import Network
from scalecurve_models.paleo.costs import costs_of
from scalecurve_models.paleo.plus import PlusTerms, with_plus
from scalecurve_models.paleo.scaling import Platform, Scaling, StepPrediction, predict_scaling
from scalecurve_models.paleo.workload_network import network_of

PALEO, RING, BOUND = "paleo", "paleo+ ring", "bound"
MOST_SERIES = 200


@dataclass(frozen=True)
class APrioriPrediction:
    """One model at one worker count of one series; nothing was measured.

    ``throughput`` is samples/s of all workers, ``alone`` samples/s of one worker.
    """

    series: str
    workers: int
    batch_per_worker: int
    model: str
    step_ms: float
    throughput: float
    alone: float


def predict_experiment(
    experiment: ScalingExperiment, platform: Platform, workers: Sequence[int] = (), network: Network | None = None
) -> tuple[Table, ...]:
    """Step time, throughput, run time and cost of every series at ``workers`` (its own counts by default).

    Each series' own precision replaces the platform's. ``paleo`` exchanges by a tree after compute, ``paleo+ ring`` by
    a ring after compute, ``bound`` at full peaks with the ring fully overlapped. Raises FitError for
    worker counts below 1, or more series than a table can hold. Raises NetworkError for a workload without a network
    here, where none is given. Raises HardwareError for a device without the precision. Raises PaleoError for a batch
    that cannot be.
    """
    if workers and min(workers) < 1:
        raise FitError(f"predict: worker counts must be at least 1, got {min(workers)}")
    series: dict[str, list[TrialSpec]] = {}
    for trial in make_plan(experiment).trials:
        series.setdefault(trial.point.series, []).append(trial)
    if len(series) > MOST_SERIES:
        raise FitError(f"predict: the experiment has {len(series)} series; at most {MOST_SERIES} are supported")
    predictions: list[APrioriPrediction] = []
    idle: set[int] = set()
    for name, trials in series.items():
        point = trials[0].point
        most = point.global_batch if point.mode is Mode.strong else None
        counts = sorted({*workers} or {trial.point.workers for trial in trials})
        idle |= {count for count in counts if most is not None and count > most}
        counts = [count for count in counts if most is None or count <= most]
        predictions += _series(name, trials[0], counts, platform, network or network_of(trials[0].workload))
    table = _table(predictions, experiment, platform)
    return (replace(table, notes=(*table.notes, *_left_out(idle))),)


def _left_out(counts: Collection[int]) -> list[str]:
    named = ", ".join(f"{count:,}" for count in sorted(counts))
    return [f"Strong scaling omits {named}: more workers than samples in the global batch."] if counts else []


def _series(
    name: str, trial: TrialSpec, counts: Sequence[int], platform: Platform, network: Network
) -> Iterator[APrioriPrediction]:
    strong = trial.point.mode is Mode.strong
    batch = trial.point.global_batch if strong else trial.point.batch_per_worker
    if batch is None:
        raise FitError(f"predict: series {name!r} has no batch: program {trial.workload.program} does not train")
    here = replace(platform, precision=trial.workload.precision.value)
    peak = replace(here, ppp_comp=1.0, ppp_comm=1.0)
    sent = costs_of(network).parameter_bytes
    scaling: Scaling = "strong" if strong else "weak"

    def rates(on: Platform, terms: PlusTerms | None) -> list[tuple[StepPrediction, float]]:
        found = predict_scaling(network, on, batch=batch, workers=[1, *counts], scaling=scaling)
        return [(step, step.step_ms if terms is None else with_plus(step, sent, on, terms).step_ms) for step in found]

    hidden = [(step, max(step.compute_ms, _ring_ms(step, sent, peak))) for step, _ in rates(peak, None)]
    by_model = {PALEO: rates(here, None), RING: rates(here, PlusTerms()), BOUND: hidden}
    for index in range(1, len(counts) + 1):
        for model, steps in by_model.items():
            (first, first_ms), (step, step_ms) = steps[0], steps[index]
            alone, rate = (each.samples / ms * 1e3 for each, ms in ((first, first_ms), (step, step_ms)))
            yield APrioriPrediction(name, step.workers, step.batch_per_worker, model, step_ms, rate, alone)


def _ring_ms(step: StepPrediction, sent: int, platform: Platform) -> float:
    return with_plus(step, sent, platform, PlusTerms()).exchange_ms


def _table(predictions: Sequence[APrioriPrediction], experiment: ScalingExperiment, platform: Platform) -> Table:
    price = experiment.spec.cost
    samples, epochs = (price.dataset_samples, price.epochs) if price else (None, None)
    hour, currency = (price.per_worker_hour, price.currency) if price else (None, "")
    work = cost_basis(samples, epochs, "samples", hour, currency)
    columns = (
        Column("series", "Series"),
        Column("workers", "Workers", "count"),
        Column("batch_per_worker", "Batch per worker", "count"),
        Column("model", "Model"),
        Column("step_ms", "Step", "number", "ms"),
        Column("throughput", "Throughput", "number", "samples/s"),
        Column("efficiency", "Efficiency", "percent"),
        Column("seconds", f"Run time ({work.title})", "number", "s"),
        Column("cost", f"Cost ({work.title})", "number", work.currency),
    )
    rows: list[tuple[Cell, ...]] = [
        (
            *(each.series, each.workers, each.batch_per_worker, each.model, each.step_ms, each.throughput),
            each.throughput / each.workers / each.alone,
            *(work.seconds(each.throughput), work.cost(each.throughput, each.workers)),
        )
        for each in predictions
    ]
    device, link = platform.device, platform.link
    notes = (
        "Nothing was measured: these are model predictions for the network on this device and link.",
        f"{device.title}, {device.memory_gb_s:g} GB/s; {link.title}, {link.gbps:g} Gbit/s between any two workers, "
        "without message latency.",
        f"paleo, {RING}: assume {platform.ppp_comp:g} of the device's peaks and {platform.ppp_comm:g} of the link's; "
        "to calibrate, measure one worker and predict from its bundle with the same --device.",
        f"{BOUND}: full peaks, exchange overlapped with compute. Efficiency is relative to one worker.",
    )
    return Table("expected", f"A priori prediction for {experiment.metadata.name}", columns, tuple(rows), notes)
