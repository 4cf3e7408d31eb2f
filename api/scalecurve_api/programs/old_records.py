"""Reading what was written before: records with every program's fields, and defaults that have changed since."""

from collections.abc import Mapping, Sequence
from typing import Any

from scalecurve_api.model import Model, fields_by_name, model_in
from scalecurve_api.programs.workload import DEFAULT_PROGRAM, PROGRAMS, Workload

PAST_DEFAULTS: Mapping[str, Any] = {
    "options.fsdpGroupMb": 128.0,
    "options.gradientAsBucketView": True,
    "options.keepThreads": True,
}
"""What an option was when an experiment did not say; the record of a trial always does."""


def is_planned(planned: Workload, recorded: Workload) -> bool:
    """Whether a trial ran the planned workload; what the plan leaves to a default may be the default of that day."""
    differing = [path for path in PAST_DEFAULTS if planned.field_value(path) != recorded.field_value(path)]
    if any(recorded.field_value(path) != PAST_DEFAULTS[path] for path in differing):
        return False
    same = planned.wire()
    for path in differing:
        group, _, name = path.partition(".")
        if planned.field_value(path) != _default(planned, group, name):
            return False
        same[group][name] = recorded.field_value(path)
    return planned == recorded if not differing else type(planned).model_validate(same) == recorded


def _default(workload: Workload, group: str, name: str) -> Any:
    fields = fields_by_name(type(getattr(workload, group)))
    return fields[name].default if name in fields else None


def without_foreign_fields(spec: Any) -> Any:
    """The spec of a trial or an experiment without the workload's fields that only other programs have.

    They had no effect: legality refused all but their defaults. Fields that no program has are kept, and refused.
    """
    workload = spec.get("workload") if isinstance(spec, dict) else None
    name = workload.get("program", DEFAULT_PROGRAM) if isinstance(workload, dict) else None
    if not isinstance(name, str) or name not in PROGRAMS.built_in:
        return spec
    programs = [PROGRAMS.get(program) for program in PROGRAMS.built_in]
    return {**spec, "workload": _strip_foreign_fields(workload, PROGRAMS.get(name), programs)}


def _strip_foreign_fields(value: Any, kind: type[Model], others: Sequence[type[Model]]) -> Any:
    if not isinstance(value, dict):
        return value
    fields = fields_by_name(kind)
    foreign = {name for other in others for name in fields_by_name(other)} - set(fields)
    kept = {}
    for name, inner in value.items():
        if name in foreign:
            continue
        model = model_in(fields[name].annotation) if name in fields else None
        if model is not None:
            siblings = [fields_by_name(other)[name].annotation for other in others if name in fields_by_name(other)]
            inner = _strip_foreign_fields(inner, model, [kind for kind in map(model_in, siblings) if kind])
        kept[name] = inner
    return kept
