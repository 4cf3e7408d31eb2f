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

from scalecurve_api.programs.model_catalog import models_of
from scalecurve_api.programs.optimizer import Optimizer
from scalecurve_worker.data.decoding import open_image_list
from scalecurve_worker.data.images import DataError, ImageArrays
from scalecurve_worker.data.small_sets import read_digits
from scalecurve_worker.tensorflow import models
from scalecurve_worker.tensorflow.data import image_folder as folder
from scalecurve_worker.tensorflow.data.arrays import ArrayEpochs
from scalecurve_worker.tensorflow.data.sampler import in_order
from scalecurve_worker.tensorflow.flops import step_flops
from scalecurve_worker.tensorflow.framework import keras, tf
from scalecurve_worker.tensorflow.models.layers import parts
from scalecurve_worker.tensorflow.scalars import add, read
from scalecurve_worker.tensorflow.training import make_optimizer
from scalecurve_worker.torch import models as torch_models
from scalecurve_worker.torch.data.image_folder import ImageDecoder

# Large enough that ResNet-50's last batch norms see 32 values a channel: over 4, as of a 32 x 32 image in a batch of
# 4, its fp32 logits are 2e-3 from its fp64 ones in torch alone, and other kernels give other ones.
COMPARED = {
    "resnet20": ((3, 16, 16), 7),
    "resnet18": ((3, 40, 40), 5),
    "resnet50": ((3, 64, 64), 5),
    "mlp": ((1, 6, 6), 4),
}


def same_names_and_counts() -> None:
    """Names mean the same models as in torch, with the same parameters and FLOPs."""
    for name in models_of("tensorflow"):
        assert models.spec(name) is torch_models.spec(name)
    flops = json.loads(os.environ["TORCH_FLOPS"])
    for name in flops:
        built = models.build(name)
        counted = sum(math.prod(each.shape) for each in built.trainable_variables)
        assert counted == models.spec(name).parameters, name
        assert step_flops(built) == flops[name], name
        keras.utils.clear_session()


def same_function() -> None:
    """With torch's parameters a model gives torch's logits, in training and in evaluation."""
    random = np.random.default_rng(0)
    for name, (shape, classes) in COMPARED.items():
        theirs = torch_models.build(name, classes=classes, input_shape=shape).train()
        ours = models.build(name, classes=classes, input_shape=shape)
        carry_over(theirs, ours)
        images = random.standard_normal((8, *shape), dtype=np.float32)
        for training in (True, False):
            theirs.train(training)
            with torch.no_grad():
                wanted = theirs(torch.from_numpy(images)).numpy()
            found = ours(images.transpose(0, 2, 3, 1), training=training).numpy()
            assert np.allclose(found, wanted, rtol=1e-3, atol=1e-3 * np.abs(wanted).max()), (name, training)


def carry_over(theirs: torch.nn.Module, ours: object) -> None:
    """Copy every parameter by name: layers bear the names of torch's modules."""
    state = {name: value.numpy() for name, value in theirs.state_dict().items()}
    taken = set()
    endings = {"kernel": "weight", "gamma": "weight", "beta": "bias", "bias": "bias"}
    for variable in ours.trainable_variables:  # type: ignore[attr-defined]
        layer, _, kind = variable.path.rpartition("/")
        name = f"{layer}.{endings[kind]}"
        value = state[name]
        if kind == "kernel":
            value = value.transpose(2, 3, 1, 0) if value.ndim == 4 else value.T
        variable.assign(value)
        taken.add(name)
    left = {name for name in state if not name.endswith(("running_mean", "running_var", "num_batches_tracked"))}
    assert taken == left


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
    loader = ArrayEpochs(strategy, "digits", arrays, batch=7, shape=(3, 16, 16), seed=3)
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
    for _, (x, y) in zip(
        range(4), ArrayEpochs(strategy, "n", numbers, batch=3, shape=(1, 5, 5), seed=1).endless(), strict=False
    ):
        for image, label in zip(
            strategy.experimental_local_results(x), strategy.experimental_local_results(y), strict=True
        ):
            seen += label.numpy().tolist()
            values = image.numpy().reshape(3, -1)
            assert set(np.unique(values)) <= {0.0, *(100.0 + label.numpy())}
    assert sorted(seen) == list(range(24))


def folders_give_torchs_pixels() -> None:
    """The same files come out as the same bytes, cropped and mirrored alike; the middle of each once to validate."""
    random = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as path:
        for split, count in (("train", 5), ("val", 3)):
            for name in ("cat", "dog"):
                home = Path(path, split, name)
                home.mkdir(parents=True)
                for index in range(count):
                    pixels = random.integers(256, size=(40, 50 + index, 3), dtype=np.uint8)
                    Image.fromarray(pixels).save(home / f"{index}.png")
        images = open_image_list(Path(path), "train", shape=(3, 16, 16), classes=None)
        strategy = tf.distribute.OneDeviceStrategy("CPU:0")
        data = folder.ImageFolderEpochs(strategy, images, batch=4, shape=(3, 16, 16), seed=7)
        assert (len(data), data.items) == (2, 10)
        order = np.random.default_rng(7 + 3).permutation(10)[:8]
        theirs = ImageDecoder(images, (3, 16, 16), augment=True, seed=7)
        for step, (inputs, labels) in enumerate(data.epoch(3)):
            own = order[step * 4 : step * 4 + 4]
            expected = np.stack([theirs[int(index), 3][0].numpy().reshape(16, 16, 3) for index in own])
            np.testing.assert_allclose(inputs.numpy(), folder.normalised(expected).numpy())
            assert labels.numpy().tolist() == images.labels[own].tolist()
        held = open_image_list(Path(path), "val", shape=(3, 16, 16), classes=4)
        sizes = [len(labels) for _, labels in in_order(len(held), 4, folder.middles(held, (3, 16, 16)))]
        assert sizes == [4, 2]
        Path(path, "train", "cat", "0.png").write_bytes(b"no picture")
        with pytest.raises(DataError, match=r"0\.png: cannot be decoded"):
            folder.ThreadedDecoder(images, (3, 16, 16)).begin([0], [None])[0].result()


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
    folders_give_torchs_pixels()
