"""Tables of the quantized model: means over repetitions by bits, scheme and stage."""

from collections.abc import Sequence

from scalecurve.features.accuracy.results.outcome import PointTraining
from scalecurve.features.accuracy.results.tables import place, where
from scalecurve.render.table import Cell, Column, Table
from scalecurve.statistics.estimate import Estimate
from scalecurve.statistics.mean import mean
from scalecurve_api.features.quantization.facts import QUANTIZATION, QuantizationFacts, QuantizedRow

STAGES = {"weights": "Weights", "activations": "+ activations", "biases": "+ biases", "torch": "PyTorch built-in"}
Key = tuple[int, str]


def quantization_tables(points: Sequence[PointTraining]) -> tuple[Table, Table]:
    """Tabulate (accuracy and size, error of the logits): a row for each bit width and scheme, a column a stage."""
    quantized = [p for p in points if facts_of(p)]
    return _accuracy(quantized), _error(quantized)


def facts_of(p: PointTraining) -> list[QuantizationFacts]:
    """List the facts of the repetitions that were quantized."""
    return [facts for record in p.records if (facts := QUANTIZATION.of(record)) is not None]


def rows_of(p: PointTraining) -> dict[Key, dict[str, list[QuantizedRow]]]:
    """Group the rows of all repetitions as (bits, scheme) -> stage -> rows; bits descend."""
    out: dict[Key, dict[str, list[QuantizedRow]]] = {}
    for facts in facts_of(p):
        for row in facts.rows:
            out.setdefault((row.bits, row.scheme), {}).setdefault(row.stage, []).append(row)
    return dict(sorted(out.items(), key=lambda item: (-item[0][0], item[0][1] != "tensor")))


def share(p: PointTraining, rows: Sequence[QuantizedRow]) -> Estimate:
    """Estimate the mean accuracy over repetitions."""
    return mean([row.accuracy for row in rows], p.level, least=0, most=1)


def float_accuracy(p: PointTraining) -> Estimate:
    """Estimate the accuracy of the model as it was trained."""
    return mean([facts.float_accuracy for facts in facts_of(p)], p.level, least=0, most=1)


def _accuracy(points: Sequence[PointTraining]) -> Table:
    columns = (
        *where(points),
        Column("bits", "Bits", "count"),
        Column("scheme", "Granularity"),
        *(Column(f"accuracy_{stage}", title, "percent", interval=True) for stage, title in STAGES.items()),
        Column("bytes", "Size", "count", "bytes"),
        Column("of_float", "vs. float32", "percent"),
        Column("bytes_torch", "PyTorch's size", "count", "bytes"),
    )
    rows: list[tuple[Cell, ...]] = []
    for p in points:
        float_bytes = facts_of(p)[0].float_bytes
        rows.append((*place(p), 32, "float", float_accuracy(p), None, None, None, float_bytes, 1.0, None))
        for (bits, scheme), stages in rows_of(p).items():
            quantized, native = stages.get("biases") or stages.get("weights"), stages.get("torch")
            size = quantized[0].bytes if quantized else None
            shares = [share(p, stages[stage]) if stage in stages else None for stage in STAGES]
            of_float = size / float_bytes if size is not None and float_bytes else None
            rows.append((*place(p), bits, scheme, *shares, size, of_float, native[0].bytes if native else None))
    notes = (
        "Accuracy on held-out data by what is quantized: the weights; also the activations; also the biases, at the "
        "scale of the sums they are added to. Symmetric around zero, one scale per tensor or per channel of the "
        "weights; activations have one per tensor, from the range seen on the calibration batches.",
        "Size covers all parameters and their scales; biases keep 32 bits (64 above 8 bits).",
        "PyTorch built-in is torch.ao's default for that scheme: 8 bits for weights and 7 for activations, with "
        "zero-points.",
    )
    return Table("quantization", "Accuracy and size of quantized models", columns, tuple(rows), notes if rows else ())


def _error(points: Sequence[PointTraining]) -> Table:
    columns = (
        *where(points),
        Column("bits", "Bits", "count"),
        Column("scheme", "Granularity"),
        *(Column(f"error_{stage}", title, "percent", interval=True) for stage, title in STAGES.items()),
    )
    rows: list[tuple[Cell, ...]] = []
    for p in points:
        for (bits, scheme), stages in rows_of(p).items():
            by_stage = [[row.error for row in stages.get(stage, ())] for stage in STAGES]
            errors = [mean(values, p.level, least=0) if values else None for values in by_stage]
            rows.append((*place(p), bits, scheme, *errors))
    notes = ("Root-mean-square error of the logits relative to the float32 logits.",)
    return Table("quantization-error", "Logit error of quantized models", columns, tuple(rows), notes if rows else ())
