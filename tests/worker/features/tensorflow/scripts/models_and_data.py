"""Checks that need TensorFlow, and some torch too: run as a script, so that neither is loaded among other tests."""

from __future__ import annotations

import json
import math
import os
import tempfile
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from scalecurve_api.programs.data import Augmentation, TrainingData
from scalecurve_api.programs.model_catalog import models_of
from scalecurve_api.programs.optimizer import Optimizer
from scalecurve_api.programs.training import Trainable, Transfer
from scalecurve_worker.features.tensorflow import models
from scalecurve_worker.features.tensorflow.data import image_folder as folder
from scalecurve_worker.features.tensorflow.data.arrays import ArrayEpochs
from scalecurve_worker.features.tensorflow.data.augment import warp
from scalecurve_worker.features.tensorflow.data.sampler import ReplicaShard, in_order
from scalecurve_worker.features.tensorflow.data.synthetic import SyntheticReplicas
from scalecurve_worker.features.tensorflow.framework import keras, tf
from scalecurve_worker.features.tensorflow.job import open_split
from scalecurve_worker.features.tensorflow.models import step_flops
from scalecurve_worker.features.tensorflow.models.layers import parts
from scalecurve_worker.features.tensorflow.optimizers import add_weight_decay, build_optimizer, make_optimizer
from scalecurve_worker.features.tensorflow.scalars import add, read
from scalecurve_worker.features.tensorflow.training import ReplicaTrainer, cross_entropy
from scalecurve_worker.features.tensorflow.transfer import begin, frozen_checksum, load_checkpoint, write_checkpoint
from scalecurve_worker.process.failure import WorkloadError
from scalecurve_worker.torch import models as torch_models
from scalecurve_worker.torch import transfer as torch_transfer
from scalecurve_worker.torch.data import DataOptions, open_data
from scalecurve_worker.torch.data.augment import warp as torch_warp
from scalecurve_worker.training.data.augmentation import Augment, Warps, augment_for
from scalecurve_worker.training.data.decoding import TrainingDecoder, open_image_list
from scalecurve_worker.training.data.images import DataError, ImageArrays
from scalecurve_worker.training.data.small_sets import read_digits
from scalecurve_worker.training.state_files import read_state

# Large enough that ResNet-50's last batch norms see 32 values a channel: over 4, as of a 32 x 32 image in a batch of
# 4, its fp32 logits are 2e-3 from its fp64 ones in torch alone, and other kernels give other ones.
COMPARED = {
    "resnet20": ((3, 16, 16), 7),
    "resnet18": ((3, 40, 40), 5),
    "resnet50": ((3, 64, 64), 5),
    "mlp": ((3, 6, 5), 4),
    "alexnet": ((3, 67, 70), 3),
    "inception_v3": ((3, 107, 91), 5),
}
WITH_DROPOUT = {"alexnet", "inception_v3"}


def same_names_and_counts() -> None:
    """Names mean the same models as in torch, with the same parameters and FLOPs."""
    for name in models_of("tensorflow"):
        assert models.spec(name) is torch_models.spec(name)
    flops = json.loads(os.environ["TORCH_FLOPS"])
    for name in flops.keys() - {"resnet20 head"}:
        built = models.build(name)
        counted = sum(math.prod(each.shape) for each in built.trainable_variables)
        assert counted == models.spec(name).parameters, name
        assert step_flops(built) == flops[name], name
        keras.utils.clear_session()


def same_function() -> None:
    """With torch's checkpoint a model gives torch's logits, in training and in evaluation; and gives it back."""
    random = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as path:
        for name, (shape, classes) in COMPARED.items():
            theirs = torch_models.build(name, classes=classes, input_shape=shape)
            for entry, buffer in theirs.named_buffers():
                if buffer.dim():
                    buffer.uniform_(*((-0.5, 0.5) if entry.endswith("mean") else (0.5, 1.5)))
            torch.save(theirs.state_dict(), Path(path, "theirs.pt"))
            ours = models.build(name, classes=classes, input_shape=shape)
            assert load_checkpoint(ours, str(Path(path, "theirs.pt"))) == "the checkpoint's"
            back = write_checkpoint(tf.distribute.get_strategy(), ours, path, "ours")
            for entry, value in read_state(back).items():
                assert np.array_equal(value, theirs.state_dict()[entry].numpy()), (name, entry)
            other = torch_models.build(name, classes=classes, input_shape=shape)
            assert torch_transfer.load_checkpoint(other, str(back), []) == "the checkpoint's"
            assert all(torch.equal(value, other.state_dict()[key]) for key, value in theirs.state_dict().items())
            images = random.standard_normal((8, *shape), dtype=np.float32)
            for training in (False, True):
                theirs.train(training and name not in WITH_DROPOUT)
                with torch.no_grad():
                    wanted = theirs(torch.from_numpy(images)).numpy()
                found = ours(images.transpose(0, 2, 3, 1), training=training and name not in WITH_DROPOUT).numpy()
                close = np.allclose(found, wanted, rtol=1e-3, atol=1e-3 * np.abs(wanted).max())
                assert close, (name, training)


def a_head_for_other_classes() -> None:
    """A checkpoint gives all but the head; what is frozen stays, statistics too, and its FLOPs are torch's."""
    with tempfile.TemporaryDirectory() as path:
        theirs = torch_models.build("resnet20", classes=7, input_shape=(3, 16, 16))
        file = str(Path(path, "theirs.pt"))
        torch.save(theirs.state_dict(), file)
        ours = models.build("resnet20", classes=4, input_shape=(3, 16, 16))
        drawn = ours.layers[-1].kernel.numpy()
        noted = begin(ours, Transfer(checkpoint=file, train=Trainable.head))
        assert noted["head"] == "new, for another number of classes"
        assert (noted["parametersTrained"], noted["parametersFrozen"]) == (64 * 4 + 4, 269_722 - 650)
        assert np.array_equal(ours.layers[-1].kernel.numpy(), drawn)
        flops = json.loads(os.environ["TORCH_FLOPS"])["resnet20 head"]
        assert step_flops(ours) == flops
        strategy = tf.distribute.get_strategy()
        before = frozen_checksum(strategy, ours)
        trainer = ReplicaTrainer(strategy, lambda: ours, Optimizer(learning_rate=0.001, weight_decay=0.1))
        images = tf.random.stateless_normal((8, 16, 16, 3), [1, 2])
        losses = [float(trainer.update((images, tf.constant([0, 1, 2, 3] * 2, tf.int64)))) for _ in range(5)]
        assert losses[-1] < losses[0]
        assert frozen_checksum(strategy, ours) == before
        assert not np.array_equal(ours.layers[-1].kernel.numpy(), drawn)
        assert frozen_checksum(strategy, models.build("resnet20")) == []
        for wrong, message in WRONG_FILES.items():
            with pytest.raises(WorkloadError, match=message):
                load_checkpoint(ours, str(Path(path, wrong)) if wrong != "mlp" else mlp_file(path))


WRONG_FILES = {
    "nowhere.pt": r"workload.transfer.checkpoint: .*nowhere.pt: no such file \(looked for from ",
    "mlp": r"different architecture: stem.0.weight is missing; ",
}


def mlp_file(path: str) -> str:
    file = Path(path, "mlp.pt")
    torch.save(torch_models.build("mlp").state_dict(), file)
    return str(file)


def rules_are_torchs() -> None:
    """Steps of every rule on a matrix and a vector end where torch's do, with decay and changing rates."""
    for case in json.loads(os.environ["TORCH_STEPS"]):
        rule = Optimizer.model_validate(case["rule"])
        variables = [keras.Variable(np.array(each, np.float32)) for each in case["before"]]
        optimizer = make_optimizer(rule)
        build_optimizer(optimizer, rule, variables)
        for rate, gradients in zip(case["rates"], case["gradients"], strict=True):
            optimizer.learning_rate.assign(rate)
            own = [tf.constant(each, tf.float32) for each in gradients]
            optimizer.apply(add_weight_decay(rule, own, [each.value for each in variables], 1.0), variables)
        for after, variable in zip(case["after"], variables, strict=True):
            np.testing.assert_allclose(variable.numpy(), after, rtol=2e-4, atol=2e-5, err_msg=str(case["rule"]))


def labels_are_smoothed_as_in_torch() -> None:
    """The same loss, with a share of each label spread over all classes."""
    random = np.random.default_rng(0)
    logits, targets = random.standard_normal((6, 5)).astype(np.float32), np.array([0, 1, 2, 3, 4, 0])
    for smoothing in (0.0, 0.1, 0.6):
        wanted = torch.nn.functional.cross_entropy(
            torch.from_numpy(logits), torch.from_numpy(targets), label_smoothing=smoothing
        )
        found = float(cross_entropy(tf.constant(logits), tf.constant(targets), smoothing))
        assert abs(found - float(wanted)) < 1e-5


def warps_are_torchs() -> None:
    """The same matrices move the same pixels, at the edge as well."""
    images = np.random.default_rng(1).integers(256, size=(6, 20, 30, 3), dtype=np.uint8)
    drawn = Warps(Augment(rotation=40, shift=0.3, zoom=0.4), 6, 5, 0).matrices(np.arange(6), 20, 30)
    wanted = torch_warp(torch.from_numpy(images).permute(0, 3, 1, 2), torch.from_numpy(drawn))
    found = warp(tf.constant(images), tf.constant(drawn)).numpy()
    np.testing.assert_allclose(found, wanted.permute(0, 2, 3, 1).numpy(), atol=0.05)
    still = Warps(Augment(rotation=0.0), 6, 5, 0).matrices(np.arange(6), 20, 30)
    np.testing.assert_allclose(warp(tf.constant(images), tf.constant(still)).numpy(), images, atol=1e-3)


def augmented_batches() -> None:
    """Copies, cutout and a mirror change what they should of random batches, and each step anew."""
    strategy = tf.distribute.OneDeviceStrategy("CPU:0")
    shard = ReplicaShard(strategy, 4, 3, 0, 1)
    plain = next(SyntheticReplicas(shard, Augment(), (3, 8, 8), 5).endless())
    stream = SyntheticReplicas(shard, Augment(cutout=3, instances=2, mirror=True), (3, 8, 8), 5).endless()
    (x, y), *_, (later, _) = [next(stream) for _ in range(5)]
    assert x.shape == (8, 8, 8, 3)
    assert y.numpy().tolist() == plain[1].numpy().tolist() * 2
    original = np.concatenate([plain[0].numpy()] * 2)
    cut = (x.numpy() == 0).all(axis=3)
    assert ((cut.sum(axis=(1, 2)) <= 9) & (cut.sum(axis=(1, 2)) > 0)).all()
    for image, before, hidden in zip(x.numpy(), original, cut, strict=True):
        shown = ~hidden[..., None] & np.ones_like(image, bool)
        assert np.array_equal(image[shown], before[shown]) or np.array_equal(image[shown], before[:, ::-1][shown])
    # The same batch, four steps later.
    assert not np.array_equal(x.numpy(), later.numpy())


def adaptive_means() -> None:
    """Parts of an image have torch's bounds."""
    for size in (1, 3, 7, 10):
        for count in (1, 6, 7):
            x = torch.arange(float(size))[None]
            wanted = torch.nn.functional.adaptive_avg_pool1d(x, count)[0].numpy()
            assert np.allclose(parts(size, count) @ np.arange(size), wanted)


def batches_of_arrays() -> None:
    """Each replica has its own items, all of them once an epoch; padding and mirroring move pixels and no more."""
    tf.config.set_logical_device_configuration(
        tf.config.list_physical_devices("CPU")[0], [tf.config.LogicalDeviceConfiguration()] * 2
    )
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"], tf.distribute.ReductionToOneDevice())
    arrays = read_digits("train")
    loader = ArrayEpochs(ReplicaShard(strategy, 7, 3, 0, 2), "digits", arrays, Augment(), (3, 16, 16))
    inputs, labels = next(loader.endless())
    own = strategy.experimental_local_results(inputs)
    assert [tuple(each.shape) for each in own] == [(7, 16, 16, 3)] * 2
    assert not np.allclose(own[0], own[1])
    assert [each.dtype for each in strategy.experimental_local_results(labels)] == [tf.int64] * 2
    numbers = ImageArrays(
        np.arange(24, dtype=np.uint8).reshape(24, 1, 1, 1).repeat(5, 2).repeat(5, 3) + 100,
        np.arange(24), 24, (0.0,), (1.0,), flips=True,
    )  # fmt: skip
    seen: list[int] = []
    moved = ArrayEpochs(ReplicaShard(strategy, 3, 1, 0, 2), "n", numbers, Augment(pad=4, mirror=True), (1, 5, 5))
    for _, (x, y) in zip(range(4), moved.endless(), strict=False):
        for image, label in zip(
            strategy.experimental_local_results(x), strategy.experimental_local_results(y), strict=True
        ):
            seen += label.numpy().tolist()
            values = image.numpy().reshape(3, -1)
            assert set(np.unique(values)) <= {0.0, *(100.0 + label.numpy())}
    assert sorted(seen) == list(range(24))


def folders_give_torchs_batches() -> None:
    """The same files are trained on, in the same batches of each worker, and come out as the same pixels."""
    random = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as path:
        for split, count in (("train", 10), ("test", 3)):
            for name in ("cat", "dog"):
                home = Path(path, split, name)
                home.mkdir(parents=True)
                for index in range(count):
                    pixels = random.integers(256, size=(40, 50 + index, 3), dtype=np.uint8)
                    Image.fromarray(pixels).save(home / f"{index}.jpg")
        for options in (
            {},
            {"augmentation": "none"},
            {"augmentation": "flip", "instances": 2},
            {"augmentation": "flip", "rotation": 20, "shift": 0.1, "zoom": 0.2, "splitSeed": 1},
        ):
            wire = {"source": "image-folder", "path": path, "validation": 0.2, **options}
            folders_are_one(TrainingData.model_validate(wire))
        images = open_image_list(Path(path), "train", shape=(3, 16, 16), classes=None, validation=0.2)
        held = open_image_list(Path(path), "val", shape=(3, 16, 16), classes=4, validation=0.2)
        sizes = [len(labels) for _, labels in in_order(len(held), 3, folder.middles(held, (3, 16, 16)))]
        assert sizes == [3, 1]
        Path(path, images.file(0)).write_bytes(b"no picture")
        broken = TrainingDecoder(images, (3, 16, 16), Augmentation.auto, seed=0)
        with pytest.raises(DataError, match=r"\d\.jpg: cannot be decoded"):
            folder.ThreadedDecoder(broken).begin([0], 0)[0].result()


def folders_are_one(data: TrainingData) -> None:
    shape, workers, batch = (3, 16, 16), 2, 3
    strategy = tf.distribute.OneDeviceStrategy("CPU:0")
    options = DataOptions(
        augmentation=data.augmentation,
        rotation=data.rotation,
        shift=data.shift,
        zoom=data.zoom,
        instances=data.instances,
        validation=data.validation,
        split_seed=data.split_seed,
        loaders=0,
    )
    images = open_split(data, "train", shape, None)
    augment = augment_for("image-folder", data, shape, decoded=True)
    for rank in range(workers):
        theirs = open_data(
            "image-folder", path=data.path, batch=batch, shape=shape, seed=7, rank=rank, world=workers, options=options
        )
        assert theirs.spec.items == len(images) == 16
        decoder = TrainingDecoder(images, shape, data.augmentation, 7, augment.instances)
        ours = folder.ImageFolderEpochs(ReplicaShard(strategy, batch, 7, rank, workers), decoder, augment)
        for epoch in (0, 3):
            theirs.set_epoch(epoch)
            for (x, y), (inputs, labels) in zip(theirs, ours.epoch(epoch), strict=True):
                assert labels.numpy().tolist() == y.tolist()
                np.testing.assert_allclose(inputs.numpy(), x.permute(0, 2, 3, 1).numpy(), atol=2e-3)


def lars_scales_a_layer_by_its_trust() -> None:
    """|w| = 5, |g| = 1, decay 0.1: ratio 0.01 x 5 / (1 + 0.5); direction g + 0.1 w. Vectors go by plain SGD."""
    asked = Optimizer(name="lars", learning_rate=2.0, momentum=0.5, weight_decay=0.1, trust=0.01)
    layer, bias = keras.Variable([[3.0, 4.0]]), keras.Variable([1.0])
    rule = make_optimizer(asked)
    rule.build([layer, bias])
    rule.apply([tf.constant([[0.6, 0.8]]), tf.constant([0.25])], [layer, bias])
    ratio = 0.01 * 5 / 1.5
    np.testing.assert_allclose(layer.numpy(), [[3 - 2 * ratio * 0.9, 4 - 2 * ratio * 1.2]], rtol=1e-6)
    np.testing.assert_allclose(bias.numpy(), [0.5])
    rule.apply([tf.constant([[0.0, 0.0]]), tf.constant([0.0])], [layer, bias])
    np.testing.assert_allclose(bias.numpy(), [0.25])


def scalars_of_a_device() -> None:
    """Many are read at once, whatever their type."""
    found = [tf.constant(1.5), tf.constant(2.0, tf.bfloat16)]
    assert read(found) == [1.5, 2.0]
    assert float(add(found)) == 3.5


if __name__ == "__main__":
    batches_of_arrays()
    same_names_and_counts()
    same_function()
    adaptive_means()
    scalars_of_a_device()
    lars_scales_a_layer_by_its_trust()
    rules_are_torchs()
    labels_are_smoothed_as_in_torch()
    warps_are_torchs()
    augmented_batches()
    folders_give_torchs_batches()
    a_head_for_other_classes()
