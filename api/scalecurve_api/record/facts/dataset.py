"""What a training to accuracy learned from."""

from typing import Final

from pydantic import Field

from scalecurve_api.model import Int64, Model, Text
from scalecurve_api.record.fact_kind import FactKind, Limits

_COUNT: Final[Limits] = (0, 1e15)


class Picture(Model):
    """One training image, before and after augmentation: base64 of the bytes of ``shape`` (channels, height, width)."""

    label: Int64
    shape: list[Int64]
    original: str
    trained: str


class LabelFacts(Model):
    """What ``workload.data.labels`` did to the training split, in items."""

    stored: Int64
    stored_counts: list[Int64] = Field(default=[], description="of each class, before anything was changed")
    left_out: Int64 = Field(default=0, description="by the long tail")
    unlabeled: Int64 = Field(default=0, description="whose labels were not shown to training")
    flipped: Int64 = Field(default=0, description="that train under another class than stored")
    pseudo_labeled: Int64 = Field(default=0, description="labels of the teacher that were kept")
    pseudo_correct: Int64 = Field(default=0, description="of them, the stored ones")
    before_resampling: Int64 = 0
    distinct: Int64 = Field(default=0, description="that train at all, without their copies")


class DatasetFacts(Model):
    """What a training to accuracy learned from: items of each split, and of each class in the training split."""

    train: Int64
    val: Int64
    test: Int64 | None = Field(default=None, description="items that neither trained nor validated, if there are any")
    test_accuracy: float | None = Field(default=None, description="of the trained model on them, after the last epoch")
    class_counts: list[Int64] = []
    class_names: list[Text] = []
    pictures: list[Picture] = []
    labels: LabelFacts | None = None


DATASET: FactKind[DatasetFacts | None] = FactKind(
    "dataset",
    DatasetFacts,
    None,
    bounds={
        "": {**dict.fromkeys(("train", "val", "class_counts", "test"), _COUNT), "test_accuracy": (0, 1)},
        "labels": dict.fromkeys(LabelFacts.model_fields, _COUNT),
        "pictures": {"label": (0, 1e6), "shape": (1, 1e4)},
    },
)
