"""Receptive fields, windows, the inception module, and arithmetic spelled out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalecurve_models.networks import NetworkError, count, shipped
from scalecurve_models.networks.arithmetic import activations, describe, macs, weights
from scalecurve_models.networks.inception import Filters, analyze_inception
from scalecurve_models.networks.receptive import receptive_fields, stack_field
from scalecurve_models.networks.window import adaptive_window, extent, padding_of


@given(st.integers(1, 12), st.integers(1, 9))
def test_a_stack_of_n_sees_n_times_f_less_one_and_one(layers, kernel):
    assert stack_field([(kernel, kernel)] * layers).size == (layers * (kernel - 1) + 1,) * 2


def test_strides_multiply_what_later_layers_see():
    field = stack_field([(7, 7), (3, 3), (1, 7)], [(2, 2), (2, 2), (1, 1)])
    assert (field.size, field.jump) == ((11, 35), (4, 4))


@pytest.mark.parametrize("arguments", [([],), ([(0, 1)],), ([(3, 3)], [(0, 1)]), ([(3, 3)], [])])
def test_stacks_that_cannot_be(arguments):
    with pytest.raises(NetworkError):
        stack_field(*arguments)


def test_fields_of_known_networks():
    vgg = receptive_fields(shipped("vgg16"))
    assert [vgg[name].size[0] for name in ("conv1_2", "pool1", "conv5_3", "pool5", "fc6")] == [5, 6, 196, 212, 404]
    assert receptive_fields(shipped("resnet50"))["stage5_2/conv3"].size == (427, 427)
    assert receptive_fields(shipped("resnet18"))["stage5_1/conv2"].size == (435, 435)
    assert receptive_fields(shipped("alexnet"))["pool5"].size == (195, 195)


@given(st.integers(1, 200), st.integers(1, 11), st.integers(1, 5), st.integers(0, 5))
def test_extents_are_those_of_every_window_placed(size, kernel, stride, pad):
    padded = size + 2 * pad
    placed = len(range(0, padded - kernel + 1, stride)) if padded >= kernel else 0
    assert extent((pad, pad), 0, size, kernel, stride) == placed
    starts = [start for start in range(0, padded + stride, stride) if start == 0 or start < padded - kernel + stride]
    inside = [start for start in starts if start < size + pad]
    if padded >= kernel and pad < kernel:
        assert extent((pad, pad), 0, size, kernel, stride, ceil=True) == len(inside)


@given(st.integers(1, 200), st.integers(1, 11), st.integers(1, 5))
def test_same_padding_gives_the_size_over_the_stride(size, kernel, stride):
    out = extent("same", 0, size, kernel, stride)
    assert out == -(-size // stride)
    assert padding_of("same", 0, size, kernel, stride) == ((out - 1) * stride + kernel - size) // 2
    assert padding_of("valid", 0, size, kernel, stride) == 0


def test_adaptive_windows():
    assert adaptive_window(7, 1) == (7, 7)
    assert adaptive_window(13, 6) == (3, 2)
    assert adaptive_window(4, 7) == (1, 1)


def test_the_lectures_inception_module():
    analysis = analyze_inception((32, 32, 256))
    assert analysis.outputs() == ((32, 32, 672), (32, 32, 480))
    assert analysis.flops() == (1_115_684_864, 354_418_688)
    assert analysis.ratio() == pytest.approx(3.148, abs=5e-4)
    assert analysis.saving() == pytest.approx(0.682, abs=5e-4)
    assert analyze_inception((28, 28, 256)).flops() == (854_196_224, 271_351_808)


@given(
    st.tuples(st.integers(1, 40), st.integers(1, 40), st.integers(1, 64)),
    st.builds(Filters, *[st.integers(1, 64)] * 6),
)
def test_inception_by_its_formula(shape, f):
    height, width, channels = shape
    area = height * width
    naive = area * channels * (f.one + 9 * f.three + 25 * f.five)
    reduced = area * (
        channels * (f.one + f.reduce_three + f.reduce_five + f.project)
        + 9 * f.reduce_three * f.three
        + 25 * f.reduce_five * f.five
    )
    analysis = analyze_inception(shape, f)
    assert analysis.flops() == (naive, reduced)
    assert analysis.outputs()[0] == (height, width, f.one + f.three + f.five + channels)
    assert analysis.outputs()[1] == (height, width, f.one + f.three + f.five + f.project)


@pytest.mark.parametrize(("shape", "filters"), [((32, 32), None), ((0, 32, 3), None), ((8, 8, 8), Filters(five=-1))])
def test_modules_that_cannot_be(shape, filters):
    with pytest.raises(NetworkError):
        analyze_inception(shape, filters)


def test_arithmetic_is_spelled_out():
    vgg = {entry.name: entry for entry in count(shipped("vgg16"))}
    assert weights(vgg["conv1_2"]) == "(3*3*64)*64 = 36,864"
    assert macs(vgg["conv1_2"]) == "(3*3*64)*64*(224*224) = 1,849,688,064"
    assert activations(vgg["conv1_2"]) == "224*224*64 = 3,211,264"
    assert weights(vgg["fc6"]) == "(7*7*512)*4096 = 102,760,448"
    assert weights(vgg["fc7"]) == macs(vgg["fc7"]) == "4096*4096 = 16,777,216"
    assert activations(vgg["fc7"]) == "4,096"
    assert (weights(vgg["pool1"]), describe(vgg["pool1"])) == ("", "maxpool 2x2 /2")
    alexnet = {entry.name: entry for entry in count(shipped("alexnet"))}
    assert weights(alexnet["conv2"]) == "(5*5*48)*256 = 307,200"
    assert (describe(alexnet["conv2"]), describe(alexnet["conv1"])) == ("conv 5x5 groups 2", "conv 11x11 /4")
    inception = {entry.name: entry for entry in count(shipped("inception_v3"))}
    assert weights(inception["mixed_6b/7_1x7"]) == "(1*7*128)*128 = 114,688"


def test_every_spelled_product_is_what_it_says():
    for name in ("alexnet", "googlenet", "inception_v3_torchvision", "resnet50", "alex_v2_2gpu"):
        for entry in count(shipped(name)):
            for text in (weights(entry), macs(entry), activations(entry)):
                product, _, result = text.partition(" = ")
                if result:
                    assert eval(product, {"__builtins__": {}}) == int(result.replace(",", ""))
