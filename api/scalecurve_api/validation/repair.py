"""The nearest valid experiment to a wrong one, so that one mistake does not hide the others.

A misspelled name or value becomes what was suggested for it, and what else is wrong is dropped. What is still wrong
then is a mistake of the author too, unless it may follow from what was dropped.
"""

import copy
from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import Any

from scalecurve_api.problem import Path, Problem, ProblemCode

_MODEL = ("spec", "workload", "model")
_DECIDING = (("spec", "workload", "program"), ("spec", "workload", "strategy"), _MODEL)
"""Fields that say what the rest of the workload may be."""
_MATRIX, _EXCLUDE = ("spec", "matrix"), ("spec", "exclude")
_OF_WORKLOAD = (("spec", "workload"), _MATRIX)
_NAME = ("metadata", "name")
_ANY: dict[Path, Any] = {
    ("apiVersion",): "scalecurve.dev/v1alpha1",
    ("kind",): "ScalingExperiment",
    ("metadata",): {"name": "x"},
    _NAME: "x",
    ("spec", "workload", "command"): ["x"],
}
"""Required fields on which nothing else depends."""
_NEEDED = (("spec", "scaling"), ("spec", "workload"))
_SURE = 0.8
"""A name this much like the suggested one is taken for it; a mere guess is not judged as if it had been typed."""
_HARMLESS = (ProblemCode.unknown, ProblemCode.forbidden)
"""Of fields without which nothing else changes."""


def _ratio(name: str, near: str) -> float:
    return SequenceMatcher(None, name.lower(), near.lower()).ratio()


class Repair:
    """A copy of a document's value that is repaired step by step, and where its fields stand in the original."""

    def __init__(self, value: Any) -> None:
        self.value = copy.deepcopy(value)
        self._dropped: list[Path] = []
        self._renamed: dict[Path, str] = {}
        self._kept: dict[Path, list[int]] = {}

    def apply(self, problems: Sequence[Problem], *, of_shape: bool) -> None:
        """Repair what is wrong; ``problems`` have paths of the value as it is now.

        ``of_shape``: a field that is missing leaves no experiment at all, so what lacks it goes, too.
        """
        for problem in sorted(problems, key=_order, reverse=True):
            parent = _value_at(self.value, problem.path[:-1])
            if of_shape and problem.code is ProblemCode.required:
                self._complete(problem.path)
                continue
            last = problem.path[-1] if problem.path else ""
            if isinstance(parent, list) and isinstance(last, int) and last < len(parent):
                self._repair_item(parent, last, problem)
            elif isinstance(parent, dict) and isinstance(last, str) and last in parent:
                self._repair_field(parent, last, problem)

    def original(self, path: Path) -> Path:
        """The path of the original value that has become this one."""
        made: Path = ()
        for end, part in enumerate(path):
            now = path[:end]
            if isinstance(part, int) and now in self._kept:
                made += (self._kept[now][part],)
            else:
                made += (self._renamed.get((*now, part), part),)
        return made

    def explains(self, path: Path) -> bool:
        """Whether a problem at a path of the original value may follow from what was dropped."""
        if any(path[: len(dropped)] == dropped or dropped[: len(path)] == path for dropped in self._dropped):
            return True
        return path[:2] in _OF_WORKLOAD and any(dropped in _DECIDING for dropped in self._dropped)

    def _repair_field(self, parent: dict[str, Any], name: str, problem: Problem) -> None:
        near, outer = problem.suggestion, problem.path[:-1]
        typed = name if problem.code is ProblemCode.unknown else str(parent[name]) if problem.path == _MODEL else ""
        if near and typed and _ratio(typed, near) < _SURE:
            near = None
        if problem.code is ProblemCode.unknown and near and near not in parent and outer != _MATRIX:
            parent[near] = parent.pop(name)
            self._renamed[*outer, near] = name
        elif problem.code is ProblemCode.invalid and near and parent[name] == problem.got:
            parent[name] = near
        elif problem.path == _NAME:
            parent[name] = "x"  # required, and nothing depends on it
        else:
            del parent[name]
            harmless = problem.code in _HARMLESS and outer[:2] != _EXCLUDE
            self._dropped += [] if harmless else [self.original(problem.path)]

    def _complete(self, path: Path) -> None:
        outer, name = path[:-1], path[-1] if path else ""
        parent = _value_at(self.value, outer)
        if not isinstance(parent, dict) or name in parent:
            return
        if path in _ANY:
            parent[name] = copy.deepcopy(_ANY[path])
            self._dropped.append(path)
        elif len(outer) > 1 and outer not in _NEEDED:
            above, last = _value_at(self.value, outer[:-1]), outer[-1]
            self._dropped.append(self.original(outer))
            if isinstance(above, dict):
                del above[last]
            elif isinstance(last, int):
                kept = self._kept.setdefault(outer[:-1], list(range(len(above))))
                del above[last], kept[last]

    def _repair_item(self, parent: list[Any], index: int, problem: Problem) -> None:
        kept = self._kept.setdefault(problem.path[:-1], list(range(len(parent))))
        if problem.suggestion:
            parent[index] = problem.suggestion
        else:
            self._dropped.append(self.original(problem.path))
            del parent[index]
            del kept[index]


def _order(problem: Problem) -> list[str]:
    """The last item of a list first: those before it keep their index."""
    return [f"{part:09}" if isinstance(part, int) else part for part in problem.path]


def _value_at(value: Any, path: Path) -> Any:
    for part in path:
        try:
            value = value[part]
        except (KeyError, IndexError, TypeError):
            return None
    return value
