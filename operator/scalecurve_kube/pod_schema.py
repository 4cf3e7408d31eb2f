"""Whether the fields of a pod are fields of a pod, at every depth: by the models of the Kubernetes client."""

import re
from collections.abc import Iterator
from typing import Any

from kubernetes.client import models

from scalecurve_api.problem import Path, Problem, expected, unknown

_NESTED = re.compile(r"(List|Dict)\[(?:str, )?(\w+)\]")


def pod_problems(pod: Any, path: Path) -> Iterator[Problem]:
    """Report names that no field of a pod's ``spec`` has, and lists and mappings that are none.

    Directives of a strategic merge patch (``$patch``) are no fields, and null removes one.
    """
    yield from _problems(pod, "V1PodSpec", path)


def _problems(value: Any, model: str, path: Path) -> Iterator[Problem]:
    kind = getattr(models, model, None)
    if kind is None or value is None:
        return
    if not isinstance(value, dict):
        yield Problem(path, value, expected("a mapping"))
        return
    names = {wire: name for name, wire in kind.attribute_map.items()}
    for name, child in value.items():
        if name.startswith("$"):
            continue
        if name not in names:
            yield Problem((*path, name), child, unknown("field", name, names))
            continue
        yield from _field_problems(child, kind.openapi_types[names[name]], (*path, name))


def _field_problems(value: Any, declared: str, path: Path) -> Iterator[Problem]:
    nested = _NESTED.fullmatch(declared)
    if nested is None:
        yield from _problems(value, declared, path)
    elif value is None:
        return
    elif nested[1] == "Dict":
        if not isinstance(value, dict):
            yield Problem(path, value, expected("a mapping"))
            return
        for key, child in value.items():
            yield from _problems(child, nested[2], (*path, key))
    elif isinstance(value, list):
        for index, child in enumerate(value):
            yield from _problems(child, nested[2], (*path, index))
    else:
        yield Problem(path, value, expected("a list"))
