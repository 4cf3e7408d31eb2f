"""Tables of training to accuracy: one row per point, class, or epoch."""

from collections.abc import Sequence
from statistics import fmean

from scalecurve.render.table import Cell, Column, Table
from scalecurve.statistics.estimate import Estimate, Method
from scalecurve.statistics.mean import mean
from scalecurve.training_results.outcome import PointTraining
from scalecurve_api.record.rank import DatasetFacts, NoiseScaleRow

MOST_CLASSES = 60
"""With more classes than this the rarest and the most frequent stand for all."""


def where(points: Sequence[PointTraining]) -> tuple[Column, ...]:
    """The columns that identify a point; the experiment is shown only if there are several."""
    return (
        Column("experiment", "Experiment", detail=len({p.bundle for p in points}) < 2),
        Column("series", "Series"),
        Column("workers", "Workers", "count"),
        Column("layout", "Layout", detail=all(p.point.nodes == 1 for p in points)),
    )


def place(p: PointTraining) -> list[Cell]:
    """Their cells."""
    return [p.bundle, p.series, p.point.workers, p.point.layout]


def accuracy_table(points: Sequence[PointTraining]) -> Table:
    """Accuracy, epochs and time to target, and throughput."""
    columns = (
        *where(points),
        Column("runs", "Runs", "count"),
        Column("epochs", "Epochs", "count"),
        Column("final_accuracy", "Final accuracy", "percent", interval=True),
        Column("best_accuracy", "Best accuracy", "percent", interval=True),
        Column("training_accuracy", "Training accuracy", "percent", interval=True),
        Column("target", "Target", "percent"),
        Column("reached", "Runs that reached it"),
        Column("epochs_to_target", "Epochs to target", "number", interval=True),
        Column("to_target_s", "Time to target", "number", "s", interval=True),
        Column("epoch_s", "Epoch time", "number", "s", interval=True),
        Column("throughput", "Throughput", "number", _unit(points), interval=True),
    )
    rows = [
        (
            *place(p),
            len(p.runs),
            p.epochs,
            p.final,
            p.best,
            p.fitted,
            p.target,
            _reached(p),
            p.epochs_to_target,
            p.seconds_to_target,
            p.epoch_s,
            p.throughput,
        )
        for p in points
    ]
    return Table("accuracy", "Training to accuracy", columns, tuple(rows), tuple(_notes(points)))


def data_table(points: Sequence[PointTraining]) -> Table:
    """Sizes of the data sets, one row for each that differs."""
    columns = (
        Column("data", "Data"),
        Column("train", "Training items", "count"),
        Column("val", "Held-out items", "count"),
        Column("classes", "Classes", "count"),
        Column("fewest", "Smallest class", "count"),
        Column("fewest_of", "of"),
        Column("most", "Largest class", "count"),
        Column("most_of", "of"),
    )
    rows: list[tuple[Cell, ...]] = []
    for label, facts in data_sets(points):
        counts = facts.class_counts
        row: list[Cell] = [label, facts.train, facts.val, len(counts) or None]
        for choose in (min, max):
            index = choose(range(len(counts)), key=counts.__getitem__) if counts else None
            row += [None, None] if index is None else [counts[index], class_name(facts, index)]
        rows.append(tuple(row))
    return Table("data", "Data", columns, tuple(rows))


def class_table(points: Sequence[PointTraining]) -> Table:
    """Training items per class; a column for each data set that differs."""
    sets = [(label, facts) for label, facts in data_sets(points) if facts.class_counts]
    few = [(label, facts) for label, facts in sets if len(facts.class_counts) <= MOST_CLASSES][:6]
    names = list(dict.fromkeys(class_name(facts, i) for _, facts in few for i in range(len(facts.class_counts))))
    columns = [Column("class", "Class")]
    columns += [Column(f"items_{n}", label if len(few) > 1 else "Items", "count") for n, (label, _) in enumerate(few)]
    counted = [{class_name(facts, i): n for i, n in enumerate(facts.class_counts)} for _, facts in few]
    rows = tuple((name, *(counts.get(name) for counts in counted)) for name in names)
    return Table("classes", "Training items per class", tuple(columns), rows)


def data_sets(points: Sequence[PointTraining]) -> list[tuple[str, DatasetFacts]]:
    """(labels of its points, facts) of each data set, its pictures left aside; the first repetition speaks."""
    sets: dict[str, tuple[list[PointTraining], DatasetFacts]] = {}
    for p in points:
        facts = p.records[0].dataset
        if facts is not None:
            key = facts.model_copy(update={"pictures": []}).model_dump_json()
            sets.setdefault(key, ([], facts))[0].append(p)
    out = []
    for belonging, facts in sets.values():
        source = belonging[0].records[0].trial.workload.data.source.value
        label = "; ".join(p.label for p in belonging[:3]) + (f" and {len(belonging) - 3} more" * (len(belonging) > 3))
        out.append((source if len(sets) == 1 else f"{source}: {label}", facts))
    return out


def class_name(facts: DatasetFacts, index: int) -> str:
    """The name of a class, or its number."""
    return facts.class_names[index] if index < len(facts.class_names) else str(index)


def noise_table(points: Sequence[PointTraining]) -> Table:
    """The gradient noise scale by epoch: means over repetitions, in samples."""
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
    rows = []
    for p in points:
        for epoch, scales in noise_by_epoch(p).items():
            first = scales[0]
            simple = known_scale(p, scales)
            rows.append(
                (
                    *place(p),
                    epoch,
                    first.steps,
                    first.small_batch,
                    first.large_batch,
                    fmean(row.gradient2 for row in scales),
                    fmean(row.trace for row in scales),
                    simple,
                    f"{sum(row.simple is not None for row in scales)}/{len(scales)}",
                )
            )
    notes = (
        "The noise scale is tr Σ / |G|², both estimated without bias from gradients of a small and a large batch "
        "(McCandlish et al., arXiv:1812.06162): beyond batches of that size, more samples help less and less. Shown "
        "only where every repetition separates |G|² from zero.",
    )
    return Table("noise-scale", "Gradient noise scale", columns, tuple(rows), notes if rows else ())


def noise_by_epoch(p: PointTraining) -> dict[int, list[NoiseScaleRow]]:
    """Rows of all repetitions, epoch by epoch."""
    out: dict[int, list[NoiseScaleRow]] = {}
    for record in p.records:
        for row in record.noise_scale:
            out.setdefault(row.epoch, []).append(row)
    return dict(sorted(out.items()))


def known_scale(p: PointTraining, rows: Sequence[NoiseScaleRow]) -> Estimate | None:
    """The mean over repetitions if all have it: those without are the noisiest."""
    if len(rows) == 1 and rows[0].simple is not None and rows[0].simple_low is not None:
        return Estimate(rows[0].simple, rows[0].simple_low, rows[0].simple_high, 0.95, Method.WITHIN_RUN, 1)
    scales = [row.simple for row in rows if row.simple is not None]
    return mean(scales, p.level, least=0) if scales and len(scales) == len(rows) else None


def _reached(p: PointTraining) -> str | None:
    if p.target is None:
        return None
    return f"{len(p.reached)}/{len(p.runs)}" if p.reached else "not reached"


def _notes(points: Sequence[PointTraining]) -> list[str]:
    if not points:
        return ["No Succeeded trial was trained to accuracy; set measure.accuracy."]
    notes = [
        "Accuracy on held-out data. Intervals are Student's t over repetitions, which differ in their seed, clipped "
        "to 0 and 100 %. The best of many epochs is slightly optimistic."
    ]
    if any(0 < len(p.reached) < len(p.runs) for p in points):
        notes.append("Epochs and time to target cover only the runs that reached it; the others would take longer.")
    if any(record.noise_scale for p in points for record in p.records):
        notes.append(
            "The gradient noise scale was measured during these trainings: times include that overhead, which "
            "differs between one and several workers; throughput does not."
        )
    if any(len(p.runs) == 1 for p in points):
        notes.append("A single run has no interval.")
    return notes


def _unit(points: Sequence[PointTraining]) -> str:
    units = {record.summary.sample_unit for p in points for record in p.records if record.summary}
    return f"{units.pop() if len(units) == 1 else 'samples'}/s"
