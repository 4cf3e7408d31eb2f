"""Which published points are comparable, and what the others miss."""

from __future__ import annotations

import pytest

from scalecurve.bundle.measurement import measure
from scalecurve.bundle.open import open_bundles
from scalecurve.curves.compute import scaling
from scalecurve_corpus.comparable import comparable, nearest, own_points, same_precision
from scalecurve_corpus.schema import SAMPLES, TOKENS, PublishedPoint
from tests.corpus.published import corpus, own, published


def test_the_same_model_device_and_size_is_comparable():
    (found,) = comparable(own(), corpus(published(per_device=(990.0, 1000.0, 1010.0), precision="bf16")))
    assert found.per_device == pytest.approx(1000)
    assert found.differs == ()


@pytest.mark.parametrize(
    "point",
    [
        published(benchmark="bert"),
        published(device="H200"),
        published(workers=16, nodes=2, batch=4096),
        published(precision="fp8"),
        published(batch=2048 * 2 + 8),
        published(batch=2048 // 2 - 8),
        published(unit=None),
    ],
    ids=["model", "device", "nodes", "precision", "large batch", "small batch", "unproved unit"],
)
def test_what_differs_in_kind_is_not(point: PublishedPoint):
    assert comparable(own(), corpus(point)) == ()


def test_parts_of_one_node_are_compared_per_device_and_it_is_said():
    (found,) = comparable(own(workers=2), corpus(published()))
    assert "8 devices" in found.differs[0]
    assert comparable(own(workers=2, nodes=2), corpus(published())) == ()


def test_the_batch_and_the_precision_that_differ_are_said():
    (found,) = comparable(own(batch=400), corpus(published()))
    assert [difference.split()[0] for difference in found.differs] == ["batch", "precision"]
    assert "256" in found.differs[0]
    (unknown,) = comparable(own(batch=None), corpus(published(precision="bf16")))
    assert [difference.split()[0] for difference in unknown.differs] == ["batch"]


def test_the_fastest_comes_first():
    found = comparable(own(), corpus(published("A", (900.0,)), published("B", (1100.0,)), published("C", (1000.0,))))
    assert [each.point.submitter for each in found] == ["B", "C", "A"]


@pytest.mark.parametrize(
    ("mine", "said"),
    [
        (own(model="gpt2_small"), "gpt2_small"),
        (own(model=""), "model"),
        (own(device="L40S"), "L40S"),
        (own(batch=16), "16, theirs 256"),
        (own(workers=64, nodes=8), "64 devices"),
    ],
)
def test_the_nearest_points_say_what_they_miss(mine, said):
    found = nearest(mine, corpus(published("A"), published("B"), published("C", device="MI300X", benchmark="bert")))
    assert [(each.point.submitter, each.point.benchmark) for each in found][:2] == [("A", "resnet"), ("B", "resnet")]
    assert all(said in "; ".join(each.differs) for each in found)


def test_the_nearest_are_of_the_same_model_and_one_a_submitter():
    points = [published("A", device="H200", benchmark="bert"), published("B"), published("B", system="other")]
    found = nearest(own(device="H200"), corpus(*points))
    assert [(each.point.submitter, each.point.benchmark) for each in found] == [("B", "resnet")]
    assert found[0].differs == ("your device is H200", "precision not stated")


def test_a_model_of_its_size_is_nearer_than_another():
    found = nearest(
        own(model="llama", batch=1, parameters=1.2e9),
        corpus(published("A", benchmark="unet3d"), published("B", benchmark="mpt-1b", parameters=1.3e9)),
    )
    assert [each.point.benchmark for each in found] == ["mpt-1b", "unet3d"]


def test_a_corpus_without_a_proved_unit_has_nothing_near():
    assert nearest(own(), corpus(published(unit=None))) == ()


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ("bf16", "bfloat16", True),
        ("bf16", "amp_bf16", True),
        ("fp8", "float8", True),
        ("bf16", "fp16", False),
        ("tf32", "fp32", False),
        ("bf16", None, True),
    ],
)
def test_precisions_are_of_one_kind_or_not(first, second, same):
    assert same_precision(first, second) is same


def test_measured_points_are_described_per_device():
    bundles = open_bundles(["docs/evidence/gpu/sessions.zip"])
    points = own_points(scaling(bundles), [series for bundle in bundles for series in measure(bundle)])
    assert [(p.series, p.workers, p.nodes) for p in points] == [
        ("strong", 1, 1), ("strong", 2, 1), ("weak", 1, 1), ("weak", 2, 1),
    ]  # fmt: skip
    weak = points[3]
    assert (weak.model, weak.device, weak.precision, weak.batch_per_device) == ("resnet50", "H100", "bf16", 256)
    assert weak.per_device[SAMPLES].value == pytest.approx(7778 / 2, rel=1e-3)
    renamed = own_points(scaling(bundles), [s for b in bundles for s in measure(b)], model="bert")
    assert {point.model for point in renamed} == {"bert"}


def test_tokens_are_compared_with_tokens_only():
    bundles = open_bundles(["docs/evidence/gpu/llm-gpt2-small.zip"])
    points = own_points(scaling(bundles), [series for bundle in bundles for series in measure(bundle)])
    assert {tuple(point.per_device) for point in points} == {(TOKENS,)}
    assert comparable(points[0], corpus(published(benchmark="gpt2_small", workers=1, batch=None))) == ()
