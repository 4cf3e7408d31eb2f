"""Transformers' Trainer: ``trainer_state.json`` of a finished run, ``all_results.json`` and ``train_results.json``.

They state one number of a run: samples by all its time, its first steps, evaluations and checkpoints included.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from scalecurve_importing.columns import Statements
from scalecurve_importing.importer import Importer
from scalecurve_importing.reading import Reading, SourceError, Stretch
from scalecurve_importing.stated import agreed, stated
from scalecurve_importing.text_file import read_text

_RATE, _TIME = "train_samples_per_second", "train_runtime"
_NOTE = (
    "mean over the complete run, first steps and evaluations included; of a resumed run it counts the steps before, too"
)
_SURE = 1e-3


def recognized(path: Path, head: str) -> bool:
    """Return whether the Trainer wrote this: its state, or the metrics of its end."""
    text = head.lstrip()
    if not text.startswith("{") or "\n{" in text.rstrip():
        return False
    return '"log_history"' in text or (f'"{_RATE}"' in text and f'"{_TIME}"' in text)


def read(path: Path, statements: Statements) -> list[Reading]:
    """Read the one run of a file; raises SourceError where it has not ended, or the worker count is missing."""
    try:
        tree = json.loads(read_text(path))
    except ValueError as error:
        raise SourceError(f"{path}: not JSON: {error}") from error
    if not isinstance(tree, dict):
        raise SourceError(f"{path}: expected an object, as the Trainer writes it")
    end = _end(path, tree)
    rate, seconds = _positive(path, end, _RATE), _positive(path, end, _TIME)
    steps = tree.get("global_step") or end.get("step")
    if not steps and isinstance(per_second := end.get("train_steps_per_second"), int | float):
        steps = round(per_second * seconds)
    steps = steps if isinstance(steps, int) and steps > 0 else 0
    batch = _batch(rate * seconds, steps) if steps else None
    facts = agreed(statements.facts, {"global_batch": str(batch)} if batch else {}, path.name)
    reading = stated(facts, path.name, lambda field: f"{path.name}, --set {field}", {})
    stretch = Stretch(batch * steps, batch * steps / rate, steps) if batch else Stretch(rate * seconds, seconds)
    return [replace(reading, stretches=(stretch,), notes=(*reading.notes, _NOTE))]


def _end(path: Path, tree: Mapping[str, Any]) -> Mapping[str, Any]:
    """The entry that was written at the end of training."""
    if "log_history" not in tree:
        return tree
    history = tree["log_history"] if isinstance(tree["log_history"], list) else []
    ends = [entry for entry in history if isinstance(entry, dict) and _RATE in entry]
    if not ends:
        raise SourceError(
            f"{path}: its log_history has no {_RATE}, as that of a checkpoint: take the trainer_state.json beside the "
            "model that was saved at the end, or train_results.json"
        )
    return ends[-1]


def _positive(path: Path, end: Mapping[str, Any], name: str) -> float:
    value = end.get(name)
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value < float("inf"):
        raise SourceError(f"{path}: {name}: got {value!r}, expected a positive number")
    return float(value)


def _batch(samples: float, steps: int) -> int | None:
    """Samples of a step, where they are a whole number: the last batch of an epoch may be smaller."""
    batch = round(samples / steps)
    return batch if batch and abs(samples / steps / batch - 1) < _SURE else None


IMPORTER = Importer(recognized, read)
