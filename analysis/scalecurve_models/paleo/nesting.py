"""A network as a sequence of layers and parallel branches, for bounds on the time of a pass.

The walk of TalwalkarLab/paleo, paleo/graph.py: a chain until it forks, each branch until it meets a layer with several
parents, and on from there once all branches have met it.
"""

from collections.abc import Mapping, Sequence

from scalecurve_models.networks.graph import Network
from scalecurve_models.paleo.terms import PaleoError

Nested = str | tuple[list["Nested"], ...]  # a layer's name, or parallel branches


def nest(network: Network) -> list[Nested]:
    """The network proper, nested. Raises PaleoError for one whose branches do not nest."""
    layers = network.main_layers
    children: dict[str, list[str]] = {layer.name: [] for layer in layers}
    for layer in layers:
        for parent in layer.parents:
            children[parent].append(layer.name)
    waiting = {layer.name: len(layer.parents) for layer in layers}
    joints = {name for name, parents in waiting.items() if parents > 1}
    items, _ = _walk([network.input.name], children, waiting, joints)
    missing = set(children) - set(_names(items))
    if missing:
        first = next(layer.name for layer in layers if layer.name in missing)
        raise PaleoError(f"network {network.name}: branches do not nest at layer {first}; use data parallelism")
    return items


def bounds(items: Sequence[Nested], times: Mapping[str, float]) -> tuple[float, float]:
    """Minimum time (branches in parallel) and maximum (in sequence); layers without a time take none."""
    least = most = 0.0
    for item in items:
        if isinstance(item, str):
            time = times.get(item, 0.0)
            least, most = least + time, most + time
        else:
            branches = [bounds(branch, times) for branch in item]
            least += max(branch[0] for branch in branches)
            most += sum(branch[1] for branch in branches)
    return least, most


def _walk(
    frontier: list[str], children: Mapping[str, list[str]], waiting: dict[str, int], joints: set[str]
) -> tuple[list[Nested], list[str]]:
    """Everything after the frontier up to the joints that are still waiting, and those joints."""
    items: list[Nested] = []
    while frontier and not all(name in joints for name in frontier):
        if len(frontier) == 1:
            items.append(frontier[0])
            frontier = children[frontier[0]]
            for child in frontier:
                waiting[child] -= 1
            continue
        branches: list[list[Nested]] = []
        met: dict[str, None] = {}
        for name in frontier:
            branch, ends = _walk([name], children, waiting, joints)
            branches += [branch] if branch else []
            met |= {end: None for end in ends if waiting[end] == 0}
        if branches:
            items.append(tuple(branches))
        joints -= set(met)
        frontier = list(met)
    return items, frontier


def _names(items: Sequence[Nested]) -> list[str]:
    names: list[str] = []
    for item in items:
        names += [item] if isinstance(item, str) else [name for branch in item for name in _names(branch)]
    return names
