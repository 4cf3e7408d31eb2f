"""A plugin of pytest that runs what it collected several times over, and begins no test once its time is used up.

pytest -p tools.rounds --rounds 2 --rounds-within 120 tests/local/test_ddp.py
"""

from __future__ import annotations

import time

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the number of rounds and the seconds for all of them."""
    group = parser.getgroup("rounds")
    group.addoption("--rounds", type=int, default=1, help="how many times every test runs")
    group.addoption("--rounds-within", type=float, default=float("inf"), help="seconds after which no test begins")


def pytest_configure(config: pytest.Config) -> None:
    """Start the clock."""
    config.pluginmanager.register(_Rounds(config.option.rounds, config.option.rounds_within))


class _Rounds:
    def __init__(self, rounds: int, within_s: float) -> None:
        self.rounds = rounds
        self.ends_at = time.monotonic() + within_s
        self.within_s = within_s
        self.not_run = 0

    @pytest.hookimpl(trylast=True)  # after pytest's own, which drops an item that stands twice
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items *= self.rounds

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self) -> bool | None:
        if time.monotonic() < self.ends_at:
            return None
        self.not_run += 1
        return True

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self.not_run:
            terminalreporter.line(f"{self.not_run} runs had no time left: {self.within_s:.0f} s are used up")
