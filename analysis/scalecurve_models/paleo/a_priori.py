"""A priori prediction of an experiment, from its network, a device and a link: Paleo and an upper bound."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from scalecurve.render.table import Cell, Column, Table, columns_of
from scalecurve_api.planning.plan import make_plan
from scalecurve_api.spec.experiment import Cost, ScalingExperiment
from scalecurve_api.spec.scaling import Mode
from scalecurve_api.spec.trial import TrialSpec
from scalecurve_models.comparison.compare_models import CostBasis, work_of
from scalecurve_models.fitting.least_squares import FitError
from scalecurve_models.networks import Network
from scalecurve_models.networks.catalog import images_per_sample, network_of
from scalecurve_models.paleo.costs import costs_of
from scalecurve_models.paleo.plus import PlusPrediction, PlusTerms, with_plus
from scalecurve_models.paleo.scaling import Platform, Scaling, StepPrediction, predict_scaling

PALEO, RING, BOUND = "paleo", "paleo+ ring", "bound"
MOST_SERIES = 200


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
    work = _work(experiment)
    rows: list[tuple[Cell, ...]] = []
    idle: set[int] = set()
    for name, trials in series.items():
        point = trials[0].point
        most = point.global_batch if point.mode is Mode.strong else None
        counts = sorted({*workers} or {trial.point.workers for trial in trials})
        idle |= {count for count in counts if most is not None and count > most}
        counts = [count for count in counts if most is None or count <= most]
        rows += _series(name, trials[0], counts, platform, network or network_of(trials[0].workload), work)
    notes = _notes(platform)
    if idle:
        named = ", ".join(f"{count:,}" for count in sorted(idle))
        notes.append(f"Strong scaling omits {named}: more workers than samples in the global batch.")
    columns = (
        Column("series", "Series"),
        *columns_of("count", workers="Workers", batch_per_worker="Batch per worker"),
        Column("model", "Model"),
        Column("step_ms", "Step", "number", "ms"),
        Column("throughput", "Throughput", "number", "samples/s"),
        Column("efficiency", "Efficiency", "percent"),
        *work.columns(),
    )
    title = f"A priori prediction for {experiment.metadata.name}"
    return (Table("expected", title, columns, tuple(rows), tuple(notes)),)


def _work(experiment: ScalingExperiment) -> CostBasis:
    """As its cost states it; else an epoch of a data set of known size, or its training to accuracy."""
    price, accuracy = experiment.spec.cost or Cost(per_worker_hour=0), experiment.spec.measure.accuracy
    data = getattr(experiment.spec.workload, "data", None)
    samples = price.dataset_samples or (data.source.training_samples if data else None)
    epochs = price.epochs or (accuracy.epochs if accuracy else None)
    work = work_of(price.model_copy(update={"dataset_samples": samples, "epochs": epochs}))
    return work if experiment.spec.cost else replace(work, per_worker_hour=None, currency="")


def _series(
    name: str, trial: TrialSpec, counts: Sequence[int], platform: Platform, network: Network, work: CostBasis
) -> Iterator[tuple[Cell, ...]]:
    strong = trial.point.mode is Mode.strong
    batch = trial.point.global_batch if strong else trial.point.batch_per_worker
    if batch is None:
        raise FitError(f"predict: series {name!r} has no batch: program {trial.workload.program} does not train")
    here = replace(platform, precision=trial.workload.precision.value)
    peak = replace(here, ppp_comp=1.0, ppp_comm=1.0)
    sent = costs_of(network).parameter_bytes
    copies = images_per_sample(trial.workload)

    def predicted(on: Platform) -> list[tuple[StepPrediction, PlusPrediction]]:
        scaling: Scaling = "strong" if strong else "weak"
        steps = predict_scaling(network, on, batch=batch, workers=[1, *counts], scaling=scaling, copies=copies)
        return [(step, with_plus(step, sent, on, PlusTerms())) for step in steps]

    usual = predicted(here)
    by_model = {
        PALEO: [step.step_ms for step, _ in usual],
        RING: [ring.step_ms for _, ring in usual],
        BOUND: [max(step.compute_ms, ring.exchange_ms) for step, ring in predicted(peak)],
    }
    for index, (step, _) in enumerate(usual[1:], start=1):
        for model, times in by_model.items():
            alone, rate = usual[0][0].samples / times[0] * 1e3, step.samples / times[index] * 1e3
            yield (
                *(name, step.workers, step.batch_per_worker, model, times[index], rate),
                *(rate / step.workers / alone, *work.cells(rate, step.workers)),
            )


def _notes(platform: Platform) -> list[str]:
    device, link = platform.device, platform.link
    return [
        "Nothing was measured: these are model predictions for the network on this device and link.",
        f"{device.title}, {device.memory_gb_s:g} GB/s; {link.title}, {link.gbps:g} Gbit/s between any two workers, "
        "without message latency.",
        f"paleo, {RING}: assume {platform.ppp_comp:g} of the device's peaks and {platform.ppp_comm:g} of the link's; "
        "to calibrate, measure one worker and predict from its bundle with the same --device.",
        f"{BOUND}: full peaks, exchange overlapped with compute. Efficiency is relative to one worker.",
    ]
