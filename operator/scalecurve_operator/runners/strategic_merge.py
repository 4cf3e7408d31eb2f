"""Kubernetes' strategic merge patch, for pod templates.

Mappings are merged, null removes a field. Lists of objects that the API merges by a key (``patchMergeKey`` of
``core/v1``) are merged by it; ``$patch: delete`` removes such an entry, ``$patch: replace`` keeps nothing of what was
there. All other lists are replaced.
"""

import copy
from collections.abc import Mapping
from typing import Any

_KEYS = {
    "containers": "name",
    "initContainers": "name",
    "volumes": "name",
    "env": "name",
    "volumeMounts": "mountPath",
    "volumeDevices": "devicePath",
    "ports": "containerPort",
    "imagePullSecrets": "name",
    "resourceClaims": "name",
    "claims": "name",
    "schedulingGates": "name",
    "hostAliases": "ip",
    "topologySpreadConstraints": "topologyKey",
}
_DIRECTIVE = "$patch"


def merged(tree: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of ``tree`` with the patch applied."""
    if patch.get(_DIRECTIVE) == "replace":
        return {name: copy.deepcopy(part) for name, part in patch.items() if name != _DIRECTIVE}
    result = dict(copy.deepcopy(tree))
    for name, change in patch.items():
        if change is None:
            result.pop(name, None)
        elif isinstance(change, Mapping):
            before = result.get(name)
            result[name] = merged(before if isinstance(before, Mapping) else {}, change)
        elif isinstance(change, list) and name in _KEYS and isinstance(result.get(name, []), list):
            result[name] = _merge_list(result.get(name, []), change, _KEYS[name])
        else:
            result[name] = copy.deepcopy(change)
    return result


def renamed(patch: Mapping[str, Any], name: str, to: str) -> dict[str, Any]:
    """The patch of a pod with its container ``name`` called ``to``."""
    result = copy.deepcopy(dict(patch))
    for container in (result.get("spec") or {}).get("containers") or ():
        if container.get("name") == name:
            container["name"] = to
    return result


def _merge_list(entries: list[Any], changes: list[Any], key: str) -> list[Any]:
    """Entries keep their order; new ones follow in that of the patch."""
    if any(isinstance(change, Mapping) and change.get(_DIRECTIVE) == "replace" for change in changes):
        entries, changes = [], [change for change in changes if change.get(_DIRECTIVE) != "replace"]
    result = list(entries)
    for change in changes:
        at = next((index for index, entry in enumerate(result) if entry.get(key) == change.get(key)), None)
        if change.get(_DIRECTIVE) == "delete":
            result = [entry for index, entry in enumerate(result) if index != at]
        elif at is None:
            result.append(copy.deepcopy(change))
        else:
            result[at] = merged(result[at], change)
    return result
