"""The gradient noise scale, by the epochs of a training to accuracy."""

from collections.abc import Sequence

from scalecurve_api.model import Int64, Model
from scalecurve_api.record.fact_kind import FactKind


class NoiseScaleRow(Model):
    """The gradient noise scale over one epoch: S. McCandlish et al., arXiv:1812.06162, appendix A.

    Squared norms are means over ``steps`` of gradients of ``small_batch`` and ``large_batch`` samples; ``gradient2``
    and ``trace`` the unbiased |G|^2 and tr(Sigma) from them, and ``simple`` their ratio in samples with its interval of
    95 %, None where |G|^2 cannot be told from zero.
    """

    epoch: Int64
    steps: Int64
    small_batch: Int64
    large_batch: Int64
    small_norm2: float
    large_norm2: float
    gradient2: float
    trace: float
    simple: float | None = None
    simple_low: float | None = None
    simple_high: float | None = None


NOISE_SCALE: FactKind[Sequence[NoiseScaleRow]] = FactKind(
    "noiseScale",
    list[NoiseScaleRow],
    (),
    bounds={
        "": {
            "epoch": (0, 1e7),
            "simple": (0, 1e30),
            **dict.fromkeys(("gradient2", "trace"), (-1e30, 1e30)),
        }
    },
)
