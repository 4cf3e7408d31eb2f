"""How many examples a slow check draws: a part of them in the gate, all of them in the profile `nightly`."""

from hypothesis import settings

_NIGHTLY = 1000


def examples(gate: int, nightly: int) -> int:
    """Choose by the profile that `tests/conftest.py` has loaded."""
    return nightly if settings.default is not None and settings.default.max_examples >= _NIGHTLY else gate
