"""Training to accuracy after the timed windows, and what is measured beside it."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar

from pydantic import Field, StrictBool

from scalecurve_api.model import Described, FilePath, Real, Whole
from scalecurve_api.problem import NOTHING, Problem, expected, forbidden, required
from scalecurve_api.programs.data import DataSource
from scalecurve_api.programs.measurement import FurtherMeasurement
from scalecurve_api.programs.workload import Workload

_PATH = ("spec", "measure", "accuracy")


class Quantization(Described):
    """After training: the model quantized to integers of fewer and fewer bits, and evaluated on the validation set."""

    bits: list[Annotated[int, Field(ge=2, le=16, strict=True)]] = Field(
        default=[8, 7, 6, 5, 4, 3, 2], min_length=1, max_length=15, description="Bit widths to evaluate."
    )
    calibration_batches: Whole = Field(default=8, ge=1, le=10_000)
    """Training batches from which the ranges of activations are taken."""


class Accuracy(FurtherMeasurement):
    """Train to accuracy after timing: fresh parameters, and an evaluation after every epoch."""

    called: ClassVar[str] = "the training to accuracy"
    runs: ClassVar[Mapping[str, str]] = {
        "torch": "scalecurve_worker.features.accuracy.torch_program:ACCURACY",
        "tensorflow": "scalecurve_worker.features.tensorflow.accuracy:ACCURACY",
    }

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

    def problems(self, workload: Workload, workers: int) -> Iterator[Problem]:
        strategy = workload.resolved_strategy
        if self.stop_at_target and self.target is None:
            yield Problem((*_PATH, "target"), NOTHING, required("the accuracy to stop at"))
        if workload.data.source is DataSource.synthetic:
            real = ", ".join(source.value for source in DataSource if source is not DataSource.synthetic)
            needs = expected(f"real data for measure.accuracy: {real}")
            yield Problem(("spec", "workload", "data", "source"), workload.data.source.value, needs)
        if strategy is not None and strategy.only_timed:
            yield Problem(_PATH, self.wire(), forbidden(strategy.only_timed))
            return
        for part, value in self.extras.items():
            if violation := workload.unmeasured(part, workers):
                yield Problem((*_PATH, part), value, violation)
