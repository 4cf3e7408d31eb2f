"""Receptive fields, windows, the inception module, and arithmetic spelled out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalecurve_models.networks import NetworkError, shipped
from scalecurve_models.networks.receptive import receptive_fields, stack_field


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
