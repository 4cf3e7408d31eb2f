"""Training to accuracy after the timed windows, and what is measured beside it."""

from typing import Annotated, Any

from pydantic import Field, StrictBool

from scalecurve_api.model import Described, FilePath, Real, Whole


class Quantization(Described):
    """After training: the model quantized to integers of fewer and fewer bits, and evaluated on the validation set."""

    bits: list[Annotated[int, Field(ge=2, le=16, strict=True)]] = Field(
        default=[8, 7, 6, 5, 4, 3, 2], min_length=1, max_length=15, description="Bit widths to evaluate."
    )
    calibration_batches: Whole = Field(default=8, ge=1, le=10_000)
    """Training batches from which the ranges of activations are taken."""


class Accuracy(Described):
    """Train to accuracy after timing: fresh parameters, and an evaluation after every epoch."""

    epochs: Whole = Field(default=10, ge=1, le=100_000, description="Epochs to train.")
    target: Real | None = Field(default=None, gt=0, le=1)
    """Validation accuracy; epochs and time to it are reported."""
    stop_at_target: StrictBool = False
    """End a trial after the epoch that reached the target, instead of after all its epochs."""
    checkpoints: FilePath | None = Field(default=None, description="Folder for the trained parameters of each trial.")
    quantization: Quantization | None = None
    """Quantize the trained model and evaluate it at each bit width."""
    noise_scale: StrictBool = Field(default=False, description="Measure the gradient noise scale while training.")

    @property
    def extras(self) -> dict[str, Any]:
        extras = ("checkpoints", "quantization", "noiseScale")
        return {name: value for name, value in self.wire().items() if name in extras and value}
