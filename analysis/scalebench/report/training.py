"""Accuracy over epochs and over training time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from scalebench.measurement import MeasuredSeries
from scalebench.report import axis, canvas
from scalebench.report.canvas import Plot
from scalebench_api.record.rank import Evaluation

MOST_CURVES = 12
Run = list[Evaluation]


def accuracy(series: Sequence[MeasuredSeries], png: bool) -> Iterator[Plot]:
    """Two panels; every repetition is a thin line, the first one of a point carries its marks."""
    several = len({(each.bundle, each.name) for each in series}) > 1
    bundles = len({each.bundle for each in series}) > 1
    curves: list[tuple[str, list[Run]]] = []
    targets: set[float] = set()
    for each in series:
        for p in each.points:
            runs = [record.evaluations for record in p.good if record.evaluations]
            if runs:
                workers = "1 worker" if p.point.workers == 1 else f"{p.point.workers} workers"
                name = f"{each.bundle}: {each.name}" if bundles else each.name
                curves.append((f"{name}, {workers}" if several else workers, runs))
                wanted = p.good[0].trial.measure.accuracy
                targets |= {wanted.target} if wanted and wanted.target else set()
    if not curves:
        return
    left_out = len(curves) - MOST_CURVES
    curves = curves[:MOST_CURVES]
    labels = [label for label, _ in curves]
    columns, rows = canvas.legend_shape(labels, canvas.figure_width(2, 2))
    figure, (by_epoch, by_time) = canvas.panels(2, 2, rows)
    handles = []
    for index, (label, runs) in enumerate(curves):
        look = canvas.style(index)
        for number, run in enumerate(runs):
            every = max(1, len(run) // 12)
            for axes, places in ((by_epoch, [e.epoch for e in run]), (by_time, [e.wall_s for e in run])):
                (line,) = axes.plot(
                    places,
                    [e.accuracy for e in run],
                    color=look.color,
                    linestyle=look.line,
                    linewidth=1.6 if number == 0 else 0.9,
                    alpha=1 if number == 0 else 0.45,
                    marker=look.marker if number == 0 else None,
                    markevery=every,
                    markersize=4,
                    label=label,
                )
            if number == 0:
                handles.append(line)
    everything = [e for _, runs in curves for run in runs for e in run]
    low, high = min(e.accuracy for e in everything), max(e.accuracy for e in everything)
    for axes in (by_epoch, by_time):
        for target in targets:
            axes.axhline(target, color=canvas.FAINT, linewidth=1, linestyle=(0, (4, 3)), zorder=1)
        air = max(0.02, (high - low) * 0.06)
        bounds = max(0.0, min(low, *targets, high) - air), max(high, *targets, low) + air
        axis.linear_axis(axes, "y", *bounds, lambda v: f"{v * 100:g} %")
    last = max(e.epoch for e in everything)
    by_epoch.set_xlim(0, last * 1.03)
    axis.fixed_ticks(by_epoch, "x", axis.whole_ticks(last), [f"{tick:,.0f}" for tick in axis.whole_ticks(last)])
    axis.linear_axis(by_time, "x", 0, max(e.wall_s for e in everything) * 1.03, axis.short)
    by_epoch.set_xlabel("Epoch")
    by_time.set_xlabel("Training time (s), evaluation left out")
    by_epoch.set_ylabel("Accuracy")
    canvas.legend(figure, handles, columns)
    caption = "On the held-out part of the data, after every epoch; repetitions are the thin lines."
    caption += " The level dashed line is the target." if targets else ""
    caption += f" The first {MOST_CURVES} points; {left_out} more are in the table." if left_out > 0 else ""
    yield canvas.finish(figure, "accuracy", "Accuracy", caption, png)
