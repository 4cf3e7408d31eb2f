"""Tables of a known kind: what their columns are, and which rows are none of a finished run.

W&B's table of runs has a row for each run, with the last value of every metric. Tables of large-model scaling state
arithmetic per second of models that grow with the number of workers.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from scalecurve_api.spec.scaling import Mode
from scalecurve_api.text import count, few
from scalecurve_importing.columns import Statements, meaning
from scalecurve_importing.numbers import duration
from scalecurve_importing.reading import Reading, SourceError, Unit

Row = tuple[str, dict[str, str]]
_WANDB = ("Name", "State", "Notes", "User", "Tags", "Created", "Runtime", "Sweep", "ID", "Group", "Job Type",
          "End Time", "Hostname", "Host", "Commit", "_step", "_timestamp", "_runtime", "_wandb")  # fmt: skip
_LOST = ("crashed", "failed", "killed", "running", "pending", "preempted", "preempting")
_TRAINER = ("train_loss", "train_runtime", "train_steps_per_second", "total_flos", "train_samples", "epoch")
_GROWING = ("tp", "pp", "dp", "cp", "ep", "tensor_parallel", "pipeline_parallel", "tensor_parallel_size",
            "pipeline_parallel_size", "batch", "batch_size", "global_batch", "global_batch_size", "mfu", "layers",
            "hidden_size", "heads", "attention_heads", "parameters", "params", "seq_len")  # fmt: skip


@dataclass(frozen=True)
class PreparedTable:
    """Rows, what is known of their columns, and whether they may be steps of a run."""

    rows: Sequence[Row]
    statements: Statements
    notes: tuple[str, ...] = ()
    may_be_history: bool = True


def prepared(rows: Sequence[Row], statements: Statements) -> PreparedTable:
    """Select the rows that count, with what such tables mean by their columns."""
    headers = list(dict.fromkeys(header for _, row in rows for header in row))
    table = PreparedTable(rows, _add_written_units(rows, headers, statements))
    if {"Name", "State"} <= set(headers):
        table = _select_wandb_runs(table, headers)
    elif any(header.rpartition("/")[2] == "train_samples_per_second" for header in headers):
        table = _ignore_columns(table, [h for h in headers if h.rpartition("/")[2] in _TRAINER[:-1]])
    return _ignore_columns(table, _growth(rows, headers, table.statements))


def merge_growing_models(readings: Sequence[Reading]) -> list[Reading]:
    """Merge models that are each of one worker count into one curve, weak, where the rates are of arithmetic."""
    models: dict[str | None, set[int]] = {}
    for reading in readings:
        models.setdefault(reading.model, set()).add(reading.workers)
    counts = {reading.workers for reading in readings}
    grow = len(models) == len(counts) > 1 and all(len(workers) == 1 for workers in models.values())
    if not grow or None in models or any(reading.unit is not Unit.teraflop for reading in readings):
        return list(readings)
    said = few([f"{model} on {min(workers)}" for model, workers in models.items()], 6)
    note = f"the model grows with the workers ({said}), so efficiency is of arithmetic"
    return [
        replace(
            reading, model=None, mode=reading.mode or Mode.weak, global_batch=None, batch_per_worker=None,
            notes=(*reading.notes, note),
        )
        for reading in readings
    ]  # fmt: skip


def _growth(rows: Sequence[Row], headers: Sequence[str], statements: Statements) -> list[str]:
    """Columns that say how the models of a table of arithmetic were laid out; none where a model has two rows."""
    meant: dict[str, str] = {}
    for header in headers:
        with suppress(SourceError):
            if (each := meaning(header, "", statements)) is not None:
                meant.setdefault(f"{each.name} {each.unit}".strip(), header)
    rates = {name for name in meant if name.startswith("throughput")}
    if rates != {f"throughput {Unit.teraflop}"} or not {"model", "workers"} <= meant.keys():
        return []
    pairs = [(row.get(meant["model"]), row.get(meant["workers"])) for _, row in rows]
    if any(len(set(column)) < len(pairs) for column in zip(*pairs, strict=True)):
        return []
    return [header for header in headers if header.strip().lower().replace(" ", "_") in _GROWING]


def _add_written_units(rows: Sequence[Row], headers: Sequence[str], statements: Statements) -> Statements:
    """A column whose every cell has its unit needs none in its name."""
    written = {}
    for header in headers:
        texts = [row[header] for _, row in rows if row.get(header, "").strip()]
        if texts and header not in statements.units and all(duration(text) for text in texts):
            written[header] = "written"
    return replace(statements, units={**written, **statements.units}) if written else statements


def _select_wandb_runs(table: PreparedTable, headers: Sequence[str]) -> PreparedTable:
    stated = {*table.statements.columns.values(), *table.statements.factors}
    lost = [row for _, row in table.rows if row.get("State", "").strip().lower() in _LOST]
    rows = [each for each in table.rows if each[1].get("State", "").strip().lower() not in _LOST]
    notes = ["the last value that the run logged, by W&B's table of runs"]
    if lost:
        said = few([f"{row.get('Name')} ({row['State']})" for row in lost], 3)
        notes.append(f"{count(len(lost), 'run')} skipped: {said}")
    trainer = any(header.rpartition("/")[2] == "train_samples_per_second" for header in headers)
    own = {*_WANDB, *(header for header in headers if trainer and header.rpartition("/")[2] in _TRAINER)}
    own |= {h for h in headers if h.rpartition("/")[2] in ("global_step", "epoch")}
    return _ignore_columns(replace(table, rows=rows, notes=tuple(notes), may_be_history=False), sorted(own - stated))


def _ignore_columns(table: PreparedTable, headers: Iterable[str]) -> PreparedTable:
    stated = {*table.statements.columns.values(), *table.statements.factors}
    ignored = table.statements.ignored | {header for header in headers if header not in stated}
    return replace(table, statements=replace(table.statements, ignored=ignored))
