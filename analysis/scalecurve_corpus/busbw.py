"""Measured bus bandwidth beside published figures of nccl-tests on the same device, each with its source."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files

from scalecurve.bundle.open import Bundle
from scalecurve.features.collectives.collectives import CollectiveResult, collectives, rows_of
from scalecurve.hardware.devices import device_name
from scalecurve.hardware.entries import Positive, SourcedEntry, entries_of_text
from scalecurve_api.features.collectives.kinds import Collective

LARGE = 256 << 20
"""Bytes of a message from which a published figure is compared: below, the latency counts as well."""


class PublishedBusbw(SourcedEntry):
    """A figure of nccl-tests: ``busbw_gb_s`` on ``ranks`` devices."""

    device: str
    ranks: int
    nodes: int
    collectives: list[Collective]
    busbw_gb_s: Positive


@dataclass(frozen=True)
class BusbwBeside:
    """A measured bus bandwidth and a published one."""

    device: str
    measured: CollectiveResult
    published: PublishedBusbw

    @property
    def differs(self) -> str:
        """What differs although the device is the same; empty where nothing that is stated does."""
        point = self.measured.point
        ours, theirs = (point.workers, point.nodes), (self.published.ranks, self.published.nodes)
        return "" if ours == theirs else f"{theirs[0]} devices on {theirs[1]}, not {ours[0]} on {ours[1]}"


@lru_cache(maxsize=1)
def read_published_busbw() -> tuple[PublishedBusbw, ...]:
    """Read the figures that ship."""
    text = (files("scalecurve_corpus") / "data" / "busbw.yaml").read_text(encoding="utf-8")
    return tuple(entries_of_text(text, "busbw.yaml", PublishedBusbw).values())


def busbw_beside(bundles: Sequence[Bundle], published: Sequence[PublishedBusbw]) -> tuple[BusbwBeside, ...]:
    """Set the largest message of every collective beside published figures.

    Args:
        bundles: Those with a microbenchmark of collectives count.
        published: Figures of nccl-tests.

    Returns:
        Figures of as many devices if there are any, else those of other numbers of the same device; none where the
        largest message is below ``LARGE`` or the device has no figure.
    """
    devices = {bundle.label: _devices(bundle) for bundle in bundles}
    found = []
    for result in _largest(collectives(bundles).results):
        device = devices[result.bundle].get(result.point.name, "")
        known = [p for p in published if p.device == device and result.line.collective in p.collectives]
        beside = [BusbwBeside(device, result, figure) for figure in known]
        found += [each for each in beside if not each.differs] or beside
    return tuple(found)


def _largest(results: Sequence[CollectiveResult]) -> Iterator[CollectiveResult]:
    """Of each point, collective and tool the largest message."""
    largest: dict[tuple[object, ...], CollectiveResult] = {}
    for result in results:
        key = (result.bundle, result.point.name, result.line.collective, result.line.tool)
        if result.line.bytes >= LARGE and (key not in largest or result.line.bytes > largest[key].line.bytes):
            largest[key] = result
    yield from largest.values()


def _devices(bundle: Bundle) -> dict[str, str]:
    """The device of each point that measured collectives; a point on devices of several kinds has none."""
    seen: dict[str, set[str]] = {}
    for trial in bundle.trials:
        if trial.record is not None and any(True for _ in rows_of(trial)):
            names = {device_name(rank.device_name) for rank in trial.record.topology}
            seen.setdefault(trial.spec.point.name, set()).update(names)
    return {name: devices.pop() for name, devices in seen.items() if len(devices) == 1}
