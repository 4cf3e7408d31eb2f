"""MFU over the number of devices: one's own points among published models of about their size."""

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes

from scalecurve.corpus.utilization import UtilizationStanding
from scalecurve.render import formatting
from scalecurve.render.labels import shortened
from scalecurve.reporting.among_published import utilizations
from scalecurve.reporting.drawing import Drawing, Sheet, axis, first, style, theme
from scalecurve.reporting.findings import Findings
from scalecurve.reporting.plots.among_published import MOST_PANELS
from scalecurve.reporting.registry import plot

_PUBLISHED = "published"
_CAPTION = (
    "Filled marks are this report's points. Rings are published figures of language models on the same device, with "
    "parameters and sequence length within a factor of two. Lines join one series."
)


@plot("mfu-among-published", section="among-published", order=20)
def mfu_among_published(findings: Findings) -> Drawing | None:
    """A panel for each device and model with an MFU and enough published ones beside it."""
    kinds: dict[tuple[str, str], list[UtilizationStanding]] = {}
    for standing in findings.once(utilizations):
        kinds.setdefault((standing.own.model, standing.own.device), []).append(standing)
    if not kinds:
        return None
    shown, more = first(list(kinds.items()), MOST_PANELS, "panels")
    names = list(dict.fromkeys(each.own.series for _, standings in shown for each in standings))
    short, _ = shortened(names)
    sheet = Sheet(len(shown), [_PUBLISHED, *dict.fromkeys(short[name] for name in names)])
    for panel, (_, standings) in zip(sheet.panels, shown, strict=True):
        _draw(sheet, panel, standings, short)
        panel.set_xlabel("Devices")
        panel.set_ylabel("MFU (%)")
    sheet.name_panels([f"{model} on {device}" for (model, device), _ in shown])
    return sheet.drawing("MFU among published models", _CAPTION + more)


def _draw(sheet: Sheet, panel: Axes, standings: Sequence[UtilizationStanding], short: Mapping[str, str]) -> None:
    others = {id(each): each for standing in standings for each in standing.others}
    counts, shares = [], []
    for point in others.values():
        share = 100 * (point.mfu or 0.0)
        counts.append(point.workers)
        shares.append(share)
        sheet.tip(panel, point.workers, share, f"{point.benchmark}, {point.system}, {point.submitter}: {share:.1f} %")
    sheet.handles[_PUBLISHED] = panel.scatter(
        counts, shares, s=26, facecolors="none", edgecolors=theme.INK, linewidths=1.0, zorder=2, label=_PUBLISHED
    )
    series: dict[tuple[str, str], list[UtilizationStanding]] = {}
    for standing in standings:
        series.setdefault((standing.own.bundle, standing.own.series), []).append(standing)
    for index, ((_, name), own) in enumerate(series.items()):
        counts += [each.own.workers for each in own]
        shares += [100 * each.mfu.value for each in own]
        (line,) = panel.plot(
            [each.own.workers for each in own],
            [100 * each.mfu.value for each in own],
            **style(index).curve,
            zorder=3,
            label=short[name],
        )
        sheet.handles[short[name]] = line
        for each in own:
            said = f"{name}: {formatting.percent(each.mfu.value)}"
            sheet.tip(panel, each.own.workers, 100 * each.mfu.value, said)
    axis.log_axis(panel, "x", min(counts), max(counts), axis.short)
    axis.linear_axis(panel, "y", 0, max(shares) * 1.1, axis.short)
