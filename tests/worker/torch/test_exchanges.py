"""What shows that ranks exchange after many steps only: local SGD, DiLoCo."""

from __future__ import annotations

from collections.abc import Callable

import pytest

torch = pytest.importorskip("torch")

from scalecurve_worker.torch import exchanges as module  # noqa: E402
from scalecurve_worker.torch.exchanges import Exchanges  # noqa: E402


@pytest.fixture
def train(monkeypatch: pytest.MonkeyPatch) -> Callable[[Exchanges, range, int], None]:
    """Trains a layer for the steps of a range, with a collective after every so many of them."""
    model = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    done = [0]
    monkeypatch.setattr(module, "collectives", lambda: done[0])

    def steps(exchanges: Exchanges, numbers: range, every: int) -> None:
        exchanges.begin(lambda: str(model.weight))
        for number in numbers:
            model(torch.ones(2, 3)).sum().backward()
            optimizer.step()
            done[0] += number % every == 0
        exchanges.end()
        optimizer.step()  # seen by nobody

    return steps


@pytest.mark.parametrize(
    ("every", "period", "silent"),
    [(1, None, 0), (4, 4, 3), (20, 20, 19), (30, None, 29), (100, None, None)],
)
def test_the_steps_between_exchanges(
    train: Callable[[Exchanges, range, int], None], every: int, period: int | None, silent: int | None
) -> None:
    exchanges = Exchanges()
    train(exchanges, range(1, 45), every)
    train(exchanges, range(61, 75), every)
    assert (exchanges.period, exchanges.silent_steps) == (period, silent)
    assert (exchanges.met is None) is (every in (1, 100)), (
        "the parameters after an exchange, where not all steps have one"
    )
