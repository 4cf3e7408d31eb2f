"""One's own curves among published systems: rate per device, and MFU, over the number of devices."""

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from matplotlib.axes import Axes

from scalecurve.render import formatting
from scalecurve.render.labels import shortened
from scalecurve.reporting.drawing import Drawing, Sheet, axis, first, style, theme
from scalecurve.reporting.findings import Analysis
from scalecurve.reporting.registry import plot
from scalecurve_corpus.report.sections import comparable_standings, shipped, utilizations
from scalecurve_corpus.schema import PublishedPoint
from scalecurve_corpus.standing import PublishedStanding
from scalecurve_corpus.utilization import UtilizationStanding

MOST_PANELS = 4
_CAPTION = (
    "Filled marks are this report's points. Rings are published systems of the same device and model, dark where they "
    "are comparable and pale where only the number of devices or the batch rules that out. Lines join one series."
)
_COMPARABLE, _OTHERS = "published, comparable", "published, other count or batch"
_PUBLISHED = "published"
_MFU_CAPTION = (
    "Filled marks are this report's points. Rings are published figures of language models on the same device, with "
    "parameters and sequence length within a factor of two. Lines join one series."
)


@plot("among-published", section="among-published", order=10)
def rate_among_published(analysis: Analysis) -> Drawing | None:
    """Draw a panel for each device and model with a comparable point."""
    kinds: dict[tuple[str, str, str], list[PublishedStanding]] = {}
    for standing in analysis.once(comparable_standings):
        kinds.setdefault((standing.own.model, standing.own.device, standing.unit), []).append(standing)
    if not kinds:
        return None
    shown, more = first(list(kinds.items()), MOST_PANELS, "panels")
    names = list(dict.fromkeys(each.own.series for _, standings in shown for each in standings))
    short, _ = shortened(names)
    sheet = Sheet(len(shown), [_COMPARABLE, _OTHERS, *(short[name] for name in names)])
    for panel, ((_, _, unit), standings) in zip(sheet.panels, shown, strict=True):
        _draw(sheet, panel, standings, short)
        panel.set_xlabel("Devices")
        panel.set_ylabel(f"Per device ({unit})")
    sheet.name_panels([f"{model} on {device}" for (model, device, _), _ in shown])
    return sheet.drawing("Among published systems", _CAPTION + more)


def _draw(sheet: Sheet, panel: Axes, standings: Sequence[PublishedStanding], short: Mapping[str, str]) -> None:
    beside = {id(each.point): each.point for standing in standings for each in standing.others}
    others = [point for point in _alike(next(iter(beside.values()))) if id(point) not in beside]
    values = []
    kinds = ((others, _OTHERS, 0.35, 18), (list(beside.values()), _COMPARABLE, 1.0, 26))
    for points, label, opacity, size in kinds:
        places = [(point.workers, median(point.rates) / point.workers) for point in points]
        values += places
        look: dict[str, Any] = {
            "s": size,
            "facecolors": "none",
            "edgecolors": theme.INK,
            "alpha": opacity,
            "linewidths": 1.0,
        }
        if places:
            sheet.handles[label] = panel.scatter(*_columns(places), **look, zorder=2, label=label)
    for point in beside.values():
        rate = median(point.rates) / point.workers
        sheet.tip(panel, point.workers, rate, f"{point.submitter}, {point.system}: {rate:,.0f}")
    series: dict[tuple[str, str], list[PublishedStanding]] = {}
    for standing in standings:
        series.setdefault((standing.own.bundle, standing.own.series), []).append(standing)
    for (_, name), own in series.items():
        places = [(standing.own.workers, standing.rate.value) for standing in own]
        values += places
        (sheet.handles[short[name]],) = panel.plot(
            *_columns(places), **style(list(short).index(name)).curve, zorder=3, label=short[name]
        )
        for standing in own:
            sheet.tip(panel, standing.own.workers, standing.rate.value, f"{name}: {standing.sentence}")
    counts = [count for count, _ in values]
    axis.log_axis(panel, "x", min(counts), max(counts), axis.short)
    axis.linear_axis(panel, "y", 0, max(rate for _, rate in values) * 1.1, axis.short)


def _alike(point: PublishedPoint) -> list[PublishedPoint]:
    """Published points of the same source name for the model, device and unit."""
    kind = (point.benchmark, point.device, point.unit)
    return [p for p in shipped().points if p.rates and (p.benchmark, p.device, p.unit) == kind]


def _columns(places: Sequence[tuple[int, float]]) -> tuple[list[int], list[float]]:
    return [count for count, _ in places], [rate for _, rate in places]


@plot("mfu-among-published", section="among-published", order=20)
def mfu_among_published(analysis: Analysis) -> Drawing | None:
    """Draw a panel for each device and model with an MFU and enough published ones beside it."""
    kinds: dict[tuple[str, str], list[UtilizationStanding]] = {}
    for standing in analysis.once(utilizations):
        kinds.setdefault((standing.own.model, standing.own.device), []).append(standing)
    if not kinds:
        return None
    shown, more = first(list(kinds.items()), MOST_PANELS, "panels")
    names = list(dict.fromkeys(each.own.series for _, standings in shown for each in standings))
    short, _ = shortened(names)
    sheet = Sheet(len(shown), [_PUBLISHED, *dict.fromkeys(short[name] for name in names)])
    for panel, (_, standings) in zip(sheet.panels, shown, strict=True):
        _draw_mfu(sheet, panel, standings, short)
        panel.set_xlabel("Devices")
        panel.set_ylabel("MFU (%)")
    sheet.name_panels([f"{model} on {device}" for (model, device), _ in shown])
    return sheet.drawing("MFU among published models", _MFU_CAPTION + more)


def _draw_mfu(sheet: Sheet, panel: Axes, standings: Sequence[UtilizationStanding], short: Mapping[str, str]) -> None:
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
