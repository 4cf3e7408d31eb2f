"""Graphs that cannot be are refused in one line; those that can come out in order."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalecurve_models.networks import Network, NetworkError, shipped
from scalecurve_models.networks.graph import parse_layer

INPUT = {"name": "input", "type": "input", "shape": [8, 8, 3]}


def network(*layers):
    return Network("test", tuple(parse_layer(layer) for layer in (INPUT, *layers)))


def conv(name, *parents, **fields):
    return {"name": name, "type": "conv", "parents": parents, "filters": 4, "kernel": 3, "padding": "same"} | fields


@pytest.mark.parametrize(
    ("layers", "message"),
    [
        ([conv("a", "b"), conv("b", "a")], r"the graph has a cycle: a <- b <- a"),
        ([conv("a", "a")], r"the graph has a cycle: a <- a"),
        ([conv("a", "input"), conv("a", "input")], r"layer a: duplicate name"),
        ([conv("a", "nowhere")], r"layer a: parent 'nowhere' does not exist"),
        ([conv("a")], r"layer a: has no parents"),
        ([{**INPUT, "name": "second"}], r"expected one input, got 2: input, second"),
        ([conv("a", "input", padding="valid", kernel=9)], r"layer a: kernel 9x9 does not fit into 8x8"),
        ([conv("a", "input", groups=2)], r"layer a: groups 2: must divide 3 channels and 4 filters"),
        ([conv("a", "input"), {"name": "s", "type": "add", "parents": ["a", "input"]}],
         r"layer s: add takes equal shapes, got 8x8x4, 8x8x3"),
        ([conv("a", "input", stride=2), {"name": "c", "type": "concat", "parents": ["a", "input"]}],
         r"layer c: concat takes equal heights and widths, got 4x4x4, 8x8x3"),
        ([conv("a", "input", "input")], r"layer a: conv takes one input, got 2"),
        ([{"name": "f", "type": "fc", "parents": ["input"], "features": 5, "inputs": 10}],
         r"layer f: takes 10 features, but its input 8x8x3 has 192"),
        ([{"name": "f", "type": "flatten", "parents": ["input"]}, conv("a", "f")],
         r"layer a: conv takes height x width x channels, got 192"),
        ([{"name": "p", "type": "maxpool", "parents": ["input"]}], r"layer p: a pool needs either kernel or grid"),
        ([{"name": "r", "type": "reshape", "parents": ["input"], "shape": [10]}],
         r"layer r: 8x8x3 cannot be reshaped to 10"),
        ([{"name": "d", "type": "deconv", "parents": ["input"], "filters": 2, "kernel": 3, "size": 9}],
         r"layer d: size 9x9: the convolution maps it to 7x7, but the input is 8x8"),
        ([{"name": "s", "type": "shortcut", "parents": ["input"], "filters": 2}],
         r"layer s: filters 2: fewer than the 3 input channels"),
    ],
)  # fmt: skip
def test_refused_in_one_line(layers, message):
    with pytest.raises(NetworkError, match=message) as error:
        network(*layers)
    assert "\n" not in str(error.value)


def test_no_layers_at_all():
    with pytest.raises(NetworkError, match="expected one input, got 0"):
        Network("empty", (parse_layer(conv("a", "a")),))
    with pytest.raises(NetworkError, match="needs at least an input and a layer"):
        Network("empty", ())


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"filters": -4}, r"layer a: filters: -4: "),
        ({"filters": 0}, r"layer a: filters: 0: "),
        ({"filters": True}, r"layer a: filters: True: "),
        ({"filters": "4"}, r"layer a: filters: '4': "),
        ({"kernel": [3, 0]}, r"layer a: kernel: 0: "),
        ({"stride": -1}, r"layer a: stride: -1: "),
        ({"padding": "full"}, r"layer a: padding: 'full': "),
        ({"padding": -1}, r"layer a: padding: -1: "),
        ({"colour": 1}, r"layer a: unknown field 'colour'"),
        ({"strid": 1}, r"layer a: unknown field 'strid'; did you mean 'stride'\?"),
        ({"type": "covn"}, r"layer a: unknown type 'covn'; did you mean 'conv'\?"),
        ({"filters": None}, r"layer a: filters: None: "),
        ({"filters": 10**30}, r"layer a: filters: 10+: "),
        ({"type": ["conv"]}, r"layer a: unknown type \['conv'\]"),
    ],
)
def test_fields_that_cannot_be_are_named(fields, message):
    with pytest.raises(NetworkError, match=message) as error:
        parse_layer(conv("a", "input") | fields)
    assert "\n" not in str(error.value)


def test_missing_field_is_named():
    with pytest.raises(NetworkError, match="layer a: filters is missing"):
        parse_layer({"name": "a", "type": "conv", "parents": ["input"], "kernel": 3})


def test_layers_come_out_parents_first_whatever_order_they_came_in():
    layers = [conv("c", "b"), conv("b", "a"), conv("a", "input")]
    assert [layer.name for layer in network(*layers).layers] == ["input", "a", "b", "c"]


@given(st.integers(1, 40), st.randoms())
def test_any_acyclic_graph_is_put_in_order(size, random):
    names = [f"n{i}" for i in range(size)]
    parents = [[random.choice(["input", *names[:i]]) for _ in range(random.choice([1, 2]))] for i in range(size)]
    layers = [{"name": name, "type": "add", "parents": own} for name, own in zip(names, parents, strict=True)]
    random.shuffle(layers)
    built = network(*layers)
    placed = {layer.name: i for i, layer in enumerate(built.layers)}
    assert all(placed[parent] < placed[layer.name] for layer in built.layers for parent in layer.parents)


def test_another_input_size_changes_the_shapes_and_leaves_the_network():
    net = shipped("resnet20_cifar")
    assert net.with_input((64, 64, 3)).shapes["stage3/conv1" if "stage3/conv1" in net.shapes else "pool"] is not None
    assert net.shapes["conv1"] == (32, 32, 16)
    assert net.with_input((64, 48, 3)).shapes["conv1"] == (64, 48, 16)


def test_a_deep_chain_needs_no_recursion():
    layers = [conv(f"c{i}", f"c{i - 1}" if i else "input") for i in range(5000)]
    assert len(network(*reversed(layers)).layers) == 5001
