"""Tables of training to accuracy: one row per point, class, or epoch."""

from collections.abc import Sequence
from statistics import fmean

from scalecurve.features.accuracy.results.outcome import PointTraining
from scalecurve.render.table import Cell, Column, Table, experiment_column, table_of
from scalecurve.statistics.estimate import Estimate, Method, is_informative
from scalecurve.statistics.mean import mean
from scalecurve_api.features.noise_scale.facts import NOISE_SCALE, NoiseScaleRow
from scalecurve_api.record.facts.dataset import DATASET, DatasetFacts, LabelFacts


def where(points: Sequence[PointTraining]) -> tuple[Column, ...]:
    """Return the columns that identify a point."""
    return (
        experiment_column(p.bundle for p in points),
        Column("series", "Series"),
        Column("workers", "Workers", "count"),
        Column("layout", "Layout", detail=all(p.point.nodes == 1 for p in points)),
    )


def place(p: PointTraining) -> list[Cell]:
    """Return the cells that identify a point."""
    return [p.bundle, p.series, p.point.workers, p.point.layout]


def accuracy_table(points: Sequence[PointTraining]) -> Table:
    """Tabulate accuracy, epochs and time to target, and throughput."""
    experiment, series, workers, layout = where(points)
    return table_of(
        "accuracy",
        "Training to accuracy",
        points,
        (
            (experiment, lambda p: p.bundle),
            (series, lambda p: p.series),
            (workers, lambda p: p.point.workers),
            (layout, lambda p: p.point.layout),
            (Column("runs", "Runs", "count"), lambda p: len(p.runs)),
            (Column("epochs", "Epochs", "count"), lambda p: p.epochs),
            (Column("final_accuracy", "Final accuracy", "percent", interval=True), lambda p: p.final),
            (Column("best_accuracy", "Best accuracy", "percent", interval=True), lambda p: p.best),
            (Column("test_accuracy", "Test accuracy", "percent", interval=True), lambda p: p.tested),
            (Column("training_accuracy", "Training accuracy", "percent", interval=True), lambda p: p.fitted),
            (Column("target", "Target", "percent"), lambda p: p.target),
            (Column("reached", "Runs that reached it"), _runs_at_target),
            (Column("epochs_to_target", "Epochs to target", "number", interval=True), lambda p: p.epochs_to_target),
            (Column("to_target_s", "Time to target", "number", "s", interval=True), lambda p: p.seconds_to_target),
            (Column("epoch_s", "Epoch time", "number", "s", interval=True), lambda p: p.epoch_s),
            (Column("throughput", "Throughput", "number", _unit(points), interval=True), lambda p: p.throughput),
        ),
        _notes(points),
    )


def data_table(points: Sequence[PointTraining]) -> Table:
    """Tabulate the sizes of the data sets, one row for each that differs."""
    columns = (
        Column("data", "Data"),
        Column("train", "Training items", "count"),
        Column("val", "Held-out items", "count"),
        Column("test", "Test items", "count"),
        Column("classes", "Classes", "count"),
        Column("fewest", "Smallest class", "count"),
        Column("fewest_of", "of"),
        Column("most", "Largest class", "count"),
        Column("most_of", "of"),
    )
    rows: list[tuple[Cell, ...]] = []
    for label, facts in data_sets(points):
        counts = facts.class_counts
        ends = [choose(range(len(counts)), key=counts.__getitem__) for choose in (min, max)] if counts else []
        cells: list[Cell] = [cell for index in ends for cell in (counts[index], class_name(facts, index))]
        rows.append((label, facts.train, facts.val, facts.test, len(counts) or None, *(cells or [None] * 4)))
    return Table("data", "Data", columns, tuple(rows))


def label_table(points: Sequence[PointTraining]) -> Table:
    """Tabulate what ``workload.data.labels`` did to the labels of training, one row for each data set that differs."""
    changed = [(label, facts, facts.labels) for label, facts in data_sets(points) if facts.labels is not None]
    return table_of(
        "labels",
        "Labels that training saw",
        changed,
        (
            (Column("data", "Data"), lambda r: r[0]),
            (Column("stored", "Stored", "count"), lambda r: r[2].stored),
            (Column("left_out", "Cut to a long tail", "count"), lambda r: r[2].left_out),
            (Column("unlabeled", "Without a label", "count"), lambda r: r[2].unlabeled),
            (Column("flipped", "Labels flipped", "count"), lambda r: r[2].flipped),
            (Column("pseudo_labeled", "Pseudo-labels kept", "count"), lambda r: r[2].pseudo_labeled),
            (Column("pseudo_correct", "of them correct", "percent"), lambda r: _correct(r[2])),
            (Column("train", "Training items", "count"), lambda r: r[1].train),
            (Column("distinct", "of them distinct", "count"), lambda r: r[2].distinct),
        ),
        ("Pseudo-labels are correct where they are the stored ones, which training did not see.",) if changed else (),
    )


def _correct(facts: LabelFacts) -> float | None:
    return facts.pseudo_correct / facts.pseudo_labeled if facts.pseudo_labeled else None


def class_table(points: Sequence[PointTraining]) -> Table:
    """Tabulate the training items per class; a column for each data set that differs."""
    few = [(label, facts) for label, facts in data_sets(points) if facts.class_counts][:6]
    names = list(dict.fromkeys(class_name(facts, i) for _, facts in few for i in range(len(facts.class_counts))))
    columns = [Column("class", "Class")]
    columns += [Column(f"items_{n}", label if len(few) > 1 else "Items", "count") for n, (label, _) in enumerate(few)]
    counted = [{class_name(facts, i): n for i, n in enumerate(facts.class_counts)} for _, facts in few]
    rows = tuple((name, *(counts.get(name) for counts in counted)) for name in names)
    return Table("classes", "Training items per class", tuple(columns), rows)


def data_sets(points: Sequence[PointTraining]) -> list[tuple[str, DatasetFacts]]:
    """List (label, facts) of each data set, by its first repetition, whatever the pictures and the test accuracy."""
    sets: dict[str, tuple[list[PointTraining], DatasetFacts]] = {}
    for p in points:
        facts = DATASET.of(p.records[0])
        if facts is not None:
            key = facts.model_copy(update={"pictures": [], "test_accuracy": None}).model_dump_json()
            sets.setdefault(key, ([], facts))[0].append(p)
    out = []
    for belonging, facts in sets.values():
        source = belonging[0].records[0].trial.workload.data.source.value
        label = "; ".join(p.label for p in belonging[:3]) + (f" and {len(belonging) - 3} more" * (len(belonging) > 3))
        out.append((source if len(sets) == 1 else f"{source}: {label}", facts))
    return out


def class_name(facts: DatasetFacts, index: int) -> str:
    """Return the name of a class, or its number."""
    return facts.class_names[index] if index < len(facts.class_names) else str(index)


def noise_table(points: Sequence[PointTraining]) -> Table:
    """Tabulate the gradient noise scale by epoch: means over repetitions, in samples."""
    columns = (
        *where(points),
        Column("epoch", "Epoch", "count"),
        Column("steps", "Steps", "count"),
        Column("small_batch", "Small batch", "count"),
        Column("large_batch", "Large batch", "count"),
        Column("gradient2", "|G|²", "number"),
        Column("trace", "tr Σ", "number"),
        Column("simple", "Noise scale", "number", "samples", interval=True, keep=True),
        Column("known", "Identified in"),
    )
    rows = [
        (
            *(*place(p), epoch, scales[0].steps, scales[0].small_batch, scales[0].large_batch),
            *(
                fmean(row.gradient2 for row in scales),
                fmean(row.trace for row in scales),
                estimate_noise_scale(p, scales),
            ),
            f"{sum(row.simple is not None for row in scales)}/{len(scales)}",
        )
        for p in points
        for epoch, scales in noise_by_epoch(p).items()
    ]
    notes = (
        "The noise scale is tr Σ / |G|², both estimated without bias from gradients of a small and a large batch "
        "(McCandlish et al., arXiv:1812.06162): beyond batches of that size, more samples help less and less. Shown "
        "only where every repetition separates |G|² from zero.",
    )
    return Table("noise-scale", "Gradient noise scale", columns, tuple(rows), notes if rows else ())


def noise_by_epoch(p: PointTraining) -> dict[int, list[NoiseScaleRow]]:
    """Group the rows of all repetitions by epoch."""
    out: dict[int, list[NoiseScaleRow]] = {}
    for record in p.records:
        for row in NOISE_SCALE.of(record):
            out.setdefault(row.epoch, []).append(row)
    return dict(sorted(out.items()))


def estimate_noise_scale(p: PointTraining, rows: Sequence[NoiseScaleRow]) -> Estimate | None:
    """Estimate the mean over repetitions if all have it: those without are the noisiest."""
    if len(rows) == 1 and rows[0].simple is not None and rows[0].simple_low is not None:
        if not is_informative(rows[0].simple_low, rows[0].simple_high):
            return Estimate.not_known(rows[0].simple, 0.95, 1)
        return Estimate(rows[0].simple, rows[0].simple_low, rows[0].simple_high, 0.95, Method.WITHIN_RUN, 1)
    scales = [row.simple for row in rows if row.simple is not None]
    return mean(scales, p.level, least=0) if scales and len(scales) == len(rows) else None


def _runs_at_target(p: PointTraining) -> str | None:
    if p.target is None:
        return None
    return f"{len(p.reached)}/{len(p.runs)}" if p.reached else "not reached"


def _notes(points: Sequence[PointTraining]) -> list[str]:
    if not points:
        return ["No valid trial was trained to accuracy; measure.accuracy in the experiment does."]
    notes = [
        "Accuracy on held-out data. Intervals are Student's t over repetitions, which differ in their seed, clipped "
        "to 0 and 100 %. The best of many epochs is slightly optimistic."
    ]
    if any(p.tested for p in points):
        notes.append("Test accuracy is that of the last epoch's model on the test folder, which chose nothing.")
    if any(0 < len(p.reached) < len(p.runs) for p in points):
        notes.append("Epochs and time to target cover only the runs that reached it; the others would take longer.")
    if any(NOISE_SCALE.of(record) for p in points for record in p.records):
        notes.append(
            "The gradient noise scale was measured during these trainings, at a cost that differs between one and "
            "several workers: their times are steps times the step time of the timed windows, which ran without it."
        )
    if any(len(p.runs) == 1 for p in points):
        notes.append("A single run has no interval.")
    return notes


def _unit(points: Sequence[PointTraining]) -> str:
    units = {record.summary.sample_unit for p in points for record in p.records if record.summary}
    return f"{units.pop() if len(units) == 1 else 'samples'}/s"
