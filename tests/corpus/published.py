"""Published points by hand, and bundles to set beside them."""

from __future__ import annotations

from collections.abc import Sequence

from scalecurve.statistics.estimate import Estimate, Method
from scalecurve_corpus.comparable import OwnPoint
from scalecurve_corpus.schema import SAMPLES, Corpus, PublishedPoint, PublishedRun, PublishedSource

SOURCE = PublishedSource("round", "A Round, results", "https://example.org/round", "Apache-2.0", "2026-01-01")


def published(
    submitter: str = "A",
    per_device: Sequence[float] = (1000.0,),
    *,
    system: str = "box",
    benchmark: str = "resnet",
    device: str = "H100",
    workers: int = 8,
    nodes: int = 1,
    batch: int | None = 2048,
    precision: str | None = None,
    unit: str | None = SAMPLES,
    parameters: float | None = None,
    length: int | None = None,
    mfu: float | None = None,
) -> PublishedPoint:
    """A point with a run for each rate per device."""
    runs = tuple(PublishedRun(at + rate, 10.0, rate * workers if unit else None) for at, rate in enumerate(per_device))
    return PublishedPoint(
        "round", submitter, system, benchmark, device, nodes, workers // nodes, workers, batch, precision,
        "framework 1.0", "a switch", unit, "" if unit else "no unit", "step time", runs,
        (), parameters, length, mfu,
    )  # fmt: skip


def corpus(*points: PublishedPoint) -> Corpus:
    """A corpus of one source."""
    return Corpus((SOURCE,), points)


def kind(rates: Sequence[float], **stated: object) -> list[PublishedPoint]:
    """A system of a submitter of its own for each rate per device."""
    return [published(f"S{at}", (rate,), **stated) for at, rate in enumerate(rates)]  # type: ignore[arg-type]


def own(
    rate: float = 1000.0,
    *,
    half: float = 0.0,
    model: str = "resnet50",
    device: str = "H100",
    workers: int = 8,
    nodes: int = 1,
    batch: float | None = 256,
    precision: str | None = "bf16",
    parameters: float | None = None,
    length: int | None = None,
    mfu: float | None = None,
) -> OwnPoint:
    """A measured point with its rate per device and half interval."""
    estimate = Estimate(rate, rate - half, rate + half, 0.95, Method.REPETITIONS, 3)
    share = None if mfu is None else Estimate(mfu, mfu, mfu, 0.95, Method.REPETITIONS, 3)
    return OwnPoint(
        "mine", "weak", workers, nodes, device, model, precision, batch, {SAMPLES: estimate},
        parameters, length, share,
    )  # fmt: skip
