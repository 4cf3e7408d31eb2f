"""Placeholders in what a custom workload starts: ``{batchPerWorker}`` in its command, its variables or its folder.

A placeholder is a name in braces, and nothing else is: JSON, ``{}``, ``{1..4}`` and the shell's ``${HOME}`` stay as
they are, and ``{{name}}`` is ``{name}`` itself. ``{batchPerWorker/5}`` is the batch of a program whose steps take five.
The same values are variables of every rank.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from scalecurve_api.contract import VALUE_PREFIX
from scalecurve_api.model import Scalar
from scalecurve_api.problem import (
    Description,
    Path,
    Problem,
    Violation,
    expected,
    one_of,
    report_unknown_placeholder,
    reserved,
)
from scalecurve_api.programs.custom import DIVIDED_BATCH, CustomWorkload
from scalecurve_api.programs.degrees import Degrees, Dimension
from scalecurve_api.programs.workload import Workload
from scalecurve_api.spec.trial import TrialSpec
from scalecurve_api.text import spell_value

BUILT_IN = ("batchPerWorker", "globalBatch", "workers", "nodes", "workersPerNode", "seed", "trialName")
LAYOUT = (*(dimension.value for dimension in Dimension), "groupBatch", "microBatches", "microBatch", "schedule")
"""Of a workload with ``parallelism``, and of no other: there they would hide what the command means by them."""
_OF_LAYOUTS = BUILT_IN[1:]
"""Without the batch of a worker, which a worker of a data-parallel group does not have for itself"""
_PARALLELISM = "parallelism."
_PARAMETERS = "parameters."
_NAME = r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*"
_PLACEHOLDER = re.compile(
    rf"\$\{{[^}}]*\}}|\{{(?P<literal>\{{{_NAME}(?:/\d+)?\}})\}}|\{{(?P<name>{_NAME})\}}|{DIVIDED_BATCH}"
)
_WORD_ENDS = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[^A-Za-z0-9]+")


def filled(trial: TrialSpec) -> TrialSpec:
    """The trial with the values of its point in the place of every placeholder: what an engine starts."""
    workload = trial.workload
    if not isinstance(workload, CustomWorkload):
        return trial
    values = values_of(trial)
    changed = {
        "command": [fill(word, values) for word in workload.words],
        "args": [],  # so that a worker that knows no args starts the same
        "env": {name: fill(text, values) for name, text in workload.env.items()},
        "working_dir": fill(workload.working_dir, values) if workload.working_dir else None,
    }
    return trial.model_copy(update={"workload": workload.model_copy(update=changed)})


def fill(text: str, values: Mapping[str, str]) -> str:
    """The text with the values of its placeholders; one that has none stays."""

    def value(match: re.Match[str]) -> str:
        if match["literal"]:
            return match["literal"]
        if match["batch"] in values:
            whole, by = int(values[match["batch"]]), match["by"]
            return str(whole // int(by)) if by.isdecimal() and int(by) else match[0]
        return values.get(match["name"], match[0]) if match["name"] else match[0]

    return _PLACEHOLDER.sub(value, text)


def values_of(trial: TrialSpec) -> dict[str, str]:
    """Every placeholder of a trial with its value, spelled as in YAML."""
    point = trial.point
    own = (point.batch_per_worker, point.global_batch, point.workers, point.nodes, point.workers_per_node)
    built_in = zip(BUILT_IN, (*own, trial.seed, trial.name), strict=True)
    free = _free(trial)
    values = {name: spell_value(value) for name, value in built_in if value is not None} | {
        name: spell_value(free[axis]) for name, axis in names_of(free).items()
    }
    if point.parallelism is None:
        return values
    layout = _layout_values(trial, point.parallelism)
    full = {f"{_PARALLELISM}{name}": value for name, value in layout.items()}
    return values | layout | {name: value for name, value in full.items() if name in values}


def _layout_values(trial: TrialSpec, degrees: Degrees) -> dict[str, str]:
    sizes = {dimension.value: size for dimension, size in degrees.sizes.items()}
    numbers: dict[str, int] = {**sizes, "microBatches": degrees.micro_batches}
    if degrees.group_batch is not None:
        numbers |= {"groupBatch": degrees.group_batch, "microBatch": degrees.group_batch // degrees.micro_batches}
    schedule = trial.workload.layout.schedule.value if trial.workload.layout else ""
    return {name: spell_value(value) for name, value in numbers.items()} | {"schedule": schedule}


def names_of(axes: Iterable[str]) -> dict[str, str]:
    """Placeholders of axes and parameters: each by its full name, and by its last part where no other has it."""
    full = list(dict.fromkeys(axes))
    short = Counter(map(_last, full))
    unambiguous = {_last(axis): axis for axis in full if short[_last(axis)] == 1 and _last(axis) not in BUILT_IN}
    return {**{axis: axis for axis in full}, **unambiguous}


def variables(trial: TrialSpec) -> dict[str, str]:
    """The values as variables of every rank: ``SCALECURVE_GLOBAL_BATCH``, ``SCALECURVE_PARAMETER_SEQ_LEN``."""
    if not trial.workload.words:
        return {}
    values = values_of(trial)
    shortest = {axis: name for name, axis in names_of(_free(trial)).items()}
    built_in = BUILT_IN if trial.point.parallelism is None else (*_OF_LAYOUTS, *LAYOUT)
    return {variable_of(name): values[name] for name in built_in if name in values} | {
        variable_of(name, "PARAMETER_"): values[name] for name in shortest.values()
    }


def variable_of(name: str, kind: str = "") -> str:
    """The variable of a placeholder: ``batchPerWorker`` is ``SCALECURVE_BATCH_PER_WORKER``."""
    return f"{VALUE_PREFIX}{kind}{_WORD_ENDS.sub('_', name).upper()}"


def problems(workload: Workload, axes: Iterable[str]) -> Iterator[Problem]:
    """Placeholders that no trial has a value for, and parameters whose names are taken; ``axes`` are the matrix's."""
    taken: dict[str, str] = {}
    for name in workload.own_values:
        path: Path = ("spec", "workload", "parameters", name)
        if name in (BUILT_IN if workload.layout is None else (*BUILT_IN, *LAYOUT)):
            yield Problem(path, name, reserved(f"{{{name}}} is set by the experiment for each point"))
        elif (other := taken.setdefault(variable_of(name), name)) != name:
            yield Problem(path, name, expected(f"a name that differs from {other} by more than case and underscores"))
    built_in = BUILT_IN if workload.layout is None else (*_OF_LAYOUTS, *LAYOUT)
    names = (*built_in, *names_of((*axes, *(f"{_PARAMETERS}{name}" for name in workload.own_values))))
    for field, text in workload.texts():
        for match in _PLACEHOLDER.finditer(text):
            if (name := match["name"] or match["batch"]) and name not in names:
                yield Problem(
                    ("spec", "workload", *field), Description(f"{{{name}}}"), _placeholder_violation(name, names)
                )
            elif (batch := match["batch"]) and not (match["by"].isdecimal() and int(match["by"])):
                part = expected(f"{{{batch}/N}}, the batch divided by a whole number")
                yield Problem(("spec", "workload", *field), Description(match[0]), part)


def _placeholder_violation(name: str, names: Sequence[str]) -> Violation:
    if full := [f"{{{axis}}}" for axis in names if _last(axis) == name]:
        return expected(one_of(full))  # ambiguous
    return report_unknown_placeholder(name, names)


def _free(trial: TrialSpec) -> dict[str, Scalar]:
    """Values of the point's axes and of the command's parameters, by the names of axes."""
    return {**trial.point.axes, **{f"{_PARAMETERS}{name}": value for name, value in trial.workload.own_values.items()}}


def _last(axis: str) -> str:
    return axis.rpartition(".")[2]
