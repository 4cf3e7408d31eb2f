"""What a training step consumes: where samples come from and how they are transformed."""

from collections.abc import Iterator
from enum import StrEnum

from pydantic import Field

from scalecurve_api.model import Count, Described, FilePath, Natural, Real, Whole
from scalecurve_api.problem import Violation, expected, forbidden, only_with, unsupported
from scalecurve_api.programs.labels import Pictures, TrainingLabels
from scalecurve_api.programs.model_catalog import reads_images, reads_tokens, smallest_image


class DataSource(StrEnum):
    """Where samples come from."""

    synthetic = "synthetic"
    digits = "digits"
    fashion_mnist = "fashion-mnist"
    cifar10 = "cifar10"
    image_folder = "image-folder"
    tokens = "tokens"

    @property
    def is_on_disk(self) -> bool:
        return self not in (DataSource.synthetic, DataSource.digits)

    @property
    def wanted(self) -> str:
        """What a run reads from ``data.path``, where it is to be had, and its digest."""
        return _WANTED.get(self, f"the folder that holds {self.value}")

    @property
    def training_samples(self) -> int | None:
        """Of a data set of a fixed size, as its authors split it."""
        return {DataSource.cifar10: 50_000, DataSource.fashion_mnist: 60_000}.get(self)

    @property
    def has_images(self) -> bool:
        return self not in (DataSource.synthetic, DataSource.tokens)


_FASHION = "https://github.com/zalandoresearch/fashion-mnist/tree/master/data/fashion"
_WANTED = {
    DataSource.cifar10: (
        "the folder that holds cifar-10-batches-py, unpacked from https://www.cs.toronto.edu/~kriz/"
        "cifar-10-python.tar.gz (SHA-256 6d958be074577803d12ecdefd02955f39262c83c16fe9348329d7fe0b5c001ce)"
    ),
    DataSource.fashion_mnist: (
        f"the folder that holds the four files of {_FASHION}: train-images-idx3-ubyte.gz "
        "(MD5 8d4fb7e6c68d591d4c3dfef9ec88bf0d), train-labels-idx1-ubyte.gz (25c81989df183df01b3e8a0aad5dffbe), "
        "t10k-images-idx3-ubyte.gz (bef4ecab320f06d8554ea6380940ec79) and t10k-labels-idx1-ubyte.gz "
        "(bb300cfdad3c16e7a12a480ee83cd310)"
    ),
    DataSource.image_folder: "a folder of your own with train/<class>/<image> and val/<class>/<image>",
    DataSource.tokens: "a file of token numbers of your own, or a folder of them",
}
_OWN_SHAPE = {
    DataSource.digits: (1, 8, 8),
    DataSource.fashion_mnist: (1, 28, 28),
    DataSource.cifar10: (3, 32, 32),
    DataSource.image_folder: (3, 224, 224),  # what its images are cropped to
}


class Augmentation(StrEnum):
    """Random changes to training images; ``auto`` is standard where a mirrored image means the same, else none."""

    auto = "auto"
    none = "none"
    flip = "flip"
    standard = "standard"


class Data(Described):
    """Where samples come from, and their shape."""

    source: DataSource = DataSource.synthetic
    """Where samples come from; synthetic ones cost no input time."""
    path: FilePath | None = Field(default=None, description="Folder, or file of tokens, of a data set on disk.")
    shape: list[Count] | None = Field(default=None, min_length=1, max_length=4)
    """Shape of one sample, such as [3, 224, 224]; the model's own by default."""
    classes: Whole | None = Field(default=None, ge=2, le=1_000_000)
    """Number of classes, or size of the vocabulary; the model's own by default."""

    @property
    def sample_shape(self) -> tuple[int, ...] | None:
        """Shape of one sample, (channels, height, width) for an image; None where the model decides."""
        return tuple(self.shape) if self.shape is not None else _OWN_SHAPE.get(self.source)

    @property
    def images_per_sample(self) -> int:
        """Images that a step computes for each sample that it counts."""
        return 1


class TrainingData(Data):
    """Where samples come from, their shape, and how training images are augmented."""

    augmentation: Augmentation = Augmentation.auto
    """Random crops and mirroring of training images, or with flip no crops; auto skips what changes meaning."""
    rotation: Real = Field(default=0.0, ge=0, le=180)
    """Rotate training images by up to so many degrees, either way."""
    shift: Real = Field(default=0.0, ge=0, lt=1)
    """Shift training images by up to this share of their height and width, either way."""
    zoom: Real = Field(default=0.0, ge=0, lt=1)
    """Scale training images by a factor from 1 - zoom to 1 + zoom, height and width apart."""
    cutout: Natural = Field(default=0, description="Side, in pixels, of a square blotted out of each training image.")
    instances: Whole = Field(default=1, ge=1, le=1024)
    """Differently augmented copies of each sample in one batch, which grows by the same factor."""
    validation: Real | None = Field(default=None, gt=0, lt=1)
    """For an image-folder without val: share of each training class held out for validation."""
    split_seed: Natural = Field(default=0, description="Seed that selects the images held out for validation.")
    labels: TrainingLabels = Field(default=TrainingLabels(), description="Changed labels and class sizes.")
    pictures: Pictures = Field(default=Pictures(), description="Training images that the report shows.")
    sequence_length: Whole | None = Field(default=None, ge=1, le=1 << 24)
    """Tokens of one sequence, for language models; the model's own by default, as shape [length] sets it, too."""
    column: str | None = Field(default=None, min_length=1, max_length=200)
    """Source tokens, Parquet: the column of token numbers; by default the only one that holds integers."""
    loader_workers: Whole | None = Field(default=None, ge=0, le=256)
    """Processes of each worker that read ahead; by default up to 8 for image-folder, none for tokens."""

    @property
    def images_per_sample(self) -> int:
        return self.instances

    @property
    def augments(self) -> list[str]:
        """Fields, as on the wire, that ask for a change of training images."""
        names = ("augmentation", "rotation", "shift", "zoom", "cutout", "instances")
        neutral = (Augmentation.auto, Augmentation.none, 0, 1)
        return [name for name in names if getattr(self, name) not in neutral]

    def problems(self) -> Iterator[tuple[str, Violation]]:
        """Name the fields that do not fit the others, and why."""
        if self.validation is not None and self.source is not DataSource.image_folder:
            yield "validation", only_with("source image-folder")
        yield from self.labels.problems()
        for field in ("labels", "pictures"):
            if not self.source.has_images and getattr(self, field) != type(self).model_fields[field].default:
                yield field, forbidden(f"source {self.source} has no stored labels")
        if self.shape is not None and self.cutout > max(self.shape[-2:]):
            yield "cutout", expected(f"at most {max(self.shape[-2:])}, the side of an image")

    def size_problems(self, model: str) -> Iterator[tuple[str, Violation]]:
        """Images that are too small for the layers of the model."""
        least, shape = smallest_image(model), self.sample_shape
        if self.shape is not None and len(self.shape) != 3 and reads_images(model):
            yield "shape", expected(f"[channels, height, width] for model {model}, such as [3, 224, 224]")
        if shape is not None and len(shape) == 3 and min(shape[1:]) < least:
            side = f"at least {least}x{least} for model {model}"
            at_source = "source", expected(f"images of {side}; set data.shape")
            yield ("shape", expected(side)) if self.shape is not None else at_source

    def token_problems(self, model: str) -> Iterator[tuple[str, Violation]]:
        """Name the fields that only language models have, or do not have, and why."""
        tokens, packed = reads_tokens(model), self.source is DataSource.tokens
        if tokens is None:
            return
        if packed and not tokens:
            yield "source", unsupported(f"with model {model}, which reads no tokens", "another source")
        elif tokens and self.source not in (DataSource.synthetic, DataSource.tokens):
            yield "source", unsupported(f"with model {model}", "synthetic or tokens")
        if self.sequence_length is not None and not tokens:
            yield "sequenceLength", forbidden(f"model {model} reads no tokens")
        elif self.sequence_length is not None and self.shape is not None:
            yield "sequenceLength", forbidden("shape sets the length")
        if self.column is not None and not packed:
            yield "column", only_with("source tokens")
        if self.loader_workers is not None and self.source not in (DataSource.image_folder, DataSource.tokens):
            yield "loaderWorkers", only_with("sources image-folder and tokens")
