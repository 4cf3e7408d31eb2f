"""Rules of both CRDs in CEL: what an API server can refuse by itself, without a webhook.

They say less than ``rules``: an engine validates every experiment anyway. Here stands what is wrong beyond doubt and
cheap to see, and what only the API server can see: that a started experiment stays what it was.
"""

from typing import Any

Rule = dict[str, Any]

# A refused experiment has a phase and was never started: it may be corrected.
_STARTED = "has(oldSelf.status) && has(oldSelf.status.startedAt)"
CHANGEABLE = frozenset({"suspend", "cancel"})


def name_rules(most: int) -> list[Rule]:
    """The object's name becomes part of other names and of labels."""
    return [
        {
            "rule": f"self.metadata.name.size() <= {most} && "
            "self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",
            "message": f"metadata.name: at most {most} lower-case letters, digits and dashes",
        }
    ]


def unchanged_once_started(field: str, always: bool) -> Rule:
    """A root rule that keeps ``spec.<field>``; ``always``: the field is required or has a default."""
    new, old = f"self.spec.{field}", f"oldSelf.spec.{field}"
    same = f"{new} == {old}" if always else f"has({new}) == has({old}) && (!has({new}) || {new} == {old})"
    return {
        "rule": f"!({_STARTED}) || ({same})",
        "message": f"spec.{field} cannot change once the experiment has started; only suspend and cancel can",
        "fieldPath": f".spec.{field}",
        "reason": "FieldValueForbidden",
    }


def _batch(mode: str, field: str) -> Rule:
    return {
        "rule": f"!('{mode}' in self.scaling.modes) || self.workload.program == 'allreduce' || "
        f"has(self.scaling.batch.{field}) || has(self.matrix.batch__dot__{field})",
        "message": f"{mode} scaling needs scaling.batch.{field}, in samples",
        "fieldPath": ".scaling.batch",
        "reason": "FieldValueRequired",
    }


def _each_once(field: str) -> Rule:
    return {
        "rule": f"self.{field}.all(x, self.{field}.exists_one(y, x == y))",
        "message": f"{field}: each value once",
        "fieldPath": f".{field}",
    }


# All on the spec, which has no default itself: an API server tries a default of {} against the rules beside it.
SPEC_RULES: list[Rule] = [
    _batch("strong", "global"),
    _batch("weak", "perWorker"),
    {
        "rule": "self.scaling.baseline == 'auto' || self.scaling.baseline in self.scaling.workers",
        "message": "baseline: auto, or one of the worker counts",
        "fieldPath": ".scaling.baseline",
    },
    _each_once("scaling.workers"),
    _each_once("scaling.modes"),
    {
        "rule": "!has(self.placement.workersPerNode) || self.placement.layouts.size() == 0",
        "message": "either layouts or workersPerNode, not both",
        "fieldPath": ".placement",
    },
    {
        "rule": "self.measure.maxWarmupSteps >= self.measure.warmupSteps",
        "message": "maxWarmupSteps: at least warmupSteps",
        "fieldPath": ".measure.maxWarmupSteps",
    },
    {
        "rule": "self.workload.program != 'custom' || has(self.workload.command) || has(self.matrix.program)",
        "message": "program custom needs a command",
        "fieldPath": ".workload",
        "reason": "FieldValueRequired",
    },
]
IMMUTABLE: list[Rule] = [{"rule": "self == oldSelf", "message": "a trial's spec cannot change"}]
