"""Data parallelism: a step of n workers, with forward, backward, update and exchange in sequence."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from scalecurve.hardware.devices import DeviceSpec, Link, Precision
from scalecurve_models.networks.counting import Convention, totals
from scalecurve_models.networks.graph import Network
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
    copies: int = 1,
) -> StepPrediction:
    """Predict one step; see ``predict_scaling``."""
    steps = predict_scaling(
        network, platform, batch=batch, workers=[workers], scaling=scaling, variant=variant, copies=copies
    )
    return steps[0]


def predict_scaling(
    network: Network,
    platform: Platform,
    *,
    batch: int,
    workers: Sequence[int],
    scaling: Scaling = "weak",
    variant: Variant = HEAD,
    copies: int = 1,
) -> list[StepPrediction]:
    """Predict a step for each number of workers; each batch per worker is computed once.

    ``batch`` is the global batch for strong scaling (a worker has the batch over the workers, rounded up) and the
    batch of each worker for weak scaling. ``copies`` of every sample are computed, and count as one.
    ``pipeline`` overlaps computing and memory within each layer.
    ``corrected`` leaves out the mistakes that docs/explanation/paleo.md lists.

    Raises PaleoError for a batch, a number of workers or a PPP that cannot be.
    """
    if not workers:
        raise PaleoError("workers: expected one or more numbers, got none")
    for n in workers:
        check_counts(batch, n, scaling)
    strong = scaling == "strong"
    costs = costs_of(network, variant)
    sent = costs.parameter_bytes
    rates = Rates.of(platform.device, platform.ppp_comp, platform.precision)
    shares = {n: -(-batch // n) if strong else batch for n in workers}
    passes = {
        share: [each.total(share * copies, rates, variant.pipeline) for each in (costs.forward, costs.backward)]
        for share in {*shares.values()}
    }
    return [
        StepPrediction(
            workers=n,
            batch_per_worker=shares[n],
            forward_ms=passes[shares[n]][0],
            backward_ms=passes[shares[n]][1],
            update_ms=update_ms(sent, platform.device, variant.pipeline),
            communication_ms={
                name: exchange_ms(sent, platform.link, n, scheme, platform.ppp_comm) for name, scheme in SCHEMES.items()
            },
            samples=batch if strong else batch * n,
        )
        for n in workers
    ]


def check_counts(batch: int, workers: int, scaling: str) -> None:
    """Raise PaleoError for an invalid batch, number of workers or scaling."""
    for name, value, most in (("batch", batch, MOST_BATCH), ("workers", workers, MOST_WORKERS)):
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
            raise PaleoError(f"{name} {value!r}: expected an integer from 1 to {most:,}")
    if scaling not in get_args(Scaling):
        raise PaleoError(f"scaling {scaling!r}: expected one of {', '.join(get_args(Scaling))}")


@dataclass(frozen=True)
class InferenceRate:
    """Images/s: ``bound`` is peak FLOPS over FLOPs per image, ``practical`` is Paleo's forward pass.

    A peak counts a multiply-add as two FLOPs; with the convention ``mac`` the bound is twice too high.
    """

    network: Network
    device: DeviceSpec
    convention: Convention
    batch: int
    flops: int
    peak_gflops: float
    bound: float
    practical: float

    @property
    def share(self) -> float:
        return self.practical / self.bound


def inference_rate(
    network: Network,
    device: DeviceSpec,
    *,
    batch: int = 64,
    ppp: float = SOFTWARE["tensorflow"][0],
    convention: Convention = "2mac",
    precision: Precision = "fp32",
    variant: Variant = HEAD,
) -> InferenceRate:
    """Rates for a batch. Raises PaleoError, and HardwareError for a device without a peak for the precision."""
    check_counts(batch, 1, "weak")
    flops = totals(network).work.flops(convention)
    peak = device.peak(precision)
    forward = costs_of(network, variant).forward.total(batch, Rates.of(device, ppp, precision))
    return InferenceRate(network, device, convention, batch, flops, peak, peak * 1e9 / flops, batch / forward * 1e3)


@dataclass(frozen=True)
class Scheme:
    """For a number of workers: how often the parameters cross one link, and the number of sequential messages.

    Bandwidth alone, no latency, as in TalwalkarLab/paleo, paleo/comm.py. ``butterfly`` is log2(n) * D / B there; it is
    not recursive halving and doubling, which is 2 (n - 1) / n * D / B.
    """

    name: str
    crossings: Callable[[int], float]
    messages: Callable[[int], int]


def tree_height(workers: int) -> int:
    """The smallest h with 2**h >= workers."""
    return (workers - 1).bit_length()


SCHEMES: Mapping[str, Scheme] = {
    scheme.name: scheme
    for scheme in (
        Scheme("one_to_all", lambda n: 2.0 * (n - 1), lambda n: 2 * (n - 1)),
        Scheme("tree", lambda n: 2.0 * tree_height(n), lambda n: 2 * tree_height(n)),
        Scheme("butterfly", lambda n: float(tree_height(n)), tree_height),
    )
}
"""The three that Paleo's tables show."""

RING = Scheme("ring", lambda n: 2.0 * (n - 1) / n, lambda n: 2 * (n - 1))
"""What NCCL and Horovod do (Patarasuk and Yuan 2009); no scheme of Paleo's, so for Paleo+ alone."""


def exchange_ms(parameter_bytes: int, link: Link, workers: int, scheme: Scheme, ppp_comm: float = 1.0) -> float:
    """Milliseconds that ``workers`` take to sum their gradients."""
    return scheme.crossings(workers) * (parameter_bytes / link.bytes_per_second * 1e3 / ppp_comm)
