"""What a trained model keeps of its accuracy in integers."""

from typing import Literal

from pydantic import Field

from scalecurve_api.model import Int64, Model, Text
from scalecurve_api.record.fact_kind import FactKind


class QuantizedRow(Model):
    """The trained model in integers: ``stage`` names what is quantized beside the stages before it.

    ``error`` is the root mean square of the logits' error over that of the logits.
    """

    scheme: Literal["tensor", "channel"]
    stage: Literal["weights", "activations", "biases", "torch"]
    bits: Int64
    accuracy: float
    loss: float
    bytes: Int64
    error: float


class LayerHistogram(Model):
    """Values of one layer in bins of equal width from ``low`` to ``high``."""

    layer: Text
    kind: Literal["weights", "biases", "activations"]
    low: float
    high: float
    counts: list[Int64] = Field(min_length=1, max_length=10_000)


class QuantizationFacts(Model):
    """Post-training quantization: B. Jacob et al., arXiv:1712.05877."""

    parameters: Int64
    float_bytes: Int64
    float_accuracy: float
    float_loss: float
    rows: list[QuantizedRow] = []
    histograms: list[LayerHistogram] = []


QUANTIZATION: FactKind[QuantizationFacts | None] = FactKind(
    "quantization",
    QuantizationFacts,
    None,
    bounds={
        "": {"float_bytes": (1, 1e15), "float_accuracy": (0, 1)},
        "rows": {"bits": (2, 16), "accuracy": (0, 1), "bytes": (1, 1e15), "error": (0, 1e30)},
        "histograms": {
            "low": (-1e30, 1e30),
            "high": lambda histogram: (histogram.low, 1e30),
            "counts": (0, 1e15),
        },
    },
)
