"""Write a report: a self-contained HTML page, Markdown, JSON, CSV tables and plots. The same bundle, the same bytes."""

import os
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Literal, get_args

from scalecurve.bundle.open import Bundle, distinct_labels
from scalecurve_api.files import write_atomic
from scalecurve_api.spec.experiment import Cost

Format = Literal["html", "md", "json", "csv", "png", "svg"]
FORMATS: tuple[Format, ...] = get_args(Format)


def report(
    bundles: Sequence[Bundle],
    out: str | os.PathLike[str],
    formats: Collection[str] = FORMATS,
    price: Cost | None = None,
    price_notes: Sequence[str] = (),
) -> list[Path]:
    """Analyse the bundles and write what is asked for into ``out``; the paths written, in order.

    ``report.html`` stands alone, ``report.md`` and ``report.json`` beside it; tables go to ``tables/<name>.csv``,
    plots to ``plots/<name>.png`` and ``.svg``. A plot or table with nothing to show is left out. ``price`` takes the
    place of what the experiments say, and ``price_notes`` say where it is from.

    Raises:
        ValueError: for a format that is none of ``FORMATS``, or no bundle.
        OSError: when a file cannot be written.
    """
    unknown = sorted(set(formats) - set(FORMATS))
    if unknown:
        raise ValueError(f"unknown formats: {', '.join(unknown)}; allowed: {', '.join(FORMATS)}")
    if not bundles:
        raise ValueError("a report needs at least one bundle")
    from scalecurve.reporting.compose import compose
    from scalecurve.reporting.findings import analyze

    content = compose(
        analyze(distinct_labels(bundles), price, price_notes),
        draw=bool({"html", "png", "svg"} & set(formats)),
        png="png" in formats,
    )
    written: list[Path] = []
    root = Path(out)
    if "html" in formats:
        from scalecurve.reporting.html import page

        written.append(_write(root / "report.html", page(content)))
    if "md" in formats:
        from scalecurve.reporting.markdown import document

        written.append(_write(root / "report.md", document(content, "png" if "png" in formats else "svg")))
    if "json" in formats:
        from scalecurve.reporting.json_document import tree

        written.append(_write(root / "report.json", tree(content)))
    if "csv" in formats:
        written += [_write(root / "tables" / f"{table.name}.csv", table.csv()) for table in content.tables]
    for plot in content.plots:
        if "svg" in formats:
            written.append(_write(root / "plots" / f"{plot.name}.svg", plot.svg))
        if plot.png is not None:
            written.append(_write(root / "plots" / f"{plot.name}.png", plot.png))
    return written


def _write(path: Path, data: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, data)
    return path
