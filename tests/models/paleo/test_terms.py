import math

import pytest

from scalecurve_models.networks import shipped
from scalecurve_models.paleo.nesting import nest
from scalecurve_models.paleo.parallel import predict_model_parallel
from scalecurve_models.paleo.scaling import Platform, predict_step
from scalecurve_models.paleo.terms import DataMove, PaleoError, Variant, layer_terms
from tests.models.paleo.paleo_rules_cases import K80, ON, TWENTY, network


def conv(name="c", parent="in", **fields):
    return {"name": name, "type": "conv", "parents": [parent], "filters": 4, "kernel": 3, "padding": "same"} | fields


def terms(net, name, revision="head", corrected=False):
    return next(each for each in layer_terms(net, Variant(revision, corrected)) if each.name == name)


def test_a_convolution_by_hand():
    net = network(conv("first"), conv("c", "first", filters=5))
    forward = terms(net, "c").forward
    assert forward.flops == (2 * 9 * 4 * 5 * 64,)
    assert forward.moved == (DataMove(10 * 10 * 4), DataMove(once=9 * 4 * 5), DataMove(64 * 5))
    backward = terms(net, "c").backward
    assert backward.flops == (2 * 9 * 4 * 5 * 64, 2 * 9 * 4 * 5 * 64)
    data = (DataMove(10 * 10 * 5), DataMove(once=180), DataMove(64 * 4))
    assert backward.moved == (*data, DataMove(10 * 10 * 4), DataMove(64 * 5), DataMove(once=180))
    assert terms(net, "c").parameters == 185
    release = terms(net, "c", "release")
    assert release.forward.moved[0] == DataMove(64 * 4)
    assert (release.backward.moved[0], release.backward.moved[3]) == (DataMove(64 * 5), DataMove(64 * 4))


def test_the_first_layer_has_no_gradient_of_its_input():
    first = terms(network(conv()), "c")
    assert first.backward.flops == first.forward.flops


def test_a_strided_convolution_is_charged_over_the_dilated_gradient():
    net = network(conv("first"), conv("c", "first", filters=5, stride=2, padding=1))
    data, filters = terms(net, "c").backward.flops
    true = 2 * 9 * 4 * 5 * 16
    # Over 64 places instead of 16, and each of the 16 * 5 values is moved into place.
    assert (data, filters) == (4 * true + 2 * 16 * 5, true)
    assert terms(net, "c", "release").backward.flops == (4 * true, true)
    corrected = terms(net, "c", corrected=True).backward
    assert corrected.flops == (true, true)
    assert corrected.moved[0] == DataMove(16 * 5)


def test_a_rest_of_several_cells_is_carried_on():
    net = network(conv("first"), conv("c", "first", stride=4, kernel=2, padding="valid"), shape=(8, 8, 3))
    assert terms(net, "c").backward.flops[0] == 2 * 4 * 4 * 4 * 64 + 2 * 4 * 4
    with pytest.raises(PaleoError, match="layer c: revision release cannot differentiate"):
        layer_terms(net, Variant("release"))


def test_groups_share_the_work():
    one = network(conv("first"), conv("c", "first"))
    two = network(conv("first"), conv("c", "first", groups=2))
    for passed in ("forward", "backward"):
        whole, half = getattr(terms(one, "c"), passed), getattr(terms(two, "c"), passed)
        assert [flop / 2 for flop in whole.flops] == list(half.flops)


def test_fully_connected_layers_of_both_kinds():
    plain = terms(network({"name": "f", "type": "fc", "parents": ["in"], "features": 7}), "f")
    assert plain.forward.flops == (2 * 192 * 7,)
    assert plain.backward.flops == (2 * 192 * 7,) * 2
    assert plain.parameters == 192 * 7 + 7
    fields = {"type": "fc", "features": 7, "as_convolution": True}
    net = network(conv(), {"name": "f", "parents": ["c"], **fields}, {"name": "g", "parents": ["f"], **fields})
    as_conv = terms(net, "f")
    assert as_conv.forward.flops == (2 * 64 * 4 * 7,)
    # The gradient of its input is charged over all 64 places.
    assert as_conv.backward.flops == (64 * 2 * 64 * 4 * 7, 2 * 64 * 4 * 7)
    assert terms(net, "g").backward.flops == (2 * 7 * 7,) * 2


def test_pools_dropout_and_what_costs_nothing():
    net = network(
        {"name": "p", "type": "maxpool", "parents": ["in"], "kernel": 2},
        {"name": "d", "type": "dropout", "parents": ["p"]},
        {"name": "n", "type": "norm", "parents": ["d"]},
    )
    pool, drop, norm = (terms(net, name) for name in "pdn")
    assert pool.forward == pool.backward
    assert (pool.forward.flops, pool.forward.moved) == ((2 * 4 * 48,), (DataMove(192), DataMove(48)))
    assert (drop.forward.flops, drop.backward.moved) == ((48,), (DataMove(48), DataMove(48)))
    assert (norm.forward.flops, norm.forward.moved, norm.parameters) == ((), (), 0)


def test_a_transposed_convolution_is_its_convolution_backwards():
    deconv = {"name": "d", "type": "deconv", "parents": ["c"], "filters": 3, "kernel": 3, "padding": "same", "size": 8}
    back = terms(network(conv(), deconv), "d")
    twin = terms(network(conv("x"), conv("c", "x", filters=4), shape=(8, 8, 3)), "c")
    assert back.forward.flops == (2 * 9 * 3 * 4 * 64,)
    assert back.parameters == 9 * 4 * 3 + 3
    assert len(back.backward.flops) == len(twin.backward.flops)


@pytest.mark.parametrize("ppp", [0, -0.5, math.nan, math.inf])
def test_shares_that_cannot_be(ppp):
    with pytest.raises(PaleoError, match=r"ppp_comp .*: expected a positive number"):
        Platform(K80, TWENTY, ppp_comp=ppp)
    with pytest.raises(PaleoError, match=r"ppp_comm .*: expected a positive number"):
        Platform(K80, TWENTY, ppp_comm=ppp)


def test_release_refuses_what_its_own_check_refuses():
    with pytest.raises(PaleoError, match=r"layer conv1: revision release .*use revision head"):
        predict_step(shipped("resnet50_paleo"), ON, batch=1, variant=Variant("release"))
    assert predict_step(shipped("resnet50"), ON, batch=1, variant=Variant("release")).step_ms > 0


def test_branches_that_do_not_nest_are_refused():
    add = {"type": "add"}
    net = network(
        conv("a", filters=3), conv("b", filters=3), conv("c", "a", filters=3),
        {"name": "x", "parents": ["c", "b"], **add}, {"name": "y", "parents": ["a", "x"], **add},
    )  # fmt: skip
    with pytest.raises(PaleoError, match="branches do not nest"):
        nest(network(*[layer.model_dump() for layer in net.layers[1:]], {"name": "z", "parents": ["y", "y"], **add}))


def test_model_parallelism_over_more_than_a_host_needs_the_corrected_arithmetic():
    with pytest.raises(PaleoError, match="8 splits: the authors' code supports at most 4"):
        predict_model_parallel(shipped("alex_v2_8gpu"), ON, batch=32)
    corrected = predict_model_parallel(shipped("alex_v2_8gpu"), ON, batch=32, variant=Variant(corrected=True))
    assert all(each.least_ms <= each.most_ms for each in corrected)
