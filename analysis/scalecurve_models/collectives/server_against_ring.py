"""A parameter server against the ring over the number of processes, as courses compare them.

The server is one of P processes: it receives the vectors of the P-1 others and sends each the sum, 2N(P-1) of N
parameters. A process of the ring sends 2N(P-1)/P (P. Patarasuk, X. Yuan, JPDC 69, 2009).
"""

from collections.abc import Sequence

from scalecurve.render import formatting
from scalecurve.reporting.drawing import Drawing, Sheet, axis, first, style
from scalecurve_models.collectives.costs import ALGORITHMS, LinkCost, RankGroup, cost, server_seconds
from scalecurve_models.fitting.least_squares import FitError

MOST_SIZES, MS = 4, 1e3
SERVER, RING = "parameter server, one of P processes: 2(P-1)(α + Sβ)", "ring of P processes: 2(P-1)α + 2(P-1)/P·Sβ"
_CAPTION = (
    "Time of the busiest process, for S bytes, α seconds per message and β seconds per byte. A server receives P-1 "
    "vectors and sends P-1, one after the other; a process of the ring sends 2(P-1)/P, which hardly grows."
)


def ring_seconds(processes: int, size: float, link: LinkCost) -> float:
    """The same of a ring; nothing is reduced at a cost."""
    return cost(ALGORITHMS["ring"], RankGroup(processes), size, link)


def server_against_ring(processes: Sequence[int], sizes: Sequence[int], link: LinkCost) -> Drawing:
    """A panel for each size; marks at the numbers of processes.

    Raises FitError for numbers below 2, where nothing is exchanged.
    """
    counts = sorted({n for n in processes if n > 1})
    if not counts:
        raise FitError("--plot: expected a number of processes of at least 2")
    shown, left_out = first(sizes, MOST_SIZES, "sizes")
    sheet = Sheet(len(shown), [SERVER, RING], width=5.2)
    for panel, size in zip(sheet.panels, shown, strict=True):
        top = 0.0
        for index, (label, seconds) in enumerate(((SERVER, server_seconds), (RING, ring_seconds))):
            look = style(index)
            grid = range(2, counts[-1] + 1) if counts[-1] <= 1000 else counts
            panel.plot(grid, [seconds(n, size, link) * MS for n in grid], color=look.color, linestyle=look.line)
            times = [seconds(n, size, link) * MS for n in counts]
            (sheet.handles[label],) = panel.plot(
                counts, times, color=look.color, marker=look.marker, linestyle="none", label=label
            )
            top = max(top, *times)
        axis.linear_axis(panel, "y", 0, top * 1.06, axis.short)
        axis.linear_axis(panel, "x", 0, counts[-1] * 1.05)
        axis.fixed_ticks(panel, "x", axis.thinned(counts), [str(n) for n in axis.thinned(counts)])
        panel.set_title(f"All-reduce of {formatting.size(size)}", loc="left")
        panel.set_xlabel("Processes P")
        panel.set_ylabel("Time (ms)")
    return sheet.drawing("Parameter server against ring", _CAPTION + left_out)
