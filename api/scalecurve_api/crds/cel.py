"""Rules of both CRDs in CEL: what an API server can refuse by itself, without a webhook.

They say less than ``rules``: an engine validates every experiment anyway. Here stands what is wrong beyond doubt and
cheap to see, and what only the API server can see: that a started experiment stays what it was.
"""

from typing import Any

Rule = dict[str, Any]

# A refused experiment has a phase and was never started: it may be corrected.
_STARTED = "has(oldSelf.status) && has(oldSelf.status.startedAt)"
CHANGEABLE = frozenset({"suspend", "cancel"})


def _rule(path: str, rule: str, message: str, **reason: str) -> Rule:
    return {"rule": rule, "message": message, "fieldPath": path, **reason}


def name_rules(most: int) -> list[Rule]:
    """The object's name becomes part of other names and of labels."""
    name, pattern = "self.metadata.name", "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
    message = f"metadata.name: at most {most} lower-case letters, digits and dashes"
    return [{"rule": f"{name}.size() <= {most} && {name}.matches('{pattern}')", "message": message}]


def keep_once_started(field: str, always: bool) -> Rule:
    """A root rule that keeps ``spec.<field>``; ``always``: the field is required or has a default."""
    new, old = f"self.spec.{field}", f"oldSelf.spec.{field}"
    same = f"{new} == {old}" if always else f"has({new}) == has({old}) && (!has({new}) || {new} == {old})"
    message = f"spec.{field} cannot change once the experiment has started; only suspend and cancel can"
    return _rule(f".spec.{field}", f"!({_STARTED}) || ({same})", message, reason="FieldValueForbidden")


def _batch(mode: str, field: str) -> Rule:
    rule = (
        f"!('{mode}' in self.scaling.modes) || self.workload.program in ['allreduce', 'collectives'] || "
        f"has(self.scaling.batch.{field}) || has(self.matrix.batch__dot__{field})"
        f"{' || has(self.scaling.batch.ladder)' if field == 'perWorker' else ''}"
    )
    message = f"{mode} scaling needs scaling.batch.{field}, in samples"
    return _rule(".scaling.batch", rule, message, reason="FieldValueRequired")


def _each_once(field: str) -> Rule:
    return _rule(f".{field}", f"self.{field}.all(x, self.{field}.exists_one(y, x == y))", f"{field}: each value once")


# All on the spec, which has no default itself: an API server tries a default of {} against the rules beside it.
SPEC_RULES: list[Rule] = [
    _batch("strong", "global"),
    _batch("weak", "perWorker"),
    _rule(
        ".scaling.baseline",
        "self.scaling.baseline == 'auto' || self.scaling.baseline in self.scaling.workers",
        "baseline: auto, or one of the worker counts",
    ),
    _each_once("scaling.workers"),
    _each_once("scaling.modes"),
    _rule(
        ".placement",
        "!has(self.placement.workersPerNode) || self.placement.layouts.size() == 0",
        "either layouts or workersPerNode, not both",
    ),
    _rule(
        ".measure.maxWarmupSteps",
        "self.measure.maxWarmupSteps >= self.measure.warmupSteps",
        "maxWarmupSteps: at least warmupSteps",
    ),
    _rule(
        ".workload",
        "self.workload.program != 'custom' || has(self.workload.command) || has(self.matrix.program)",
        "program custom needs a command",
        reason="FieldValueRequired",
    ),
]
IMMUTABLE: list[Rule] = [{"rule": "self == oldSelf", "message": "a trial's spec cannot change"}]
