"""Layers over several devices: their nesting, and the networks that the authors wrote for each number."""

import pytest

from scalecurve_models.networks import NetworkError, shipped
from scalecurve_models.paleo.nesting import bounds, nest
from scalecurve_models.paleo.parallel import predict_model_parallel, split_over
from scalecurve_models.paleo.scaling import predict_step
from tests.models.paleo.paleo_rules_cases import ON


def test_nesting_of_branches():
    items = nest(shipped("alex_v2_2gpu"))
    branches = [item for item in items if not isinstance(item, str)]
    assert [len(each) for each in branches] == [2, 2]
    assert branches[0][1] == ["parallel_fc67/fc6@1", "parallel_fc67/dropout6@1"]
    assert bounds(["a", (["b"], ["c", (["d"], ["e"])])], {"a": 1, "b": 5, "c": 2, "d": 1, "e": 2}) == (6, 11)
    forward, _ = predict_model_parallel(shipped("inception_v3"), ON, batch=8)
    assert forward.least_ms < forward.most_ms
    assert forward.most_ms == pytest.approx(predict_step(shipped("inception_v3"), ON, batch=8).forward_ms)


def described(network):
    return {layer.name: (layer.model_dump(), network.shapes[layer.name]) for layer in network.layers}


@pytest.mark.parametrize("devices", [2, 8])
def test_a_split_network_is_the_one_written_for_that_many(devices: int):
    written = shipped(f"alex_v2_{devices}gpu")
    assert described(split_over(shipped("alex_v2_4gpu"), devices)) == described(written)


def test_over_one_device_nothing_is_split():
    one = split_over(shipped("alex_v2_4gpu"), 1)
    assert one.splits == 1
    assert not any("@" in layer.name for layer in one.layers)
    own = described(shipped("alex_v2_1gpu"))
    shapes = {name: shape for name, (_, shape) in described(one).items()}
    assert [shapes[f"parallel_fc67/{name}"] for name in ("fc6", "fc7")] == [own["fc6"][1], own["fc7"][1]]


def test_a_network_that_cannot_be_split_is_refused():
    with pytest.raises(NetworkError, match="features 4096: cannot be split over 3 devices"):
        split_over(shipped("alex_v2_4gpu"), 3)
    with pytest.raises(NetworkError, match="no layer is split"):
        split_over(shipped("vgg16"), 2)
