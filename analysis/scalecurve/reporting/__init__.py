"""Write a report: a self-contained HTML page, Markdown, JSON, CSV tables and plots. The same bundle, the same bytes."""

import os
from collections.abc import Collection, Sequence
from functools import reduce
from operator import truediv
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args
from urllib.parse import quote

from scalecurve.bundle.open import Bundle, distinct_labels
from scalecurve.curves.stated import StatedCurve
from scalecurve_api.files import Within
from scalecurve_api.spec.experiment import Cost

if TYPE_CHECKING:
    from scalecurve.reporting.findings import PredictionTarget

Format = Literal["html", "md", "json", "csv", "png", "svg"]
FORMATS: tuple[Format, ...] = get_args(Format)


def report(
    bundles: Sequence[Bundle],
    out: str | os.PathLike[str],
    formats: Collection[str] = FORMATS,
    price: Cost | None = None,
    price_notes: Sequence[str] = (),
    published: Sequence[StatedCurve] = (),
    include_unproved: bool = False,
    target: "PredictionTarget | None" = None,
    x: str = "",
) -> list[Path]:
    """Write the report of the bundles; the same bundles give the same bytes.

    `report.html` stands alone, `report.md` and `report.json` beside it; tables go to `tables/<name>.csv`, plots to
    `plots/<name>.png` and `.svg`. A plot or table with nothing to show is not written.

    Args:
        bundles: What `open_bundles` returned.
        out: Folder to write into.
        formats: Which of `html`, `md`, `json`, `csv`, `png` and `svg`; all by default.
        price: Replaces the experiments' own prices.
        price_notes: Sentences on where `price` is from.
        published: Curves of others, to show beside the measured ones.
        include_unproved: Also take headlines, costs and models from points that do not count
            (`scalecurve.curves.doubts`); plots mark them anyway.
        target: A device and a link that a priori models predict for, beside the measurement.
        x: Axis of the first figure, by its name in `matrix`; the worker count by default, or what varies.

    Returns:
        The paths written, in order.

    Raises:
        ValueError: for a format that is none of `FORMATS`, no bundle, or an axis that does not vary.
        OSError: when a file cannot be written.
    """
    unknown = sorted(set(formats) - set(FORMATS))
    if unknown:
        raise ValueError(f"unknown formats: {', '.join(unknown)}; expected {', '.join(FORMATS)}")
    if not bundles:
        raise ValueError("a report needs at least one bundle")
    from scalecurve.reporting.compose import compose
    from scalecurve.reporting.findings import analyze, x_axes

    analysis = analyze(distinct_labels(bundles), price, price_notes, published, include_unproved, target, x)
    axes = x_axes(analysis)
    if x and x not in axes:
        raise ValueError(f"x: got {x!r}; expected {', '.join(axes) or 'nothing, since nothing varies'}")
    drawn, page_forms = bool({"html", "png", "svg"} & set(formats)), "html" in formats
    content = compose(analysis, draw=drawn, png="png" in formats, views=page_forms)
    written: list[Path] = []
    root = _output_root(Path(out), bundles)
    if "html" in formats:
        from scalecurve.reporting.html import page

        beside = {
            **{
                plot.name: [(s.upper(), f"plots/{plot.name}.{s}") for s in ("svg", "png") if s in formats]
                for plot in content.plots
            },
            **{table.name: [("CSV", f"tables/{table.name}.csv")] for table in content.tables if "csv" in formats},
        }
        beside["curve"] = [("CSV", f"tables/{name}.csv") for name in ("scaling",) if name in beside]
        written.append(_write(root / "report.html", page(content, _records(bundles, Path(out)), beside)))
    if "md" in formats:
        from scalecurve.reporting.markdown import document

        written.append(_write(root / "report.md", document(content, "png" if "png" in formats else "svg")))
    if "json" in formats:
        written.append(_write(root / "report.json", content.json()))
    if "csv" in formats:
        written += [_write(root / "tables" / f"{table.name}.csv", table.csv()) for table in content.tables]
    for plot in content.plots:
        if "svg" in formats:
            written.append(_write(root / "plots" / f"{plot.name}.svg", plot.svg))
        if plot.png is not None:
            written.append(_write(root / "plots" / f"{plot.name}.png", plot.png))
    return written


def _records(bundles: Sequence[Bundle], out: Path) -> dict[tuple[str, str], str]:
    """Where a page in ``out`` finds the records and logs of the bundle that holds it, or the packed file beside it.

    Elsewhere they may have moved apart.
    """
    from scalecurve.reporting.trials import logs_path, record_path

    links: dict[tuple[str, str], str] = {}
    for bundle in distinct_labels(bundles):
        paths = [path for trial in bundle.trials for path in (record_path(trial), logs_path(trial)) if path]
        if bundle.path.is_dir() and out.is_relative_to(bundle.path):
            links |= {(bundle.label, path): quote(os.path.relpath(bundle.path / path, out)) for path in paths}
        elif bundle.path.is_file() and out.parent == bundle.path.parent:
            links |= dict.fromkeys(((bundle.label, path) for path in paths), quote(f"../{bundle.path.name}"))
    return links


def _output_root(out: Path, bundles: Sequence[Bundle]) -> Within:
    """The folder that the user named may be a link; one inside a bundle, which may be somebody else's, may not."""
    for bundle in bundles:
        if bundle.path.is_dir() and out != bundle.path and out.is_relative_to(bundle.path):
            return reduce(truediv, out.relative_to(bundle.path).parts, Within(bundle.path))
    return Within(out)


def _write(place: Within, data: str | bytes) -> Path:
    place.parent.make()
    place.write(data.encode() if isinstance(data, str) else data)
    return place.path
