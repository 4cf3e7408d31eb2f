"""Paleo's rules one by one, by hand; what holds for every prediction; what cannot be asked."""

import math
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scalecurve.hardware.devices import HardwareError, devices, find_device, find_link, links, precision_of
from scalecurve_models.networks import Network, shipped
from scalecurve_models.networks.parsing import parse_layer
from scalecurve_models.paleo.communication import MIXING, RING, SCHEMES, exchange_ms, tree_height
from scalecurve_models.paleo.costs import Rates, costs_of, update_ms
from scalecurve_models.paleo.inference import inference_rate
from scalecurve_models.paleo.nesting import bounds, nest
from scalecurve_models.paleo.parallel import predict_hybrid, predict_model_parallel
from scalecurve_models.paleo.scaling import SOFTWARE, Platform, predict_scaling, predict_step
from scalecurve_models.paleo.terms import DataMove, PaleoError, Variant, layer_terms

K80, TWENTY = find_device("K80"), find_link("ethernet20")
ON = Platform(K80, TWENTY)


def network(*layers, shape=(8, 8, 3)):
    return Network(
        "test", tuple(parse_layer(each) for each in ({"name": "in", "type": "input", "shape": shape}, *layers))
    )


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


def test_no_operation_is_shorter_than_a_cycle():
    tiny = network({"name": "d", "type": "dropout", "parents": ["in"]}, shape=(1, 1, 1))
    rates = Rates.of(K80)
    compute, move = costs_of(tiny).forward.by_layer(1, rates)
    assert compute[1] == 1 / 560 / 1e3
    assert move[1] == 2 / 560 / 1e3
    assert update_ms(0, K80) == pytest.approx(3 / 560 / 1e3)


def test_units_are_gib_for_memory_and_decimal_for_the_network():
    rates = Rates.of(K80, ppp=0.5)
    assert rates.byte_ms == pytest.approx(1e3 / (480 * 2**30) / 0.5)
    assert rates.flop_ms == pytest.approx(1e3 / 5600e9 / 0.5)
    assert exchange_ms(2_500_000_000, TWENTY, 2, SCHEMES["butterfly"]) == pytest.approx(1000)


def test_the_update_is_at_full_peak_whatever_the_ppp():
    slow = predict_step(shipped("alex_v2"), Platform(K80, TWENTY, 0.1, 0.1), batch=1)
    assert slow.update_ms == predict_step(shipped("alex_v2"), ON, batch=1).update_ms


@pytest.mark.parametrize(
    ("workers", "one_to_all", "tree", "butterfly"),
    [(1, 0, 0, 0), (2, 2, 2, 1), (5, 8, 6, 3), (8, 14, 6, 3), (129, 256, 16, 8)],
)
def test_schemes_by_hand(workers, one_to_all, tree, butterfly):
    crossings = [SCHEMES[name].crossings(workers) for name in ("one_to_all", "tree", "butterfly")]
    assert crossings == [one_to_all, tree, butterfly]
    assert MIXING.crossings(workers) == 1


@given(st.integers(1, 2**40))
def test_tree_height_is_exact(workers):
    height = tree_height(workers)
    assert 2**height >= workers
    assert height == 0 or 2 ** (height - 1) < workers


@given(st.integers(2, 10**6))
def test_the_ring_never_sends_more_than_twice(workers):
    assert 1 <= RING.crossings(workers) < 2


NETWORKS = st.sampled_from(["alex_v2", "nin", "overfeat", "vgg16", "inception_v3", "resnet50", "googlenet", "alexnet"])
PLATFORMS = st.builds(
    Platform,
    st.sampled_from(sorted(devices())).map(find_device),
    st.sampled_from(sorted(links())).map(find_link),
    st.floats(0.05, 3),
    st.floats(0.05, 3),
)


@settings(deadline=None)
@given(
    NETWORKS, PLATFORMS, st.integers(1, 4096), st.integers(1, 512), st.sampled_from(["strong", "weak"]), st.booleans()
)
def test_what_holds_for_every_prediction(name, platform, batch, workers, scaling, corrected):
    net = shipped(name)
    one, more = predict_scaling(
        net, platform, batch=batch, workers=[1, workers], scaling=scaling, variant=Variant(corrected=corrected)
    )
    single = predict_step(
        net, platform, batch=batch, workers=workers, scaling=scaling, variant=Variant(corrected=corrected)
    )
    assert single.plain() == more.plain()
    assert all(math.isfinite(value) and value > 0 for value in (more.forward_ms, more.backward_ms, more.update_ms))
    assert one.communication_ms == {"one_to_all": 0, "tree": 0, "butterfly": 0}
    assert more.throughput <= one.throughput * workers * (1 + 1e-9)
    assert more.step_ms == pytest.approx(more.compute_ms + more.communication_ms["tree"])
    if scaling == "weak":
        assert more.forward_ms == one.forward_ms
    else:
        assert more.batch_per_worker == math.ceil(batch / workers)
    piped = predict_step(net, platform, batch=batch, workers=workers, scaling=scaling, variant=Variant(pipeline=True))
    assert piped.compute_ms <= predict_step(net, platform, batch=batch, workers=workers, scaling=scaling).compute_ms
    assert (
        predict_step(net, platform, batch=batch, variant=Variant(corrected=True)).compute_ms
        <= predict_step(net, platform, batch=batch).compute_ms
    )


@settings(deadline=None)
@given(NETWORKS, PLATFORMS, st.integers(1, 2000))
def test_time_grows_with_the_batch_and_time_a_sample_falls(name, platform, batch):
    small, large = (predict_step(shipped(name), platform, batch=b) for b in (batch, 2 * batch))
    assert small.compute_ms < large.compute_ms <= 2 * small.compute_ms


def test_ten_thousand_predictions_are_quick():
    net = shipped("inception_v3")
    predict_step(net, ON, batch=1)
    start = time.process_time()
    for n in range(10_000):
        predict_step(net, ON, batch=1 + n % 512, workers=1 + n % 128)
    assert time.process_time() - start < 5


def test_lower_precision_takes_the_other_peak_and_half_the_bytes():
    h200 = find_device("H200")
    full, half = Rates.of(h200), Rates.of(h200, precision="bf16")
    assert half.flop_ms == pytest.approx(full.flop_ms * 66_900 / 989_400)
    assert (full.value_bytes, half.value_bytes) == (4, 2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"batch": 0}, "batch 0: expected an integer from 1"),
        ({"batch": -1}, "batch -1: "),
        ({"batch": 1.5}, r"batch 1\.5: "),
        ({"batch": True}, "batch True: "),
        ({"batch": 1, "workers": 0}, "workers 0: expected an integer from 1"),
        ({"batch": 1, "workers": 10**9}, "workers 1000000000: "),
        ({"batch": 1, "scaling": "wide"}, "scaling 'wide': expected one of strong, weak"),
    ],
)
def test_numbers_that_cannot_be(arguments, message):
    with pytest.raises(PaleoError, match=message):
        predict_step(shipped("nin"), ON, **arguments)


@pytest.mark.parametrize("ppp", [0, -0.5, math.nan, math.inf])
def test_shares_that_cannot_be(ppp):
    with pytest.raises(PaleoError, match=r"ppp_comp .*: expected a positive number"):
        Platform(K80, TWENTY, ppp_comp=ppp)
    with pytest.raises(PaleoError, match=r"ppp_comm .*: expected a positive number"):
        Platform(K80, TWENTY, ppp_comm=ppp)


def test_names_that_are_not_known():
    with pytest.raises(HardwareError, match=r"device 'k800' is unknown; did you mean 'K80'\?"):
        find_device("k800")
    with pytest.raises(HardwareError, match=r"link 'ethernet21' is unknown; did you mean 'ethernet"):
        find_link("ethernet21")
    with pytest.raises(HardwareError, match="device K80: no peak for 'bf16'; it has fp32"):
        K80.peak("bf16")
    with pytest.raises(HardwareError, match="unknown precision 'fp8'; expected one of"):
        precision_of("fp8")
    with pytest.raises(PaleoError, match="revision 'old': expected one of head, release"):
        Variant("old")
    with pytest.raises(PaleoError, match="workers: expected one or more numbers"):
        predict_scaling(shipped("nin"), ON, batch=1, workers=[])


def test_release_refuses_what_its_own_check_refuses():
    with pytest.raises(PaleoError, match=r"layer conv1: revision release .*use revision head"):
        predict_step(shipped("resnet50_paleo"), ON, batch=1, variant=Variant("release"))
    assert predict_step(shipped("resnet50"), ON, batch=1, variant=Variant("release")).step_ms > 0


def test_nesting_of_branches():
    items = nest(shipped("alex_v2_2gpu"))
    branches = [item for item in items if not isinstance(item, str)]
    assert [len(each) for each in branches] == [2, 2]
    assert branches[0][1] == ["parallel_fc67/fc6@1", "parallel_fc67/dropout6@1"]
    assert bounds(["a", (["b"], ["c", (["d"], ["e"])])], {"a": 1, "b": 5, "c": 2, "d": 1, "e": 2}) == (6, 11)
    forward, _ = predict_model_parallel(shipped("inception_v3"), ON, batch=8)
    assert forward.least_ms < forward.most_ms
    assert forward.most_ms == pytest.approx(predict_step(shipped("inception_v3"), ON, batch=8).forward_ms)


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


def test_corrected_hybrid_fetches_nothing_at_home_and_counts_bytes():
    net, on = shipped("alex_v2_2gpu"), Platform(K80, find_link("aws"), 1.0, 1.0)
    plain, corrected = (
        predict_hybrid(net, on, batch=8, workers=2, variant=Variant(corrected=fixed)) for fixed in (False, True)
    )
    # concat7 joins half of its values, from split 0, where it is itself.
    values = 8 * 2048 * 4 / 2**30 / 0.25 * 1e3
    assert plain[0].forward_ms - corrected[0].forward_ms == pytest.approx(values)
    assert corrected[1].forward_ms < plain[1].forward_ms


def test_inference_bound_and_paleos_rate():
    rate = inference_rate(shipped("vgg16"), K80, batch=64)
    assert rate.bound == pytest.approx(5600e9 / (2 * 15_470_264_320))
    assert rate.practical == pytest.approx(64e3 / predict_step(shipped("vgg16"), ON, batch=64).forward_ms)
    assert rate.share < SOFTWARE["tensorflow"][0]
    wrong = inference_rate(shipped("vgg16"), K80, convention="mac")
    assert wrong.bound == pytest.approx(2 * rate.bound)


def test_every_device_and_link_has_a_date_and_a_source():
    for entry in (*devices().values(), *links().values()):
        assert entry.as_of is not None, entry.key
        assert entry.source, entry.key
    assert {"K80", "K80_GPU", "P100", "V100", "T4", "A100", "H100", "H200", "B200"} <= set(devices())


def test_paleos_devices_and_links_have_paleos_figures():
    known = {"K20": (1000, 3520, 208), "K20X": (1000, 3935, 250), "K40": (745, 4290, 288), "K80": (560, 5600, 480),
             "TITAN_X": (1000, 6144, 336.5), "GEFORCE_780_TI": (875, 5040, 336), "GEFORCE_750_M": (941, 722.7, 80),
             "CPU_I7": (210000, 289, 68)}  # fmt: skip
    assert {key: (d.clock_mhz, d.peak(), d.memory_gb_s) for key, d in devices().items() if key in known} == known
    gbps = {"aws": 2, "ethernet": 10, "ethernet20": 20, "infiniband": 70, "pcie2": 64, "pcie3": 128}
    assert {key: link.gbps for key, link in links().items() if key in gbps} == gbps


def test_the_worker_names_the_same_peaks():
    flops = pytest.importorskip("scalecurve_worker.torch.flops")
    names = {
        "P100": "Tesla P100-SXM2-16GB", "V100": "Tesla V100-SXM2-16GB", "T4": "Tesla T4", "A10": "NVIDIA A10",
        "A100": "NVIDIA A100-SXM4-80GB", "L4": "NVIDIA L4", "L40S": "NVIDIA L40S", "H100": "NVIDIA H100 80GB HBM3",
        "H200": "NVIDIA H200", "B200": "NVIDIA B200",
    }  # fmt: skip
    for key, name in names.items():
        for precision, gflops in find_device(key).gflops.items():
            assert flops.device_peak_flops(name, precision) == pytest.approx(gflops * 1e9), (key, precision)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("A: {title: a, clock_mhz: -1, gflops: {fp32: 1}, memory_gb_s: 1, source: s}", "A: clock_mhz: "),
        ("A: {title: a, clock_mhz: 1, gflops: {fp7: 1}, memory_gb_s: 1, source: s}", "A: gflops.fp7"),
        ("A: {title: a, clock_mhz: 1, gflops: {fp32: .inf}, memory_gb_s: 1, source: s}", "A: gflops.fp32: "),
        ("A: 3", "A: expected a mapping"),
        ("[1]", "expected a mapping of names to entries"),
        ("{", "is not YAML"),
        ("A: {}\nB: {}", "A: source: field required"),
        ("A: {1: 2}", "A: expected a mapping"),
        ("A: {title: a, source: '', clock_mhz: 1, gflops: {fp32: 1}, memory_gb_s: 1}", "A: source: "),
    ],
)
def test_device_files_that_cannot_be(tmp_path, text, message):
    file = tmp_path / "device.yaml"
    file.write_text(text)
    with pytest.raises(HardwareError, match=message) as error:
        find_device(str(file))
    assert "\n" not in str(error.value)


def test_a_device_of_ones_own(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text("MINE: {title: mine, clock_mhz: 1000, gflops: {fp32: 100}, memory_gb_s: 10, source: me}")
    assert find_device(str(file)).peak() == 100
    assert find_link("2.5Gbps").bytes_per_second == pytest.approx(312_500_000)
    file.write_text(file.read_text() + "\nTHEIRS: {clock_mhz: 1, gflops: {fp32: 7}, memory_gb_s: 1, source: them}")
    assert find_device(f"{file}:theirs").peak() == 7
    with pytest.raises(HardwareError, match=r"2 entries, expected one device: name one of them as .*:MINE"):
        find_device(str(file))
    with pytest.raises(HardwareError, match=r"mine\.yaml: device 'ours' is unknown"):
        find_device(f"{file}:ours")
    with pytest.raises(HardwareError, match="cannot be read"):
        find_device(str(tmp_path / "none.yaml"))


@pytest.mark.parametrize(
    ("typed", "key"), [("h200", "H200"), ("Titan-X", "TITAN_X"), ("geforce 780 ti", "GEFORCE_780_TI")]
)
def test_a_device_is_found_however_its_name_is_spelt(typed: str, key: str):
    assert find_device(typed).key == key
    assert find_link("NVLink-4").key == "nvlink4"


def test_a_small_b_is_bits_and_a_large_one_bytes():
    bits = [find_link(rate).gbps for rate in ("25gbps", "25Gbps", "25 Gbit/s", "2.5e1Gb/s")]
    assert bits == [25] * 4
    assert [find_link(rate).gbps for rate in ("25GBps", "25GB/s")] == [200] * 2
    for rate in ("0gbps", ".gbps", "1e999gbps"):
        with pytest.raises(HardwareError, match="expected a positive rate such as 25gbps"):
            find_link(rate)
    for neither in ("25GBPS", "-1gbps", "25"):
        with pytest.raises(HardwareError, match="is not known"):
            find_link(neither)
