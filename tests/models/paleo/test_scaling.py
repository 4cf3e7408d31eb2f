"""Paleo's rules one by one, by hand; what holds for every prediction; what cannot be asked."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalecurve_models.networks import shipped
from scalecurve_models.paleo.scaling import SOFTWARE, Platform, inference_rate, predict_scaling, predict_step
from scalecurve_models.paleo.terms import PaleoError, Variant
from tests.models.paleo.paleo_rules_cases import K80, NETWORKS, ON, PLATFORMS, TWENTY


def test_the_update_is_at_full_peak_whatever_the_ppp():
    slow = predict_step(shipped("alex_v2"), Platform(K80, TWENTY, 0.1, 0.1), batch=1)
    assert slow.update_ms == predict_step(shipped("alex_v2"), ON, batch=1).update_ms


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


def test_inference_bound_and_paleos_rate():
    rate = inference_rate(shipped("vgg16"), K80, batch=64)
    assert rate.bound == pytest.approx(5600e9 / (2 * 15_470_264_320))
    assert rate.practical == pytest.approx(64e3 / predict_step(shipped("vgg16"), ON, batch=64).forward_ms)
    assert rate.share < SOFTWARE["tensorflow"][0]
    wrong = inference_rate(shipped("vgg16"), K80, convention="mac")
    assert wrong.bound == pytest.approx(2 * rate.bound)
