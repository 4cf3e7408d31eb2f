"""Opens every data source."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from scalecurve_api.programs.data import Augmentation
from scalecurve_api.programs.labels import TrainingLabels
from scalecurve_worker.torch.data.arrays import ArrayLoader, SyntheticLoader, random_inputs, random_tokens
from scalecurve_worker.torch.data.image_folder import ImageFolder
from scalecurve_worker.torch.data.loader import BatchFormat, DataShard, DataSpec, Loader, steps_per_epoch
from scalecurve_worker.torch.data.packed_tokens import PackedTokens, sequences_of
from scalecurve_worker.training.data.augmentation import Augment, augment_for
from scalecurve_worker.training.data.decoding import TrainingDecoder, open_image_list
from scalecurve_worker.training.data.image_list import ImageList
from scalecurve_worker.training.data.images import (
    DataError,
    FolderSplit,
    ImageArrays,
    Split,
    check_arrays,
    existing_folder,
)
from scalecurve_worker.training.data.relabel import Relabeled, relabel
from scalecurve_worker.training.data.small_sets import read_images
from scalecurve_worker.training.data.token_files import open_tokens

SOURCES = ("synthetic", "digits", "fashion-mnist", "cifar10", "image-folder", "tokens")
IMAGENET_SHAPE = (3, 224, 224)
POOL = 4  # synthetic batches of a worker: its epoch


@dataclass(frozen=True)
class DataOptions:
    """How batches are made; what a source has no use for is ignored.

    ``kind`` is the model's (``ModelEntry.kind``): ``tokens`` makes synthetic token numbers instead of deviates.
    ``augmentation`` to ``instances`` are for training images alone; ``auto``
    crops and mirrors those of cifar10 and image-folder, ``standard`` crops those of the other sets too, and mirrors
    where a mirrored image is still of its class, ``flip`` mirrors and does not crop. ``rotation``, ``shift``, ``zoom``:
    see :class:`~scalecurve_worker.training.data.augmentation.Augment`. ``validation`` is the share that image-folder
    holds out of a set without ``val``, by ``split_seed``.
    ``loaders`` is the number of processes that read ahead for a worker (image-folder, tokens; 0: the worker itself).
    ``column`` is a Parquet file's, of tokens. ``labels`` changes those of training images; ``teacher`` gives the class
    probabilities (items, classes), on the CPU, of the batches of a loader, where pseudo-labels are requested.
    """

    kind: Literal["image", "tokens", "vector"] = "image"
    augmentation: Augmentation = Augmentation.auto
    rotation: float = 0.0
    shift: float = 0.0
    zoom: float = 0.0
    cutout: int = 0
    instances: int = 1
    validation: float | None = None
    split_seed: int = 0
    loaders: int | None = None
    column: str | None = None
    channels_last: bool = False
    labels: TrainingLabels | None = None
    teacher: Callable[[Loader], Tensor] | None = None


@dataclass(frozen=True)
class _Request:
    source: str
    path: Path | None
    shape: tuple[int, ...] | None
    classes: int | None
    batch: int
    split: FolderSplit
    shard: DataShard
    form: BatchFormat
    options: DataOptions

    def spec(self, shape: tuple[int, ...], classes: int, *, items: int, samples_per_item: int = 1) -> DataSpec:
        steps = steps_per_epoch(items, batch=self.batch, split=self.split, shard=self.shard)
        return DataSpec(self.source, self.split, shape, classes, items, self.batch, steps, samples_per_item)

    def augment(
        self, shape: tuple[int, ...], *, size: tuple[int, ...] = (), flips: bool = False, decoded: bool = False
    ) -> Augment:
        """What batches of ``shape`` go through; see :func:`augment_for`."""
        if self.split != "train":
            return Augment()
        return augment_for(self.source, self.options, shape, size=size, flips=flips, decoded=decoded)

    def replace_labels(
        self, stored: NDArray[np.int64], classes: int, reading: Callable[["_Request", NDArray[np.int64]], Loader]
    ) -> Relabeled | None:
        """What trains instead of the stored labels; ``reading`` opens items of the set for the teacher."""
        options = self.options
        if options.labels is None or self.split != "train" or options.labels == TrainingLabels():
            return None

        def scores(items: NDArray[np.int64]) -> NDArray[np.floating]:
            assert options.teacher is not None
            as_held_out = replace(self, split="val", shard=DataShard(0, 1, self.shard.seed))
            loader = reading(as_held_out, items)
            probabilities: NDArray[np.floating] = options.teacher(loader).numpy()
            loader.close()
            return probabilities

        return relabel(stored, classes, options.labels, options.split_seed, scores if options.teacher else None)


def open_data(
    source: str,
    *,
    batch: int,
    path: str | Path | None = None,
    shape: Sequence[int] | None = None,
    classes: int | None = None,
    seed: int = 0,
    rank: int = 0,
    world: int = 1,
    split: FolderSplit = "train",
    device: str | torch.device = "cpu",
    options: DataOptions = DataOptions(),
) -> Loader:
    """Open a source for one worker.

    ``batch`` is the items of one step of this worker, ``rank`` and ``world`` its place among the workers. ``shape``
    (one item) and ``classes`` are the set's own by default; images are resized to ``shape``, and grey ones
    repeated over its channels. ``classes`` may be more than the set has, not less. ``seed`` orders the set, the same
    on every worker. The global random state is neither read nor changed.

    Raises:
        DataError: unknown source, a path or file that is absent or damaged, a request that the source cannot meet.
    """
    if source not in SOURCES:
        raise DataError(f"data source {source!r} is unknown; expected one of {', '.join(SOURCES)}")
    splits = get_args(FolderSplit if source == "image-folder" else Split)
    if split not in splits:
        raise DataError(f"{source}: split {split!r}: expected {' or '.join(splits)}")
    if batch < 1 or not 0 <= rank < world or seed < 0:
        raise DataError(
            f"{source}: batch {batch}, rank {rank} of {world} workers, seed {seed}: "
            "expected a positive batch, a rank below the worker count and a seed >= 0"
        )
    folder = None if path is None else Path(path).expanduser()
    size = None if shape is None else tuple(shape)
    shard, form = DataShard(rank, world, seed), BatchFormat(torch.device(device), options.channels_last)
    request = _Request(source, folder, size, classes, batch, split, shard, form, options)
    openers = {"synthetic": _synthetic, "image-folder": _image_folder, "tokens": _token_loader}
    return openers.get(source, _arrays)(request)


def _synthetic(request: _Request) -> Loader:
    options, shape, classes = request.options, request.shape, request.classes
    if shape is None or classes is None:
        raise DataError("synthetic: expected shape and classes")
    tokens = options.kind == "tokens"
    if tokens and len(shape) != 1:
        raise DataError(f"synthetic: shape {list(shape)}: tokens have [length]")
    items = POOL * request.batch * request.shard.world
    spec = request.spec(shape, classes, items=items, samples_per_item=shape[0] if tokens else 1)
    standard = options.augmentation is Augmentation.standard
    augment = request.augment(shape, size=shape[1:], flips=standard)
    pool = (random_tokens if tokens else random_inputs)(spec, request.shard, request.form)
    return SyntheticLoader(spec, request.shard, request.form, augment, pool)


def _arrays(request: _Request) -> Loader:
    assert request.split != "test"
    arrays = read_images(request.source, request.path, request.split)
    shape = tuple(arrays.images.shape[1:]) if request.shape is None else request.shape
    classes = arrays.classes if request.classes is None else request.classes
    check_arrays(request.source, arrays, shape=shape, classes=classes)

    def open_arrays(request: _Request, arrays: ImageArrays) -> ArrayLoader:
        spec = request.spec(shape, classes, items=len(arrays.labels))
        augment = request.augment(shape, size=arrays.images.shape[2:], flips=arrays.flips)
        return ArrayLoader(spec, request.shard, request.form, augment, arrays)

    def some(request: _Request, items: NDArray[np.int64]) -> Loader:
        return open_arrays(request, replace(arrays, images=arrays.images[items], labels=arrays.labels[items]))

    changed = request.replace_labels(arrays.labels, arrays.classes, some)
    if changed is None:
        return open_arrays(request, arrays)
    loader = open_arrays(request, replace(arrays, images=arrays.images[changed.items], labels=changed.labels))
    loader.label_facts = changed.facts
    return loader


def _image_folder(request: _Request) -> Loader:
    shape = IMAGENET_SHAPE if request.shape is None else request.shape
    options = request.options
    images = open_image_list(
        existing_folder(request.source, request.path),
        request.split,
        shape=shape,
        classes=request.classes,
        validation=options.validation,
        split_seed=options.split_seed,
    )
    classes = images.classes if request.classes is None else request.classes

    def open_images(request: _Request, images: ImageList) -> ImageFolder:
        augment = request.augment(shape, decoded=True)
        kind = options.augmentation if request.split == "train" else Augmentation.none
        return ImageFolder(
            request.spec(shape, classes, items=len(images)),
            request.shard,
            request.form,
            augment,
            TrainingDecoder(images, shape, kind, request.shard.seed, augment.instances),
            loaders=options.loaders,
        )

    def some(request: _Request, items: NDArray[np.int64]) -> Loader:
        return open_images(request, replace(images, names=images.names[items], labels=images.labels[items]))

    changed = request.replace_labels(images.labels, images.classes, some)
    if changed is None:
        return open_images(request, images)
    loader = open_images(request, replace(images, names=images.names[changed.items], labels=changed.labels))
    loader.label_facts = changed.facts
    return loader


def _token_loader(request: _Request) -> Loader:
    shape, vocabulary, options = request.shape, request.classes, request.options
    if options.kind != "tokens" or shape is None or len(shape) != 1 or vocabulary is None:
        raise DataError("tokens: expected a language model, a sequence length and the size of its vocabulary")
    if request.path is None:
        raise DataError("tokens: expected data.path, a file or a folder of packed tokens")
    files = open_tokens(request.path, request.split, vocabulary=vocabulary, column=options.column)
    items = sum(sequences_of(files, shape[0]))
    if items == 0:
        raise DataError(f"tokens: {request.path}: too few for one sequence of {shape[0]} and its next tokens")
    spec = request.spec(shape, vocabulary, items=items, samples_per_item=shape[0])
    return PackedTokens(spec, request.shard, request.form, files, options.loaders)
