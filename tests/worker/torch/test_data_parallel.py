"""DataParallel's kept threads, without GPUs: device -1 is none for torch."""

import threading

import pytest
import torch
from torch import nn

from scalecurve_worker.torch.strategies import KeptThreads


class Telling(nn.Module):
    """Tells what it sees in its forward pass, and fails where it is asked to."""

    def forward(self, name: str) -> tuple[str, int, bool, bool, torch.dtype]:
        if name == "broken":
            raise ValueError(f"no {name}")
        narrow, dtype = torch.is_autocast_enabled("cuda"), torch.get_autocast_dtype("cuda")
        return name, threading.get_ident(), torch.is_grad_enabled(), narrow, dtype


@pytest.fixture
def kept() -> KeptThreads:
    """As on two GPUs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nn.DataParallel, "__init__", _of_two)
        return KeptThreads(Telling())


def _of_two(self: nn.DataParallel, module: nn.Module) -> None:
    nn.Module.__init__(self)
    self.module, self.device_ids = module, [-1, -1]


def test_each_replica_has_its_own_thread_for_good(kept: KeptThreads) -> None:
    replicas = [kept.module, kept.module]
    first = kept.parallel_apply(replicas, [("a",), ("b",)], [{}, {}])
    again = kept.parallel_apply(replicas, [("c",), ("d",)], [{}, {}])
    assert [each[0] for each in [*first, *again]] == ["a", "b", "c", "d"]
    assert [each[1] for each in first] == [each[1] for each in again]
    assert len({each[1] for each in first} | {threading.get_ident()}) == 3


def test_a_replica_sees_the_callers_modes(kept: KeptThreads) -> None:
    plain = kept.parallel_apply([kept.module], [("a",)], [{}])
    assert plain[0][2:4] == (True, False)
    with torch.no_grad(), pytest.MonkeyPatch.context() as patch:
        # Autocast itself turns itself off where there is no GPU.
        patch.setattr(torch, "is_autocast_enabled", lambda _: True)
        patch.setattr(torch, "get_autocast_dtype", lambda _: torch.bfloat16)
        asked: list[tuple[object, object]] = []
        patch.setattr(torch, "autocast", lambda _, dtype, enabled: _noted(asked, dtype, enabled))
        found = kept.parallel_apply([kept.module], [("a",)], [{}])
    assert found[0][2] is False
    assert asked == [(torch.bfloat16, True)]


def _noted(asked: list[tuple[object, object]], dtype: object, enabled: object) -> torch.no_grad:
    asked.append((dtype, enabled))
    return torch.no_grad()


def test_an_error_of_one_is_raised_when_all_have_ended(kept: KeptThreads) -> None:
    with pytest.raises(ValueError, match="no broken"):
        kept.parallel_apply([kept.module, kept.module], [("broken",), ("b",)], [{}, {}])
    assert kept.parallel_apply([kept.module], [("a",)], [{}])[0][0] == "a"
