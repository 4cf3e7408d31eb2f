"""Opens every data source."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

import torch

from scalecurve_api.programs.data import Augmentation
from scalecurve_worker.data.decoding import open_image_list
from scalecurve_worker.data.images import DataError, ImageArrays, Split, check_arrays
from scalecurve_worker.data.small_sets import read_images
from scalecurve_worker.torch.data.arrays import ArrayLoader
from scalecurve_worker.torch.data.augment import PADDED, Augment
from scalecurve_worker.torch.data.image_folder import ImageFolder
from scalecurve_worker.torch.data.loader import BatchFormat, DataSpec, Loader
from scalecurve_worker.torch.data.sampler import DataShard, steps_per_epoch
from scalecurve_worker.torch.data.synthetic import AugmentedSynthetic, SyntheticLoader, random_inputs, random_tokens

SOURCES = ("synthetic", "digits", "fashion-mnist", "cifar10", "image-folder")
IMAGENET_SHAPE = (3, 224, 224)


@dataclass(frozen=True)
class DataOptions:
    """How batches are made; what a source has no use for is ignored.

    ``kind`` is the model's (``ModelEntry.kind``): ``tokens`` makes synthetic token numbers instead of deviates.
    ``pool`` is the number of distinct synthetic batches of a worker, ``items`` the size that a synthetic set claims
    to have (else the pool's). ``augmentation``, ``cutout`` and ``instances`` are for training images alone; ``auto``
    crops and mirrors those of cifar10 and image-folder, ``standard`` crops those of the other sets too, and mirrors
    where a mirrored image is still of its class. ``validation`` is the share that image-folder holds out of a set
    without splits, by ``split_seed``.
    ``loaders`` is the number of decoding processes of a worker (image-folder; 0 decodes in the worker itself).
    """

    kind: Literal["image", "tokens", "vector"] = "image"
    pool: int = 4
    items: int | None = None
    augmentation: Augmentation = Augmentation.auto
    cutout: int = 0
    instances: int = 1
    validation: float | None = None
    split_seed: int = 0
    loaders: int | None = None
    channels_last: bool = False
    dtype: torch.dtype = torch.float32


@dataclass(frozen=True)
class _Request:
    source: str
    path: Path | None
    shape: tuple[int, ...] | None
    classes: int | None
    batch: int
    split: Split
    shard: DataShard
    form: BatchFormat
    options: DataOptions

    def spec(self, shape: tuple[int, ...], classes: int, *, items: int, samples_per_item: int = 1) -> DataSpec:
        steps = steps_per_epoch(items, batch=self.batch, split=self.split, shard=self.shard)
        return DataSpec(self.source, self.split, shape, classes, items, self.batch, steps, samples_per_item)

    def augment(self, shape: tuple[int, ...], *, size: tuple[int, ...] = (), mirror: bool = False) -> Augment:
        """What training batches of ``shape`` go through; ``size`` are the sides of the stored images, to be cropped."""
        options = self.options
        if self.split == "val":
            return Augment()
        if options.augmentation is Augmentation.standard and len(shape) != 3:
            raise DataError(f"{self.source}: shape {list(shape)}: augmentation is for [channels, height, width]")
        moved = options.augmentation is Augmentation.standard or (options.augmentation is Augmentation.auto and mirror)
        pad = max(1, max(size) // PADDED) if moved and size else 0
        augment = Augment(pad, mirror and pad > 0, options.cutout, options.instances)
        augment.check(self.source, shape)
        return augment


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
    split: Split = "train",
    device: str | torch.device = "cpu",
    options: DataOptions = DataOptions(),
) -> Loader:
    """Open a source for one worker.

    ``batch`` is the items of one step of this worker, ``rank`` and ``world`` its place among the workers. ``shape``
    (one item) and ``classes`` are the set's own when left out; images are resized to ``shape``, and grey ones
    repeated over its channels. ``classes`` may be more than the set has, not less. ``seed`` orders the set, the same
    on every worker. The global random state is neither read nor changed.

    Raises:
        DataError: unknown source, a path or file that is absent or damaged, a request that the source cannot meet.
    """
    if source not in SOURCES:
        raise DataError(f"data source {source!r} is unknown; expected one of {', '.join(SOURCES)}")
    if split not in get_args(Split):
        raise DataError(f"{source}: split {split!r}: expected train or val")
    if batch < 1 or not 0 <= rank < world or seed < 0:
        raise DataError(
            f"{source}: batch {batch}, rank {rank} of {world} workers, seed {seed}: "
            "expected a positive batch, a rank below the worker count and a seed >= 0"
        )
    request = _Request(
        source,
        path=None if path is None else Path(path).expanduser(),
        shape=None if shape is None else tuple(shape),
        classes=classes,
        batch=batch,
        split=split,
        shard=DataShard(rank, world, seed),
        form=BatchFormat(torch.device(device), options.dtype, options.channels_last),
        options=options,
    )
    if source == "synthetic":
        return _synthetic(request)
    if source == "image-folder":
        return _image_folder(request)
    return _arrays(request)


def _synthetic(request: _Request) -> Loader:
    options, shape, classes = request.options, request.shape, request.classes
    if shape is None or classes is None:
        raise DataError("synthetic: expected shape and classes")
    tokens = options.kind == "tokens"
    if tokens and len(shape) != 1:
        raise DataError(f"synthetic: shape {list(shape)}: tokens have [length]")
    if options.pool < 1:
        raise DataError(f"synthetic: pool {options.pool}: need at least 1 batch")
    items = options.items or options.pool * request.batch * request.shard.world
    spec = request.spec(shape, classes, items=items, samples_per_item=shape[0] if tokens else 1)
    size = min(options.pool, spec.steps)
    standard = options.augmentation is Augmentation.standard
    augment = request.augment(shape, size=shape[1:], mirror=standard)
    if augment != Augment():
        pool = random_inputs(spec, request.shard, request.form, size=size)
        return AugmentedSynthetic(spec, pool, request.shard, request.form, augment)
    if tokens:
        return SyntheticLoader(spec, random_tokens(spec, request.shard, request.form.device, size=size))
    return SyntheticLoader(spec, random_inputs(spec, request.shard, request.form, size=size))


def _folder(request: _Request) -> Path:
    if request.path is None:
        raise DataError(f"{request.source}: path: expected the folder of the data set")
    if not request.path.is_dir():
        raise DataError(f"{request.source}: path {request.path}: no such folder")
    return request.path


def _read(request: _Request) -> ImageArrays:
    return read_images(request.source, request.path, request.split)


def _arrays(request: _Request) -> Loader:
    arrays = _read(request)
    shape = tuple(arrays.images.shape[1:]) if request.shape is None else request.shape
    classes = arrays.classes if request.classes is None else request.classes
    check_arrays(request.source, arrays, shape=shape, classes=classes)
    spec = request.spec(shape, classes, items=len(arrays.labels))
    augment = request.augment(shape, size=arrays.images.shape[2:], mirror=arrays.flips)
    return ArrayLoader(spec, arrays, request.shard, request.form, augment=augment)


def _image_folder(request: _Request) -> Loader:
    shape = IMAGENET_SHAPE if request.shape is None else request.shape
    options = request.options
    images = open_image_list(
        _folder(request),
        request.split,
        shape=shape,
        classes=request.classes,
        validation=options.validation,
        split_seed=options.split_seed,
    )
    classes = images.classes if request.classes is None else request.classes
    return ImageFolder(
        request.spec(shape, classes, items=len(images)),
        images,
        request.shard,
        request.form,
        # Cropped while it is decoded, from the whole picture.
        moves=request.split == "train" and options.augmentation is not Augmentation.none,
        augment=request.augment(shape),
        loaders=options.loaders,
    )
