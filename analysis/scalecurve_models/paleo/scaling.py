"""Data parallelism: a step of n workers, with forward, backward, update and exchange in sequence."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

from scalecurve.hardware.devices import DeviceSpec, Link, Precision
from scalecurve_models.networks.graph import Network
from scalecurve_models.paleo.communication import SCHEMES, exchange_ms
from scalecurve_models.paleo.costs import Rates, costs_of, update_ms
from scalecurve_models.paleo.terms import HEAD, PaleoError, Variant, check_ppp

Scaling = Literal["strong", "weak"]
MOST_WORKERS = 10_000_000
MOST_BATCH = 10**9


@dataclass(frozen=True)
class Platform:
    """The hardware, and the fraction of its peaks that the software reaches (PPP, platform percent of peak).

    ``ppp_comp`` divides the device's peak and its memory bandwidth, ``ppp_comm`` the link's; both may exceed 1, where
    an algorithm (Winograd) needs fewer operations than are counted. Raises PaleoError unless both are positive.
    """

    device: DeviceSpec
    link: Link
    ppp_comp: float = 0.62
    ppp_comm: float = 0.72
    precision: Precision = "fp32"

    def __post_init__(self) -> None:
        check_ppp("ppp_comp", self.ppp_comp)
        check_ppp("ppp_comm", self.ppp_comm)


SOFTWARE: dict[str, tuple[float, float]] = {
    "peak": (1.0, 1.0),
    "tensorflow": (0.62, 0.72),
    "mxnet": (0.49, 0.72),
    "caffe": (0.21, 0.56),
}
"""PPP for compute and communication in the authors' demo, measured in 2016."""


@dataclass(frozen=True)
class StepPrediction:
    """One step of ``workers``; times in milliseconds, ``throughput`` in samples/s with the tree's exchange."""

    workers: int
    batch_per_worker: int
    forward_ms: float
    backward_ms: float
    update_ms: float
    communication_ms: dict[str, float]
    samples: int

    @property
    def compute_ms(self) -> float:
        return self.forward_ms + self.backward_ms + self.update_ms

    @property
    def step_ms(self) -> float:
        """The step with the tree's exchange, without overlap."""
        return self.compute_ms + self.communication_ms["tree"]

    @property
    def throughput(self) -> float:
        return self.samples / self.step_ms * 1e3

    def plain(self) -> dict[str, Any]:
        fields = {name: value for name, value in vars(self).items() if name != "samples"}
        return fields | {"step_ms": self.step_ms, "throughput": self.throughput}


def predict_step(
    network: Network,
    platform: Platform,
    *,
    batch: int,
    workers: int = 1,
    scaling: Scaling = "weak",
    variant: Variant = HEAD,
) -> StepPrediction:
    """Predict one step.

    ``batch`` is the global batch for strong scaling (a worker has the batch over the workers, rounded up) and the
    batch of each worker for weak scaling. ``pipeline`` overlaps computing and memory within each layer.
    ``corrected`` leaves out the mistakes that docs/explanation/paleo.md lists.

    Raises PaleoError for a batch, a number of workers or a PPP that cannot be.
    """
    check_counts(batch, workers, scaling)
    per_worker = -(-batch // workers) if scaling == "strong" else batch
    costs = costs_of(network, variant)
    rates = Rates.of(platform.device, platform.ppp_comp, platform.precision)
    return StepPrediction(
        workers=workers,
        batch_per_worker=per_worker,
        forward_ms=costs.forward.total(per_worker, rates, variant.pipeline),
        backward_ms=costs.backward.total(per_worker, rates, variant.pipeline),
        update_ms=update_ms(costs.parameter_bytes, platform.device, variant.pipeline),
        communication_ms=_exchanges(costs.parameter_bytes, platform, workers),
        samples=batch if scaling == "strong" else batch * workers,
    )


def predict_scaling(
    network: Network,
    platform: Platform,
    *,
    batch: int,
    workers: Sequence[int],
    scaling: Scaling = "weak",
    variant: Variant = HEAD,
) -> list[StepPrediction]:
    """Predict a step for each number of workers; each batch per worker is computed once. Raises PaleoError."""
    if not workers:
        raise PaleoError("workers: expected one or more numbers, got none")
    by_batch: dict[int, StepPrediction] = {}
    predictions = []
    for n in workers:
        check_counts(batch, n, scaling)
        per_worker = -(-batch // n) if scaling == "strong" else batch
        if per_worker not in by_batch:
            by_batch[per_worker] = predict_step(network, platform, batch=per_worker, variant=variant)
        exchanges = _exchanges(costs_of(network, variant).parameter_bytes, platform, n)
        samples = batch if scaling == "strong" else batch * n
        predictions.append(replace(by_batch[per_worker], workers=n, communication_ms=exchanges, samples=samples))
    return predictions


def _exchanges(parameter_bytes: int, platform: Platform, workers: int) -> dict[str, float]:
    return {
        name: exchange_ms(parameter_bytes, platform.link, workers, scheme, platform.ppp_comm)
        for name, scheme in SCHEMES.items()
    }


def check_counts(batch: int, workers: int, scaling: str) -> None:
    """Raise PaleoError for an invalid batch, number of workers or scaling."""
    for name, value, most in (("batch", batch, MOST_BATCH), ("workers", workers, MOST_WORKERS)):
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
            raise PaleoError(f"{name} {value!r}: expected an integer from 1 to {most:,}")
    if scaling not in get_args(Scaling):
        raise PaleoError(f"scaling {scaling!r}: expected one of {', '.join(get_args(Scaling))}")
