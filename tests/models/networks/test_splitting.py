"""Split layers over another number of devices: the networks that the authors wrote for each."""

import pytest

from scalecurve_models.networks import NetworkError
from scalecurve_models.networks.catalog import shipped
from scalecurve_models.networks.splitting import split_over


def described(network):
    return {layer.name: (layer.model_dump(), network.shapes[layer.name]) for layer in network.layers}


@pytest.mark.parametrize("devices", [2, 8])
def test_it_is_the_network_written_for_that_many(devices: int):
    written = shipped(f"alex_v2_{devices}gpu")
    assert described(split_over(shipped("alex_v2_4gpu"), devices)) == described(written)


def test_over_one_device_nothing_is_split():
    one = split_over(shipped("alex_v2_4gpu"), 1)
    assert one.splits == 1
    assert not any("@" in layer.name for layer in one.layers)
    own = described(shipped("alex_v2_1gpu"))
    shapes = {name: shape for name, (_, shape) in described(one).items()}
    assert [shapes[f"parallel_fc67/{name}"] for name in ("fc6", "fc7")] == [own["fc6"][1], own["fc7"][1]]


def test_what_cannot_be_split_is_refused():
    with pytest.raises(NetworkError, match="features 4096: cannot be split over 3 devices"):
        split_over(shipped("alex_v2_4gpu"), 3)
    with pytest.raises(NetworkError, match="no layer is split"):
        split_over(shipped("vgg16"), 2)
