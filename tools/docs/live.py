"""The live reports of the documentation site, written from packed bundles while the site is built.

`<!-- live: NAME -->` on a page shows one in a frame, with a link to it on a page of its own.
"""

from __future__ import annotations

import html
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scalecurve.reporting.findings import PredictionTarget

ROOT = Path(__file__).resolve().parents[2]
MARKER = re.compile(r"<!-- live: ([a-z0-9-]+) -->")


@dataclass(frozen=True)
class LiveReport:
    """A report on the site; ``device`` and ``link`` add what Paleo predicts, ``prices`` names a shipped price."""

    name: str
    title: str
    bundle: str
    device: str = ""
    link: str = ""
    prices: str = ""

    @property
    def path(self) -> str:
        return f"live/{self.name}.html"

    def page(self) -> str:
        """The report, one file of HTML."""
        from scalecurve.reporting.findings import PredictionTarget

        return report_page(self.bundle, self.prices, PredictionTarget(self.device, self.link) if self.device else None)


def report_page(bundle: str, prices: str = "", target: PredictionTarget | None = None) -> str:
    """The HTML of the report of a bundle in the repository, by a shipped price if one is named."""
    from scalecurve import open_bundles, report
    from scalecurve.hardware.prices import find_price

    price = find_price(prices) if prices else None
    cost, notes = (price.cost(), (price.sentence,)) if price else (None, ())
    with tempfile.TemporaryDirectory() as folder:
        (written,) = report(open_bundles([ROOT / bundle]), folder, ["html"], cost, notes, target=target)
        return written.read_text(encoding="utf-8")


REPORTS = (
    LiveReport(
        "resnet50-h200",
        "ResNet-50 on 1, 2 and 4 H200s",
        "docs/evidence/h200/resnet50.zip",
        prices="hyperstack_h200",
    ),
    LiveReport(
        "gpt2-batches-h100",
        "GPT-2 on one H100: batch, compile, checkpointing",
        "docs/evidence/gpu/llm-gpt2-small.zip",
        prices="hyperstack_h100",
    ),
    LiveReport("gpt2-h100", "GPT-2 under DDP and FSDP2 on two H100s", "docs/evidence/gpu/explain-gpt2.zip"),
    LiveReport("allreduce-h200", "An all-reduce over NCCL on H200s", "docs/evidence/h200/allreduce.zip"),
    LiveReport(
        "predicted-h200",
        "ResNet-50 on two H200s, predicted before and measured",
        "docs/evidence/h200/sessions.zip",
        device="H200",
        link="nvlink4",
    ),
    LiveReport(
        "forced-sockets",
        "An all-reduce forced to sockets, which does not count",
        "docs/evidence/gpu/forced-sockets.zip",
    ),
    LiveReport("among-published", "ResNet-50 on H100s, among published systems", "docs/evidence/gpu/sessions.zip"),
)


def expand_markers(markdown: str, to_root: str) -> str:
    """The page with a frame for every marker; ``to_root`` leads from the page's folder to the site's.

    Raises:
        KeyError: for a marker that names none of ``REPORTS``.
    """
    known = {each.name: each for each in REPORTS}

    def frame(match: re.Match[str]) -> str:
        each = known[match[1]]
        address, title = f"{to_root}{each.path}", html.escape(each.title, quote=True)
        return (
            f'<iframe src="{address}" title="{title}" loading="lazy" '
            'style="width: 100%; height: 44rem; border: 1px solid #8884; border-radius: 4px"></iframe>\n\n'
            f'<a href="{address}">{title}: the whole report on its own page</a>'
        )

    return MARKER.sub(frame, markdown)
