"""Bus bandwidth beside published figures: the largest message, the same device, and what differs."""

from __future__ import annotations

import pytest

from scalecurve.bundle.open import Bundle, open_bundles
from scalecurve_api.features.collectives.kinds import Collective
from scalecurve_corpus.busbw import LARGE, PublishedBusbw, busbw_beside, read_published_busbw
from scalecurve_corpus.tables import busbw_table


@pytest.fixture(scope="module")
def two_h100s() -> list[Bundle]:
    return open_bundles(["docs/evidence/gpu/collectives.zip"])


def figure(ranks: int = 2, device: str = "H100", **stated: object) -> PublishedBusbw:
    given = {"nodes": 1, "collectives": ["all-reduce"], "busbw_gb_s": 400, "source": "a page", "title": "t", "key": "k"}
    return PublishedBusbw.model_validate({**given, "ranks": ranks, "device": device, **stated})


def test_the_largest_message_of_a_collective_is_compared(two_h100s: list[Bundle]):
    (beside,) = busbw_beside(two_h100s, [figure()])
    assert beside.measured.line.bytes == 1 << 30 > LARGE
    assert beside.measured.line.collective is Collective.all_reduce
    assert beside.differs == ""
    (row,) = busbw_table([beside]).rows
    assert "H100" in row


def test_figures_of_as_many_devices_come_before_others(two_h100s: list[Bundle]):
    figures = [figure(8), figure()]
    assert [each.published.ranks for each in busbw_beside(two_h100s, figures)] == [2]
    (other,) = busbw_beside(two_h100s, figures[:1])
    assert "8" in other.differs


@pytest.mark.parametrize("other", [figure(device="H200"), figure(collectives=[])], ids=["device", "collective"])
def test_another_device_or_collective_is_not_compared(other: PublishedBusbw, two_h100s: list[Bundle]):
    assert busbw_beside(two_h100s, [other]) == ()


def test_messages_below_the_limit_are_not_compared(two_h100s: list[Bundle], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("scalecurve_corpus.busbw.LARGE", (1 << 30) + 1)
    assert busbw_beside(two_h100s, [figure()]) == ()


def test_every_shipped_figure_has_an_address_and_a_date():
    for each in read_published_busbw():
        assert each.source.startswith("https://github.com/NVIDIA/")
        assert "20" in each.note
        assert each.busbw_gb_s < 2000
