"""What 1x1 convolutions save in an inception module: the naive module against the reduced one, for any sizes.

C. Szegedy et al., "Going deeper with convolutions", CVPR 2015, figure 2. Published counts depend on the filters. (A
lecture's slide gives 854M against 358M at 28x28; its listed reduced layers add up to 271M.)
"""

from dataclasses import dataclass
from typing import Any

from scalecurve_models.networks.counting import Convention, count
from scalecurve_models.networks.graph import Network, parse_layer
from scalecurve_models.networks.layer import NetworkError, Shape, spell


@dataclass(frozen=True)
class Filters:
    """Filters of a module: 1x1, 3x3 and 5x5; the 1x1 before the last two; the 1x1 after the pool.

    The defaults are a lecture's, over 32x32x256.
    """

    one: int = 128
    three: int = 192
    five: int = 96
    reduce_three: int = 64
    reduce_five: int = 64
    project: int = 64


@dataclass(frozen=True)
class InceptionAnalysis:
    """Both modules as networks."""

    naive: Network
    reduced: Network

    def flops(self, convention: Convention = "mac") -> tuple[int, int]:
        naive, reduced = (sum(e.work.flops(convention) for e in count(net)) for net in (self.naive, self.reduced))
        return naive, reduced

    def saving(self, convention: Convention = "mac") -> float:
        """The share of the naive module's work that the reduced one leaves out (below 0 when it does more)."""
        naive, reduced = self.flops(convention)
        return 1 - reduced / naive

    def outputs(self) -> tuple[Shape, Shape]:
        return self.naive.shapes["output"], self.reduced.shapes["output"]


def analyze_inception(shape: Shape, filters: Filters | None = None) -> InceptionAnalysis:
    """Both modules over an input (height, width, channels). Raises NetworkError for invalid sizes."""
    f = filters or Filters()
    for name, value in vars(f).items():
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise NetworkError(f"filters: {name} {value!r}: expected an integer of 1 or more")
    if len(shape) != 3:
        raise NetworkError(f"input {spell(shape)}: expected height x width x channels")
    one = _conv("1x1", "input", f.one, 1)
    naive = [one, _conv("3x3", "input", f.three, 3), _conv("5x5", "input", f.five, 5), _POOL]
    reduced = [
        one,
        _conv("3x3_reduce", "input", f.reduce_three, 1),
        _conv("3x3", "3x3_reduce", f.three, 3),
        _conv("5x5_reduce", "input", f.reduce_five, 1),
        _conv("5x5", "5x5_reduce", f.five, 5),
        _POOL,
        _conv("pool_project", "pool", f.project, 1),
    ]
    return InceptionAnalysis(_module("naive", shape, naive, "pool"), _module("reduced", shape, reduced, "pool_project"))


_POOL: dict[str, Any] = {
    "name": "pool", "type": "maxpool", "parents": ["input"], "kernel": 3, "stride": 1, "padding": "same",
}  # fmt: skip


def _conv(name: str, parent: str, filters: int, kernel: int) -> dict[str, Any]:
    return {
        "name": name, "type": "conv", "parents": [parent], "filters": filters, "kernel": kernel,
        "padding": "same", "activation": "relu",
    }  # fmt: skip


def _module(name: str, shape: Shape, layers: list[dict[str, Any]], last: str) -> Network:
    source = {"name": "input", "type": "input", "shape": list(shape)}
    output = {"name": "output", "type": "concat", "parents": ["1x1", "3x3", "5x5", last]}
    return Network(name, tuple(map(parse_layer, (source, *layers, output))))
