"""Counts against published and given tables, exactly."""

import csv
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalecurve_models.networks import (
    SHIPPED,
    NetworkError,
    Work,
    count,
    find_network,
    network_of_model,
    shipped,
    totals,
)
from scalecurve_models.networks.counting import CONVENTIONS, by_kind, convention

REFERENCE = Path(__file__).parents[2] / "reference"

# Parameters and GMACs as torchvision 0.29.2 publishes them (`_metrics`, num_params and _ops of the default weights).
TORCHVISION = {
    "alexnet_torchvision": (61_100_840, 0.714),
    "vgg16": (138_357_544, 15.470),
    "vgg19": (143_667_240, 19.632),
    "googlenet_torchvision": (6_624_904, 1.498),
    "inception_v3_torchvision": (27_161_264, 5.713),
    "resnet18": (11_689_512, 1.814),
    "resnet34": (21_797_672, 3.664),
    "resnet50": (25_557_032, 4.089),
    "resnet101": (44_549_160, 7.801),
    "resnet152": (60_192_808, 11.514),
}
# The papers', Caffe's, and Paleo's own (`paleo summary`).
PUBLISHED = {
    "alexnet": (60_965_224, 0.7244),
    "googlenet": (6_998_552, 1.583),
    "lenet5": (61_706, 0.000),
    "resnet50_v1": (25_557_032, 3.858),
    "resnet101_v1": (44_549_160, 7.6),
    "resnet152_v1": (60_192_808, 11.3),
    "resnet20_cifar": (269_722, 0.0406),
    "resnet32_cifar": (464_154, 0.0689),
    "resnet44_cifar": (658_586, 0.0972),
    "resnet56_cifar": (853_018, 0.1255),
    "resnet110_cifar": (1_727_962, 0.2529),
    "resnet18_cifar_wide": (11_173_962, 0.5554),
    "resnet50_cifar_wide": (23_520_842, 1.2978),
    "alex_v2": (50_303_912, 0.737),
    "nin": (7_595_176, 0.969),
    "overfeat": (145_704_424, 2.647),
    "inception_v3": (23_734_312, 5.637),
    "resnet50_paleo": (25_530_472, 3.834),
}
# Totals in 10^6 by the rule of Lu et al. 2017, as printed there (AlexNet, GoogLeNet, ResNet-50 from Caffe's files).
LU = {"vgg16": 15503.50, "alexnet": 729.21, "googlenet": 1605.95, "resnet50_v1": 3922.35}


@pytest.mark.parametrize(("name", "published"), {**TORCHVISION, **PUBLISHED}.items())
def test_parameters_are_the_published_ones_and_so_are_the_multiply_adds_to_the_printed_digits(name, published):
    parameters, gmacs = published
    sums = totals(shipped(name))
    digits = len(str(gmacs).split(".")[1])
    assert sums.parameters == parameters
    assert round(sums.work.macs / 1e9, digits) == gmacs


def test_every_shipped_network_has_a_published_count_or_is_a_split_of_one():
    splits = {name for name in SHIPPED if name.endswith("gpu")}
    assert set(SHIPPED) - splits == set(TORCHVISION) | set(PUBLISHED)
    assert {totals(shipped(name)).parameters for name in splits} == {49_566_504}


@pytest.mark.parametrize(("name", "millions"), LU.items())
def test_the_rule_of_lu_gives_their_totals(name, millions):
    assert totals(shipped(name)).work.flops("lu") / 1e6 == pytest.approx(millions, abs=0.005)


def test_vgg16_is_the_given_table_layer_by_layer():
    rows = list(csv.DictReader((REFERENCE / "cnn_layers_vgg16.csv").read_text().splitlines()))
    counted = {entry.name: entry for entry in count(shipped("vgg16"))}
    for row in rows:
        entry = counted[row["layer"]]
        assert entry.layer.kind == row["type"]
        assert "x".join(map(str, entry.output)) == row["out"]
        columns = {
            "acts": entry.activations,
            "weights": entry.work.weights,
            "bias": entry.work.biases,
            "bn": entry.work.norm_parameters,
            "macs": entry.work.macs,
            "bias_flops": entry.work.bias_adds,
            "relu": entry.work.activated,
            "pool": entry.work.pooled,
            "lrn": entry.work.lrn,
            "bn_acts": entry.work.normed,
            "elt": entry.work.summed,
        }
        assert {name: int(row[name]) for name in columns} == columns, row["layer"]
    rest = set(counted) - {row["layer"] for row in rows}
    assert all(counted[name].work == Work() or counted[name].layer.kind == "dropout" for name in rest)


@pytest.mark.parametrize(
    ("name", "activations", "share"),
    [("vgg16", 15_237_608, 0.9920), ("vgg19", 16_542_184, 0.9937)],
)
def test_vgg_activations_and_share_of_convolutions(name, activations, share):
    sums = totals(shipped(name))
    assert sums.activations == activations
    assert by_kind(shipped(name), "mac")["convolutions"] / sums.work.macs == pytest.approx(share, abs=5e-5)


def test_lus_rows_of_vgg16():
    kinds = by_kind(shipped("vgg16"), "lu")
    assert {kind: round(flops / 1e6) for kind, flops in kinds.items() if flops} == {
        "convolutions": 15360, "fully connected": 124, "ReLU": 14, "pooling": 6,
    }  # fmt: skip
    for name in SHIPPED:
        for named in CONVENTIONS:
            assert sum(by_kind(shipped(name), named).values()) == totals(shipped(name)).work.flops(named)


def test_vgg19_multiply_adds_of_convolutions_and_of_the_rest():
    sums = totals(shipped("vgg19"))
    assert (by_kind(shipped("vgg19"), "mac")["convolutions"], sums.work.macs) == (19_508_428_800, 19_632_062_464)


def test_alexnet_layers_are_those_of_the_grouped_original():
    counted = {entry.name: entry for entry in count(shipped("alexnet"))}
    parameters = {name: counted[name].work.parameters for name in counted if counted[name].work.parameters}
    assert parameters == {
        "conv1": 34_944, "conv2": 307_456, "conv3": 885_120, "conv4": 663_936, "conv5": 442_624,
        "fc6": 37_752_832, "fc7": 16_781_312, "fc8": 4_097_000,
    }  # fmt: skip
    assert counted["conv1"].activations == 290_400
    assert totals(shipped("alexnet")).work.weights == 60_954_656


def test_auxiliary_classifier_counts_as_parameters_and_not_as_work():
    sums = totals(shipped("inception_v3_torchvision"))
    assert (sums.parameters, sums.work.parameters) == (27_161_264, 23_834_568)
    assert sums.auxiliary.macs > 0


def test_depths_are_those_in_the_names():
    for name in ("vgg16", "vgg19", "resnet18", "resnet34", "resnet50", "resnet101", "resnet152", "resnet110_cifar"):
        assert totals(shipped(name)).depth == int("".join(filter(str.isdigit, name)))


def test_work_grows_with_the_area_and_parameters_stay():
    small, large = shipped("resnet50"), shipped("resnet50").with_input((448, 448, 3))
    assert totals(large).parameters == totals(small).parameters
    last = shipped("resnet50").shapes["fc"][0] * 2048
    assert totals(large).work.macs - last == 4 * (totals(small).work.macs - last)


@given(st.integers(0, 10**12), st.integers(0, 10**9), st.integers(0, 10**9))
def test_conventions_differ_by_what_they_say(macs, normed, summed):
    work = Work(macs=macs, bias_adds=3, activated=5, pooled=7, lrn=11, normed=normed, summed=summed)
    assert work.flops("2mac") == 2 * work.flops("mac") == 2 * macs
    assert work.flops("lu") == macs + 26 + 4 * normed + 2 * summed


def test_unknown_convention_is_refused_with_the_known_ones():
    with pytest.raises(NetworkError, match=r"convention 'flops': expected one of mac, 2mac, lu"):
        convention("flops")
    assert [convention(name) for name in CONVENTIONS] == list(CONVENTIONS)


def test_unknown_network_is_refused_with_the_nearest_name():
    with pytest.raises(NetworkError, match=r"network 'resnet51' is unknown; did you mean 'resnet50'\?"):
        find_network("resnet51")


@pytest.mark.parametrize(
    ("typed", "name"),
    [
        ("VGG-16", "vgg16"), ("AlexNet", "alexnet"), ("GoogLeNet", "googlenet"), ("Inception-v3", "inception_v3"),
        ("NiN", "nin"), ("OverFeat", "overfeat"), ("ResNet-152", "resnet152"), ("resnet50-v1", "resnet50_v1"),
        ("ResNet-50 v1.5", "resnet50"), ("resnet34_v1", "resnet34"), ("resnet110", "resnet110_cifar"),
        ("ResNet-20-CIFAR", "resnet20_cifar"), ("alexnet-torchvision", "alexnet_torchvision"),
    ],
)  # fmt: skip
def test_a_network_is_found_however_its_name_is_spelt(typed: str, name: str):
    assert find_network(typed) is shipped(name)
    assert find_network(typed).name == name


def test_models_of_the_worker_are_torchvisions_variants():
    assert network_of_model("alexnet").name == "alexnet_torchvision"
    assert network_of_model("resnet20").name == "resnet20_cifar"
    assert network_of_model("resnet50") is shipped("resnet50")
    with pytest.raises(NetworkError, match="'gpt2_small' has no network"):
        network_of_model("gpt2_small")


def test_memory_of_a_layer_and_of_training():
    conv1 = next(entry for entry in count(shipped("vgg16")) if entry.name == "conv1_1")
    assert conv1.memory_bytes(batch=2) == 4 * (2 * 3_211_264 + 1_792)
    sums = totals(shipped("vgg16"))
    assert sums.forward_bytes(1) == 4 * (138_357_544 + 15_237_608)
    assert sums.training_bytes(3) == 4 * (3 * 138_357_544 + 2 * 3 * 15_237_608)
