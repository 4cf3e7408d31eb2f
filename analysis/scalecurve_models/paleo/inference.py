"""Upper bound on the rate at which a device can classify images, and the rate that Paleo predicts."""

from dataclasses import dataclass

from scalecurve.hardware.devices import DeviceSpec, Precision
from scalecurve_models.networks.counting import Convention, totals
from scalecurve_models.networks.graph import Network
from scalecurve_models.paleo.costs import Rates, costs_of
from scalecurve_models.paleo.scaling import SOFTWARE, check_counts
from scalecurve_models.paleo.terms import HEAD, Variant


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
