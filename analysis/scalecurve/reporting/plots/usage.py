"""How busy the devices were during the timed windows: GPUs by NVML, or the cores of ranks that ran without one."""

from collections.abc import Iterator, Sequence
from statistics import fmean

from matplotlib.axes import Axes

from scalecurve.bundle.measurement import MeasuredPoint
from scalecurve.curves.series_matching import identities
from scalecurve.render import formatting
from scalecurve.reporting.drawing import Drawing, Sheet, axis, first, level_line, style
from scalecurve.reporting.findings import Analysis
from scalecurve.reporting.registry import plot
from scalecurve_api.record.trial_record import TrialRecord
from scalecurve_api.text import count

_GPU = (
    "Share of the time in which a kernel was running, by NVML about once a second during the timed windows: the mean "
    "of all ranks and repetitions; thin lines reach from the least to the most busy rank. A busy GPU is not an "
    "efficient one; the model FLOPs utilization (MFU) tells that."
)
_CPU = (
    "Share of its own cores that each rank used during the timed windows, by the kernel's counters (no GPU was "
    "measured): the mean of all ranks and repetitions; thin lines reach from the least to the most busy rank."
)
_OVER_TIME = "{} Of the first repetition of each point; thin lines are ranks other than the first."
_GPU_TIME = "Share of the time in which a kernel was running, by NVML about once a second while windows were open."
_CPU_TIME = "Share of its own cores that each rank used, from the end of a timed window to that of one a second later."
MOST_LINES, MOST_PANELS = 8, 4
_TICKS_HOLD = 60
"""Characters of all ticks of the axis together; longer names are in the legend."""


@plot("usage", section="time", order=40)
def usage(analysis: Analysis) -> Drawing | None:
    """A line a series over its worker counts, or a mark each where there is one; None where neither was recorded."""
    on_gpus = any(
        share is not None for series in analysis.measured for p in series.points for r in p.timed for share in _gpus(r)
    )
    lines: dict[tuple[str, str], dict[int, list[float]]] = {}
    partial: list[MeasuredPoint] = []
    modes = {(series.bundle, series.name): series.mode.value for series in analysis.measured}
    for series in analysis.measured:
        for p in series.points:
            samples = [s for r in p.timed for s in (_gpus(r) if on_gpus else r.own_load)]
            shares = [s for s in samples if s is not None]
            if shares and len(shares) < len(samples):  # the table has none, either
                partial.append(p)
            elif shares:
                lines.setdefault((series.bundle, series.name), {}).setdefault(p.point.workers, []).extend(shares)
    identity = identities(analysis.curves.series)
    lines = {key: line for key, line in lines.items() if key in identity}
    if not lines:
        return None
    counts = sorted({workers for line in lines.values() for workers in line})
    named = {
        key: _label_series(identity[key].label, modes[key], len({modes[key] for key in lines}) > 1) for key in lines
    }
    alone = len(counts) == 1 and len(lines) > 1  # beside each other, not one above the other at one count
    of_one_axis = len({label.rpartition("=")[0] for label in named.values()}) == 1
    beside = alone and (of_one_axis or sum(map(len, named.values())) <= _TICKS_HOLD)
    labels = [] if beside else list(dict.fromkeys(named.values()))
    sheet = Sheet(labels=labels if len(labels) > 1 else [], width=5.4, height=3.2)
    (panel,) = sheet.panels
    if alone:
        _name_axis(panel, list(named.values()) if beside else [""] * len(named), counts[0])
    else:
        axis.workers_axis(panel, counts)
    for place, (key, line) in enumerate(lines.items()):
        look, label = style(place), named[key]
        means = {
            place if alone else axis.dodged(panel, workers, place, len(lines)): fmean(shares)
            for workers, shares in sorted(line.items())
        }
        (artist,) = panel.plot(list(means), list(means.values()), **look.curve, label=label)
        if sheet.labels:
            sheet.handles[label] = artist
        for (workers, shares), (x, value) in zip(sorted(line.items()), means.items(), strict=True):
            panel.vlines(x, min(shares), max(shares), color=look.color, linewidth=1, alpha=0.7)
            sheet.tip(panel, x, value, f"{label}, {count(workers, 'worker')}: {formatting.percent(value, 0)} busy")
    axis.linear_axis(panel, "y", 0, 1.06, axis.percent)
    level_line(panel, 1)
    panel.set_ylabel("GPU utilization" if on_gpus else "CPU utilization")
    omitted = f" Omitted: {count(len(partial), 'point')} with a rank or run that has no sample." if partial else ""
    return sheet.drawing("GPU usage" if on_gpus else "CPU usage", (_GPU if on_gpus else _CPU) + omitted)


@plot("usage-over-time", section="time", order=45)
def usage_over_time(analysis: Analysis) -> Drawing | None:
    """A panel a worker count, a line a series: its first repetition that was watched; None where none was."""
    identity = identities(analysis.curves.series)
    points = [(s, p) for s in analysis.measured for p in s.points if (s.bundle, s.name) in identity]
    watched = {
        (p.point.workers, s.bundle, s.name, s.mode.value): record
        for s, p in points
        for record in [next((record for record in p.timed if any(record.usage)), None)]
        if record is not None
    }
    if not watched:
        return None
    on_gpus = any(share is not None for record in watched.values() for share in _gpus(record))
    modes = {mode for *_, mode in watched}
    series = dict.fromkeys((bundle, name, mode) for _, bundle, name, mode in watched)
    named = {key: _label_series(identity[key[:2]].label, key[2], len(modes) > 1) for key in series}
    shown, omitted = first(list(named), MOST_LINES, "series")
    counts = sorted({workers for workers, *_ in watched})[-MOST_PANELS:]
    sheet = Sheet(len(counts), [named[key] for key in shown] if len(shown) > 1 else [])
    for panel, workers in zip(sheet.panels, counts, strict=True):
        records = {key: watched[workers, *key] for key in shown if (workers, *key) in watched}
        axis.linear_axis(panel, "x", 0, max(map(_last_s, records.values()), default=1.0) * 1.02, axis.short)
        for place, (key, record) in enumerate(records.items()):
            label, look = named[key], style(shown.index(key))
            for rank, entries in enumerate(record.usage):
                times, shares = [0.0, *(e.until_s for e in entries)], [e.share for e in entries]
                (artist,) = panel.plot(
                    times,
                    [*shares[:1], *shares],
                    color=look.color,
                    linestyle=look.line,
                    drawstyle="steps-pre",
                    linewidth=1.6 if rank == 0 else 0.9,
                    alpha=1 if rank == 0 else 0.6,
                    label=label,
                )
                if rank == 0 and sheet.labels:
                    sheet.handles[label] = artist
            every = [entry.share for entries in record.usage for entry in entries]
            spoken = f"{label}, {count(workers, 'worker')}: {formatting.percent(fmean(every), 0)} busy"
            sheet.tip(panel, _last_s(record) * (place + 1) / (len(records) + 1), fmean(every), spoken)
        axis.linear_axis(panel, "y", 0, 1.06, axis.percent)
        level_line(panel, 1)
        panel.set_title(count(workers, "worker"), loc="left")
        panel.set_xlabel("Since the first window (s)")
    what = "GPU" if on_gpus else "CPU"
    sheet.panels[0].set_ylabel(f"{what} utilization")
    return sheet.drawing(f"{what} usage over time", _OVER_TIME.format(_GPU_TIME if on_gpus else _CPU_TIME) + omitted)


def _last_s(record: TrialRecord) -> float:
    return max(entry.until_s for entries in record.usage for entry in entries)


def _label_series(label: str, mode: str, several_modes: bool) -> str:
    """A series in a legend: strong and weak ones are different lines."""
    return ", ".join([*([mode] if several_modes else []), *([label] if label else [])]) or "measured"


def _name_axis(panel: Axes, labels: Sequence[str], workers: int) -> None:
    """A place for each series: by its value where all are of one axis, as ``batch.perWorker=32``."""
    names, values = zip(*((name, value) for name, _, value in (label.rpartition("=") for label in labels)), strict=True)
    one = len(set(names)) == 1
    axis.fixed_ticks(panel, "x", list(range(len(labels))), values if one else labels)
    axis.category_limits(panel, len(labels), least=2)
    panel.tick_params(axis="x", labelsize=7)
    panel.set_xlabel(f"{names[0] if one and names[0] else 'series'}, {count(workers, 'worker')}")


def _gpus(record: TrialRecord) -> Iterator[float | None]:
    for samples in record.device_samples:
        yield samples.utilization_mean if samples is not None else None
