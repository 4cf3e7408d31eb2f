"""Our own format and Paleo's JSON: what they say, and what is wrong with them in one line."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalecurve_models.networks import SHIPPED, NetworkError, count, read_network, shipped, totals, write_network
from scalecurve_models.networks.reading import network_of_text, shape_of_text

BLOCKS = """
network: example
input: [32, 32, 3]
blocks:
  double:
    - {name: first, type: conv, filters: $width, kernel: 3, padding: 1}
    - {name: second, type: conv, filters: $width, kernel: 3, padding: 1, from: first}
    - {name: skip, type: conv, filters: $width, kernel: 1, from: input}
    - {name: sum, type: add, from: [second, skip], activation: relu}
layers:
  - {name: stem, type: conv, filters: 8, kernel: 3, padding: 1}
  - {name: body, block: double, repeat: 2, with: {width: 16}}
  - {name: side, block: double, with: {width: 4}, from: stem, auxiliary: true}
  - {name: end, type: avgpool, grid: 1, from: body}
"""


def test_blocks_are_written_out():
    net = network_of_text(BLOCKS, "example.yaml")
    parents = {layer.name: layer.parents for layer in net.layers}
    assert parents["body_1/first"] == ("stem",)
    assert parents["body_2/first"] == parents["body_2/skip"] == ("body_1/sum",)
    assert parents["body_2/sum"] == ("body_2/second", "body_2/skip")
    assert parents["end"] == ("body_2/sum",)
    assert net.shapes["end"] == (1, 1, 16)
    assert {layer.name for layer in net.layers if layer.auxiliary} == {
        f"side/{name}" for name in ("first", "second", "skip", "sum")
    }


def test_splits_put_a_share_on_every_device():
    net = shipped("alex_v2_4gpu")
    layers = net.by_name
    assert net.splits == 4
    assert layers["parallel_fc67/fc6@3"].features == 1024
    assert layers["parallel_fc67/concat6@1"].parents == tuple(f"parallel_fc67/dropout6@{d}" for d in range(4))
    assert layers["parallel_fc67/fc7@2"].parents == ("parallel_fc67/concat6@2",)
    assert layers["parallel_fc67/fc7@2"].device == 2
    assert layers["concat7"].parents == tuple(f"parallel_fc67/dropout7@{d}" for d in range(4))


@pytest.mark.parametrize("name", SHIPPED)
def test_written_networks_read_back_as_they_were(name):
    net = shipped(name)
    again = network_of_text(write_network(net), "again.yaml")
    assert again.layers == net.layers
    assert (again.name, again.title, again.source, again.notes) == (net.name, net.title, net.source, net.notes)
    assert count(again) == count(net)


def test_every_shipped_network_says_whose_it_is():
    assert all(shipped(name).source and shipped(name).title for name in SHIPPED)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("block: double", "block: triple"), "layer body: unknown block 'triple'; expected one of double"),
        (("with: {width: 16}", "with: {wide: 16}"), r"layer body_1/first: \$width: not set by the use of the block"),
        (("repeat: 2", "repeat: 0"), "layer body: repeat 0: expected an integer from 1 to 1000"),
        (("from: body}", "from: bdoy}"), "layer end: parent 'bdoy' does not exist"),
        (("filters: 8", "filters: -8"), "layer stem: filters: -8"),
        (("network: example", "netwrk: example"), "unknown key 'netwrk'"),
        (("input: [32, 32, 3]", ""), "'input' is missing"),
        (("input: [32, 32, 3]", "input: [32, -32, 3]"), "layer input: shape: -32"),
        (("padding: 1, from: first", "from: sum"), "the graph has a cycle: body_1/second <- body_1/sum"),
        (("grid: 1, from: body", "grid: 1, from: [[]]"), "layer end: from: "),
        (("{name: stem,", "{nam: stem,"), "expected a layer, a mapping with a name"),
        (("layers:", "layers: 3\nnotes:"), "notes: expected a list of texts"),
        (("body, block", "body, kernel: 3, block"), "layer body: unknown key 'kernel' in the use of a block"),
        (("input: [32", "input: ][32"), "line 3: invalid YAML"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_file_is_said_in_one_line(change, message):
    assert change[0] in BLOCKS
    with pytest.raises(NetworkError, match=message) as error:
        network_of_text(BLOCKS.replace(*change, 1), "example.yaml")
    assert str(error.value).startswith("example.yaml: ")
    assert "\n" not in str(error.value)


def test_a_block_that_uses_itself_is_refused():
    text = "network: n\ninput: [8, 8, 3]\nblocks: {a: [{name: x, block: a}]}\nlayers: [{name: y, block: a}]\n"
    with pytest.raises(NetworkError, match="block 'a' uses itself"):
        network_of_text(text, "loop.yaml")


def test_blocks_that_write_out_too_much_are_stopped_soon():
    layer = "{name: l, type: dropout}"
    text = (
        f"network: n\ninput: [8, 8, 3]\nblocks: {{a: [{layer}], b: [{{name: u, block: a, repeat: 1000}}]}}\n"
        "layers: [{name: y, block: b, repeat: 1000}]\n"
    )
    with pytest.raises(NetworkError, match="more than 20,000 layers"):
        network_of_text(text, "bomb.yaml")


@pytest.mark.parametrize(
    "text", ["", "3", "[]", "network: 3\ninput: [1]\nlayers: []", "{}", "{", "layers: {a: 1}", "\x00"]
)
def test_what_is_no_network_is_refused(text):
    with pytest.raises(NetworkError, match=r"^f\.yaml: "):
        network_of_text(text, "f.yaml")


@given(st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from(["a", "input", "$x", "conv", "data", "@all"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["name", "type", "from", "block", "layers", "blocks", "parents", "input", "network", "with"]),
        inner, max_size=5),
    max_leaves=20,
))  # fmt: skip
def test_no_tree_does_worse_than_a_refusal(tree):
    message = ""
    try:
        network_of_text(json.dumps(tree), "any.json")
    except NetworkError as error:
        message = str(error)
    assert "\n" not in message


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(NetworkError, match=r"nothing\.yaml: cannot be read: No such file"):
        read_network(tmp_path / "nothing.yaml")
    (tmp_path / "bytes.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(NetworkError, match="not UTF-8 text"):
        read_network(tmp_path / "bytes.yaml")


@pytest.mark.parametrize("text", ["", "x", "3x", "-3", "3x0", "a", "3.5", "²x2"])
def test_shapes_that_are_none(text):
    with pytest.raises(NetworkError):
        shape_of_text(text)


PALEO = {
    "name": "small",
    "layers": {
        "data": {"parents": [], "type": "Input", "tensor": [16, 32, 32, 3]},
        "conv": {"parents": ["data"], "type": "Convolution", "filter": [3, 3, -1, 8], "strides": [1, 2, 2, 1],
                 "padding": "SAME", "normalizer_fn": "batch_norm"},
        "mixed": {
            "type": "Block", "parents": ["conv"], "endpoint": "concat",
            "layers": {
                "a": {"parents": [], "type": "Convolution", "filter": [1, 1, 8, 4], "strides": [1, 1, 1, 1],
                      "padding": [0, 0], "activation_fn": None},
                "b": {"parents": [], "type": "AvgPool", "ksize": [1, 3, 3, 1], "strides": [1, 1, 1, 1],
                      "padding": "SAME"},
                "concat": {"parents": ["a", "b"], "type": "Concatenate", "dim": 3},
            },
        },
        "split": {
            "type": "ModelParallel", "splits": 2, "parents": ["mixed"],
            "layers": {
                "fc": {"parents": [], "type": "Convolution", "filter": [16, 16, 12, 10], "strides": [1, 1, 1, 1],
                       "padding": "VALID"},
                "drop": {"parents": ["fc@self"], "type": "Dropout", "dropout_keep_prob": 0.8},
            },
        },
        "join": {"parents": ["split/drop@all"], "type": "Concatenate", "dim": 3},
        "out": {"parents": ["join"], "type": "InnerProduct", "num_outputs": 7},
        "odd": {"parents": ["out"], "type": "Wavelet"},
    },
}  # fmt: skip


def paleo(**changes):
    tree = json.loads(json.dumps(PALEO))
    for name, fields in changes.items():
        tree["layers"].setdefault(name, {}).update(fields)
    return network_of_text(json.dumps(tree), "small.json")


def test_paleos_json_is_read_as_paleo_reads_it():
    net = paleo()
    layers = net.by_name
    assert net.shapes["conv"] == (16, 16, 8)
    assert (layers["conv"].norm, layers["conv"].bias, layers["conv"].activation) == ("center", False, "relu")
    assert (layers["mixed/a"].bias, layers["mixed/a"].activation, layers["mixed/a"].padding) == (True, None, (0, 0))
    assert net.shapes["mixed/concat"] == (16, 16, 12)
    assert layers["split/fc@1"].parents == ("mixed/concat",)
    assert (layers["split/fc@1"].kind, layers["split/fc@1"].features, layers["split/fc@1"].device) == ("fc", 5, 1)
    assert layers["split/fc@1"].as_convolution
    assert layers["split/drop@0"].rate == pytest.approx(0.2)
    assert layers["join"].parents == ("split/drop@0", "split/drop@1")
    assert (layers["odd"].kind, layers["odd"].what) == ("other", "Wavelet")
    assert totals(net).work.weights == 9 * 3 * 8 + 8 * 4 + 16 * 16 * 12 * 10 + 10 * 7


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"conv": {"parents": ["odd"]}}, "the graph has a cycle"),
        ({"conv": {"filter": [3, 3, 5, 8]}}, "layer conv: filter: expects 5 channels, but the input has 3"),
        ({"conv": {"filter": [3, 3, -1, -8]}}, "layer conv: filters: -8"),
        ({"conv": {"filter": [3, 3, 3]}}, "layer conv: filter: "),
        ({"conv": {"strides": [1, 0, 1, 1]}}, "layer conv: stride: 0"),
        ({"conv": {"padding": "FULL"}}, "layer conv: padding: expected VALID, SAME or"),
        ({"conv": {"parents": ["nobody"]}}, "layer conv: parent 'nobody' does not exist"),
        ({"conv": {"parents": None}}, "layer conv: parents: expected a list of names, got None"),
        ({"data": {"tensor": [16, -32, 32, 3]}}, "layer data: shape: -32"),
        ({"split": {"splits": 0}}, "layer split: splits 0: "),
        ({"out": {"num_outputs": 0}}, "layer out: features: 0"),
        ({"join": {"dim": 1.5}}, r"layer join: dim: expected channels"),
        ({"odd": {"type": None}}, "layer odd: expected a mapping with a type"),
    ],
)
def test_what_is_wrong_with_paleos_json_is_said_in_one_line(changes, message):
    with pytest.raises(NetworkError, match=message) as error:
        paleo(**changes)
    assert "\n" not in str(error.value)


def test_twins_in_json_are_seen():
    with pytest.raises(NetworkError, match="duplicate key 'a'"):
        network_of_text('{"layers": {"a": 1, "a": 2}}', "twins.json")


def test_other_types_of_paleos_json():
    net = paleo(
        up={"parents": ["conv"], "type": "UpSampling2D", "ksize": [1, 2, 2, 1]},
        back={"parents": ["conv"], "type": "Deconvolution", "filter": [3, 3, 5, 8], "strides": [1, 2, 2, 1],
              "padding": "SAME", "output_shape": [16, 32, 32, 5]},
        flat={"parents": ["conv"], "type": "Reshape", "output_shape": [-1, -1]},
        shaped={"parents": ["conv"], "type": "Reshape", "output_shape": [16, 8, 8, 32]},
        twice={"parents": ["conv", "conv"], "type": "Elementwise"},
        score={"parents": ["conv"], "type": "Sigmoid"},
        best={"parents": ["conv"], "type": "Softmax"},
        most={"parents": ["conv"], "type": "Pooling", "ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1],
              "padding": "VALID"},
    )  # fmt: skip
    shapes = {name: net.shapes[name] for name in ("up", "back", "flat", "shaped", "twice", "score", "best", "most")}
    assert shapes == {
        "up": (32, 32, 8), "back": (32, 32, 5), "flat": (2048,), "shaped": (8, 8, 32), "twice": (16, 16, 8),
        "score": (1,), "best": (8,), "most": (8, 8, 8),
    }  # fmt: skip
    back = next(entry for entry in count(net) if entry.name == "back")
    assert (back.work.weights, back.work.macs) == (9 * 8 * 5, 9 * 8 * 5 * 16 * 16)
