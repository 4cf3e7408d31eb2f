"""What a trial configures for this program: model, shapes, batch and data."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scalecurve_api.programs.data import DataSource
from scalecurve_api.spec.trial import TrialSpec
from scalecurve_worker.data.decoding import open_image_list
from scalecurve_worker.data.image_list import ImageList
from scalecurve_worker.data.images import ImageArrays, check_arrays
from scalecurve_worker.data.small_sets import read_images
from scalecurve_worker.process.failure import WorkloadError
from scalecurve_worker.tensorflow import models

IMAGENET_SHAPE = (3, 224, 224)


@dataclass(frozen=True)
class TensorFlowConfig:
    """``shape`` is (channels, height, width), ``batch`` that of one worker."""

    model: str
    shape: tuple[int, ...]
    classes: int
    batch: int
    source: str = "synthetic"
    arrays: ImageArrays | None = None
    images: ImageList | None = None

    @classmethod
    def of(cls, trial: TrialSpec) -> TensorFlowConfig:
        """Read a trial; what it leaves open is the model's own."""
        data, batch = trial.workload.data, trial.point.batch_per_worker
        spec = models.spec(trial.workload.model)
        if batch is None:
            raise WorkloadError("scaling.batch: program tensorflow needs global (strong) or perWorker (weak)")
        if data.source is DataSource.synthetic:
            return cls(spec.name, tuple(data.shape or spec.shape), data.classes or spec.classes, batch)
        if data.source is DataSource.image_folder:
            shape = tuple(data.shape or IMAGENET_SHAPE)
            images = open_image_list(Path(data.path or ".").expanduser(), "train", shape=shape, classes=data.classes)
            classes = data.classes or images.classes
            return cls(spec.name, shape, classes, batch, data.source.value, images=images)
        arrays = read_images(data.source.value, Path(data.path).expanduser() if data.path else None, "train")
        shape = tuple(data.shape or arrays.images.shape[1:])
        classes = data.classes or arrays.classes
        check_arrays(data.source.value, arrays, shape=shape, classes=classes)
        return cls(spec.name, shape, classes, batch, data.source.value, arrays)

    def build(self) -> Any:
        return models.build(self.model, classes=self.classes, input_shape=self.shape)
