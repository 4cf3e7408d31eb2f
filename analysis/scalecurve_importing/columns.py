"""Columns of tables by their names: which field a header means, and in which unit it is. No unit is guessed."""

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from scalecurve_api.text import did_you_mean, few
from scalecurve_importing.numbers import CLOCKS, SECONDS, WRITTEN, duration, number
from scalecurve_importing.reading import Reading, SourceError, Unit
from scalecurve_importing.run_lines import StepLine

_WORK = {
    Unit.samples: "samples|sample|images|image|imgs|img|examples|example|sequences|sequence|seqs|seq|items",
    Unit.tokens: "tokens|token|toks|tok",
}
_UNIT = "|".join([*CLOCKS, *sorted(SECONDS, key=len, reverse=True)])
_EACH = {"gpu": "worker", "worker": "worker", "device": "worker", "accelerator": "worker", "rank": "worker"}
_PER = "|".join([*_EACH, "node", "host"])
_STEP = "step|iteration|iter|batch"
_FLOPS = r"(?:[a-z]+_)*?(?:t|tera)(?:flops|flop_s|flops_s|flop_per_s|flops_per_s|flop_per_second)"
_PATTERNS = (
    *(
        (rf"(?:[a-z]+_)*?(?:{words})_(?:per_)?(?:s|sec|secs|second)(?:_(?:per_)?({_PER}))?", "throughput", unit.value)
        for unit, words in _WORK.items()
    ),
    (rf"{_FLOPS}(?:_(?:per_)?({_PER}))?", "throughput", Unit.teraflop.value),
    (rf"(?:avg_|mean_|median_|train_)?(?:{_STEP})(?:_time|_timing|_duration)?_(?:in_)?({_UNIT})", "step_time", ""),
    (rf"({_UNIT})_(?:per_)?(?:{_STEP})", "step_time", ""),
    (rf"time_per_(?:{_STEP})_({_UNIT})", "step_time", ""),
    (rf"(?:[a-z]+_)?(?:time|duration|runtime|walltime|elapsed)_(?:in_)?({_UNIT})", "time", ""),
    (rf"(?:price|cost)?_?per_({_PER})_hour", "price", ""),
    (rf"(?:price|cost)_({_PER})_(?:hour|h)", "price", ""),
)
_NAMES = {
    "workers": "workers worker gpus gpu_count num_gpus n_gpus ngpus accelerators devices ranks world_size nproc np "
    "processes n",
    "nodes": "nodes num_nodes n_nodes nnodes hosts machines",
    "layout": "layout nodes_x_gpus nodes_x_workers nodes_x_gpus_per_node",
    "workers_per_node": "workers_per_node gpus_per_node devices_per_node ppn",
    "speedup": "speedup speed_up scaling_factor",
    "samples": "samples images examples dataset_size dataset_samples",
    "global_batch": "global_batch global_batch_size total_batch total_batch_size gbs effective_batch "
    "effective_batch_size total_train_batch_size",
    "batch_per_worker": "batch_per_worker batch_per_gpu batch_size_per_gpu batch_per_device per_gpu_batch "
    "per_gpu_batch_size per_device_batch_size local_batch local_batch_size per_device_train_batch_size "
    "per_gpu_train_batch_size batch_size_per_device train_micro_batch_size_per_gpu",
    "accumulation": "accumulation accumulation_steps gradient_accumulation gradient_accumulation_steps grad_accum "
    "grad_accum_steps grad_acc_steps accumulate_grad_batches iters_to_accum micro_batches num_microbatches",
    "tokens_per_worker": "tokens_per_worker tokens_per_device tokens_per_gpu tokens_per_rank",
    "tokens_per_step": "tokens_per_step tokens_per_iter tokens_per_iteration tokens_per_batch global_batch_tokens",
    "bytes": "bytes message_bytes size_bytes bytes_per_message message_size_bytes size_b",
    "collective": "collective",
    "repetition": "repetition rep repeat run run_id",
    "step": "step global_step iter iteration current_steps trainer_global_step train_global_step",
    "epoch": "epoch current_epoch train_epoch",
    "timestamp": "timestamp",
    "rank": "rank local_rank process_index",
    "repetitions": "repetitions repeats n_repetitions",
    "currency": "currency",
    "mode": "mode scaling",
    "model": "model model_size parameters_billion number_of_parameters_billion",
    "device": "device gpu gpu_type gpu_name device_name accelerator hardware",
    "network": "network interconnect fabric",
    "precision": "precision dtype",
    "framework": "framework",
    "strategy": "strategy",
}
_BARE = {
    "throughput": ("throughput", "samples/s or tokens/s, or per worker: samples/s/worker"),
    "rate": ("throughput", "samples/s or tokens/s, or per worker: samples/s/worker"),
    "speed": ("throughput", "samples/s or tokens/s, or per worker: samples/s/worker"),
    "step_time": ("step_time", "s, ms or us"),
    "iteration_time": ("step_time", "s, ms or us"),
    "time": ("time", "s, min, h, d, mm:ss or h:mm:ss"),
    "duration": ("time", "s, min, h, d, mm:ss or h:mm:ss"),
    "training_time": ("time", "s, min, h, d, mm:ss or h:mm:ss"),
    "runtime": ("time", "s, min, h, d, mm:ss or h:mm:ss"),
    "price": ("price", "per_worker_hour or per_node_hour"),
}
_UNITS = {
    "throughput": ("samples/s", "tokens/s", "images/s", "samples/s/worker", "tokens/s/worker", "images/s/worker"),
    "step_time": tuple(SECONDS),
    "time": (*SECONDS, "mm:ss", "h:mm:ss"),
    "price": ("per_worker_hour", "per_node_hour"),
}
"""Field → units that a misspelled one is compared with."""
_FIELDS = {name: known for known, names in _NAMES.items() for name in names.split()}
FACTORS = ("device", "network", "precision", "framework", "strategy")
IGNORED = ("note", "notes", "comment", "comments", "source", "efficiency", "scaling_efficiency", "parallel_efficiency",
           "mfu", "hfu")  # fmt: skip
"""Columns that say nothing of a run, or what is worked out of others."""
FIELDS = (*_NAMES, "throughput", "step_time", "time", "price")
"""Every field that a column or ``--set`` may state."""


@dataclass(frozen=True)
class Statements:
    """What the user states about a source: ``facts`` by field, columns by field, units by column or field.

    ``pattern``, or the tool of that name, reads a log's lines where ``ok`` is found in one; ``patterns`` is a file of
    further tools.
    """

    facts: Mapping[str, str] = field(default_factory=dict)
    columns: Mapping[str, str] = field(default_factory=dict)
    units: Mapping[str, str] = field(default_factory=dict)
    factors: frozenset[str] = frozenset()
    ignored: frozenset[str] = frozenset()
    tag: str | None = None
    pattern: str | None = None
    ok: str | None = None
    patterns: Path | None = None


@dataclass(frozen=True)
class Meaning:
    """The field of a column; its numbers times ``scale`` are seconds or work, of one worker or node if ``per``."""

    name: str
    header: str
    scale: float = 1.0
    per: str = ""
    unit: str = ""
    parts: int = 0

    @property
    def spelled(self) -> str:
        """The unit as the summary of an import states it."""
        if self.name == "throughput":
            return f"{self.unit}/s" + (f" of one {self.per}" if self.per else " over all workers")
        if self.parts:
            return {3: "h:mm:ss", 2: "mm:ss"}.get(self.parts, "as written, such as 2d 3h")
        if self.name in ("step_time", "time"):
            return next(name for name, scale in SECONDS.items() if scale == self.scale)
        return f"per {self.per} and hour" if self.name == "price" else ""


class ColumnError(SourceError):
    """A column that cannot be read; ``problem`` is the short form, ``option`` what states it."""

    def __init__(self, file: str, problem: str, option: str, rest: str) -> None:
        super().__init__(f"{file}: {rest}")
        self.file, self.problem, self.option = file, problem, option


def meanings(headers: Iterable[str], file: str, statements: Statements) -> dict[str, Meaning | None]:
    """Find what every column holds; raises ColumnsError, for all columns at once, where some cannot be read."""
    known: dict[str, Meaning | None] = {}
    errors: list[ColumnError] = []
    for header in headers:
        try:
            known[header] = meaning(header, file, statements)
        except ColumnError as error:
            errors.append(error)
    if errors:
        names = {each.name for each in known.values() if each} | statements.facts.keys()
        stated = "workers" in names or {"nodes", "workers_per_node"} <= names
        missing = [] if stated else ["--set workers=N"]
        if not names & {"mode", "batch_per_worker", "global_batch"}:
            missing.append("--set mode=weak")
        raise ColumnsError(errors, missing)
    return known


class ColumnsError(SourceError):
    """All columns of one or several files that cannot be read, and the options that state them."""

    def __init__(self, errors: Sequence[ColumnError], missing: Sequence[str]) -> None:
        self.errors, self.missing = errors, missing
        super().__init__(self._line())

    def _line(self) -> str:
        options = list(dict.fromkeys(error.option for error in self.errors))
        if len(options) == 1:
            return str(self.errors[0])
        problems = list(dict.fromkeys(error.problem.partition(": ")[0] for error in self.errors))
        files = few(dict.fromkeys(error.file for error in self.errors), 3)
        units = [f"; UNIT is {e.problem.partition(': ')[2]}" for e in self.errors if e.option.endswith("=UNIT")]
        return (
            f"{files}: {len(problems)} columns need a statement: {', '.join(problems)}; add "
            f"{' '.join([*options, *dict.fromkeys(self.missing)])}{''.join(dict.fromkeys(units))}; for a column that "
            f"counts, --column FIELD=COLUMN or --factor COLUMN instead of --ignore (fields: {', '.join(FIELDS)})"
        )


def meaning(header: str, file: str, statements: Statements) -> Meaning | None:
    """Find what a column holds; None for one that is ignored.

    Raises SourceError for an unknown column, and for one whose name lacks its unit.
    """
    if header in statements.ignored:
        return None
    if header in statements.factors:
        return Meaning(header, header)
    chosen = {column: name for name, column in statements.columns.items()}
    if header not in chosen and re.search(r"__(MIN|MAX)$", header):
        return None  # of W&B's charts, beside the column itself
    plain = _normalize(chosen.get(header, header.rpartition(" - ")[2]))
    unit = statements.units.get(header) or statements.units.get(plain)
    if unit is not None:
        plain = _add_unit(plain, unit)
    elif re.fullmatch(_FLOPS, plain):
        raise ColumnError(
            file, f"{header!r} of one worker or of all", f"--unit {shlex.quote(header)}=TFLOP/s/worker",
            f"column {header!r} may be of one worker or of all; add --unit {shlex.quote(f'{header}=TFLOP/s/worker')} "
            f"or --unit {shlex.quote(f'{header}=TFLOP/s')}",
        )  # fmt: skip
    if (field_name := _FIELDS.get(plain, _FIELDS.get(plain.removeprefix("train_")))) is not None:
        return Meaning(field_name, header)
    for pattern, name, work in _PATTERNS:
        if match := re.fullmatch(pattern, plain):
            return _quantity_meaning(name, header, match[1] or "", work)
    if plain in _BARE:
        raise ColumnError(
            file, f"{header!r} without a unit: {_BARE[plain][1]}", f"--unit {plain}=UNIT",
            f"column {header!r} states no unit; add --unit {plain}=UNIT, which is {_BARE[plain][1]}",
        )  # fmt: skip
    if plain in IGNORED or _normalize(header.rpartition("/")[2]) in IGNORED:
        return None
    if plain in ("batch", "batch_size"):
        share, total = (
            f"--column {shlex.quote(f'{field}={header}')}" for field in ("batch_per_worker", "global_batch")
        )
        raise ColumnError(
            file, f"{header!r} of one worker or of all (global_batch)", share,
            f"column {header!r} may be of one worker or of all; add {share} or {total}",
        )  # fmt: skip
    near = did_you_mean(plain, [*_FIELDS, *_BARE])
    hint = f" (did you mean {near}?)" if near else ""
    ignore = f"--ignore {shlex.quote(header)}"
    raise ColumnError(
        file, f"{header!r} unknown", ignore,
        f"unknown column {header!r}{hint}; state what it is with --column {shlex.quote(f'FIELD={header}')}, "
        f"--factor {shlex.quote(header)} or {ignore} (fields: {', '.join(FIELDS)})",
    )  # fmt: skip


def seconds(text: str, meant: Meaning, place: str) -> float:
    """Convert a duration in the column's unit to seconds; raises SourceError with the place."""
    if not meant.parts:
        return number(text, place) * meant.scale
    if meant.parts == WRITTEN:
        if (total := duration(text)) is None:
            raise SourceError(f"{place}: got {text!r}, expected a duration such as 2d 3h")
        return total
    pieces = text.strip().split(":")
    if len(pieces) != meant.parts:
        raise SourceError(f"{place}: got {text!r}, expected {meant.spelled}")
    values = [number(piece, place, zero=True) for piece in pieces]
    if any(value >= 60 for value in values[1:]) or not any(values):
        raise SourceError(f"{place}: got {text!r}, expected {meant.spelled}")
    total = 0.0
    for value in values:
        total = total * 60 + value
    return total


def entry_of(meant: Meaning, value: float, reading: Reading, place: str, number: int, step: int | None) -> StepLine:
    """Return a step time or a throughput of a run's step, once its batch or its worker count is known."""
    if meant.name == "throughput":
        work = reading.global_batch if meant.unit == Unit.samples else None
        return StepLine(number, step, rate=value * copies(meant, reading, place), work=work)
    if reading.global_batch is None:
        raise SourceError(f"{place}: a step time needs the batch; state it with --set batch_per_worker=N")
    return StepLine(number, step, value * meant.scale, work=reading.global_batch)


def copies(meant: Meaning, reading: Reading, place: str) -> int:
    """Count the workers or nodes that a throughput of one of them stands for."""
    if meant.per == "node":
        if reading.nodes is None:
            raise SourceError(f"{place}: is of a node, and the number of nodes is not stated")
        return reading.nodes
    return reading.workers if meant.per else 1


def _quantity_meaning(name: str, header: str, detail: str, work: str) -> Meaning:
    if name == "throughput":
        return Meaning(name, header, per=_EACH.get(detail, "node") if detail else "", unit=work)
    if name == "price":
        return Meaning(name, header, per=_EACH.get(detail, "node"))
    if detail in CLOCKS:
        return Meaning(name, header, parts=CLOCKS[detail])
    return Meaning(name, header, scale=SECONDS[detail])


def _add_unit(plain: str, unit: str) -> str:
    """The name of a column with the unit that was stated for it, as ``step_time_ms``.

    Raises SourceError for a unit that the field does not have.
    """
    known, allowed = _BARE.get(plain, (plain, ""))
    suffix = _normalize(unit)
    if re.fullmatch(_FLOPS, plain) and re.match(_FLOPS, suffix):
        return suffix
    named = suffix if known in ("throughput", "price") else f"{known}_{suffix}"
    if allowed and not any(name == known and re.fullmatch(pattern, named) for pattern, name, _ in _PATTERNS):
        near = did_you_mean(unit, _UNITS[known])
        hint = f"; did you mean {near!r}?" if near else ""
        raise SourceError(f"--unit {plain}: got {unit!r}; expected {allowed}{hint}")
    return named


def _normalize(header: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", header.strip().lower()).strip("_")
