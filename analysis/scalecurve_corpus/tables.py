"""The corpus in tables: standings, MFU and bus bandwidth beside what they are compared with, sources, and points."""

from collections.abc import Callable, Sequence
from itertools import groupby
from statistics import median

from scalecurve.render import formatting
from scalecurve.render.table import Cell, Column, Table, table_of
from scalecurve_corpus.acceptance import BELOW, ErrorRates
from scalecurve_corpus.busbw import BusbwBeside
from scalecurve_corpus.comparable import Comparable
from scalecurve_corpus.refused_systems import RefusedSystems
from scalecurve_corpus.schema import Corpus, PublishedPoint, PublishedSource
from scalecurve_corpus.standing import LEAST_POINTS, LEAST_SUBMITTERS, PublishedStanding
from scalecurve_corpus.utilization import UtilizationStanding

_COMPARED = (
    "Comparable: the same device and model, as many devices or part of one node, a batch per device within a factor of "
    "two, no other precision stated. Rates are per device; a system's is the median of its runs."
)
_FEW = (
    f"Fewer than {LEAST_POINTS} comparable systems of {LEAST_SUBMITTERS} submitters are no yardstick, so none is "
    "called normal or not. `corpus add` makes one of your own machines."
)
_READING = (
    "Submitters tune these systems for a race, in software of their own: less than 100 % of their median is usual, and "
    "no fault of a machine by itself. Percentile: the share of such systems that are slower, with its 95 % interval."
)
_UTILIZATION = (
    "Comparable: the same device, parameters and sequence length within a factor of two, no other precision stated, on "
    "any number of devices. MFU as each page defines it: FLOPs of forward and backward pass with attention, without "
    "those that recompute activations, over the peak of the device."
)
_BUSBW = (
    "The largest message of each collective, from 256 MiB on, beside figures of nccl-tests on the same device. Single "
    "figures of users and of NCCL's maintainer: an order of magnitude for what is normal, not a percentile. NVLS "
    "(NVLink SHARP) reduces in the switch, so its busbw may exceed the link's rate."
)

_OWN: tuple[tuple[Column, Callable[[PublishedStanding | UtilizationStanding], Cell]], ...] = (
    (Column("experiment", "Experiment", detail=True), lambda s: s.own.bundle),
    (Column("series", "Series"), lambda s: s.own.series),
    (Column("workers", "Workers", "count"), lambda s: s.own.workers),
    (Column("device", "Device"), lambda s: s.own.device),
)
"""Which measured point a row is about."""


def standing_table(standings: Sequence[PublishedStanding], sources: Sequence[PublishedSource]) -> Table:
    """Show where each point stands.

    Args:
        standings: One for each point.
        sources: Those of the corpus.

    Returns:
        A row for each point; one that is not judged says why.
    """
    used = {each.point.source for standing in standings for each in standing.others}
    return table_of(
        "standing",
        "Beside published systems",
        standings,
        (
            *_OWN,
            (Column("per_device", "Per device", "number", interval=True), lambda s: s.rate),
            (Column("unit", "Unit"), lambda s: s.unit),
            (Column("median", "Published median", "number"), lambda s: s.median),
            (Column("share", "Of the median", "percent", interval=True), lambda s: s.share),
            (Column("systems", "Systems", "count"), lambda s: len(s.others)),
            (Column("submitters", "Submitters", "count"), lambda s: len(s.submitters)),
            (Column("slower", "Slower", "count"), lambda s: None if s.refused else s.slower),
            (Column("percentile", "Percentile", "percent", interval=True), lambda s: s.percentile),
            (Column("another", "Another system (95 %)"), _another),
            (Column("verdict", "Not judged"), lambda s: s.refused or None),
        ),
        [_COMPARED, _READING, *(_citation(source) for source in sources if source.name in used)]
        if any(not s.refused for s in standings)
        else [_COMPARED],
    )


def comparable_table(standings: Sequence[PublishedStanding]) -> Table:
    """Show the published systems behind the standings, each once.

    Args:
        standings: One for each point.

    Returns:
        A row for each system with its rate per device, fastest first, and what differs from one's own.
    """
    found: dict[tuple[str, ...], Comparable] = {}
    for standing in standings:
        for each in standing.others:
            point = each.point
            found.setdefault((point.source, point.submitter, point.system, point.benchmark), each)
    rows = sorted(found.values(), key=lambda each: -each.per_device)
    return table_of(
        "comparable",
        "Published systems beside it",
        rows,
        (
            (Column("submitter", "Submitter"), lambda c: c.point.submitter),
            (Column("system", "System"), lambda c: c.point.system),
            (Column("workers", "Devices", "count"), lambda c: c.point.workers),
            (Column("per_device", "Per device", "number"), lambda c: c.per_device),
            (Column("unit", "Unit"), lambda c: c.point.unit),
            (Column("runs", "Runs", "count"), lambda c: len(c.point.rates)),
            (Column("differs", "Differs in"), lambda c: "; ".join(c.differs) or None),
            (Column("software", "Software"), lambda c: _short(c.point.software)),
            (Column("interconnect", "Interconnect"), lambda c: _short(c.point.interconnect)),
            (Column("source", "Source"), lambda c: c.point.source),
        ),
    )


def nearest_table(standings: Sequence[PublishedStanding]) -> Table:
    """Show the points that are not judged beside the published ones that come nearest.

    Args:
        standings: One for each point.

    Returns:
        A row for each point and published system, with all that differs.
    """
    rows = [(standing, each) for standing in standings if standing.refused for each in standing.near]
    return table_of(
        "nearest",
        "Not judged: the nearest published systems, and what differs",
        rows,
        (
            (Column("experiment", "Experiment", detail=True), lambda row: row[0].own.bundle),
            (Column("series", "Series"), lambda row: row[0].own.series),
            (Column("workers", "Workers", "count"), lambda row: row[0].own.workers),
            (Column("own", "Per device", "number", interval=True), lambda row: row[0].rate),
            (Column("unit", "Unit"), lambda row: row[0].unit),
            (Column("per_device", "Theirs", "number"), lambda row: row[1].per_device),
            (Column("submitter", "Submitter"), lambda row: row[1].point.submitter),
            (Column("system", "System"), lambda row: row[1].point.system),
            (Column("model", "Model"), lambda row: row[1].point.benchmark),
            (Column("devices", "Devices"), lambda row: f"{row[1].point.workers} {row[1].point.device}"),
            (Column("differs", "Differs in"), lambda row: "; ".join(row[1].differs) or None),
            (Column("source", "Source"), lambda row: row[1].point.source),
            (Column("why", "Not judged because", detail=True), lambda row: row[0].refused),
        ),
        [_FEW] if rows else (),
    )


def sources_table(corpus: Corpus) -> Table:
    """Show where a corpus comes from.

    Args:
        corpus: Published points.

    Returns:
        A row for each source, with its points, how many have a proved unit, and its license.
    """
    points = {name: list(each) for name, each in groupby(corpus.points, key=lambda point: point.source)}
    return table_of(
        "sources",
        "Sources of the corpus",
        corpus.sources,
        (
            (Column("source", "Source"), lambda s: s.name),
            (Column("title", "Title"), lambda s: s.title),
            (Column("points", "Points", "count"), lambda s: len(points.get(s.name, ()))),
            (Column("proved", "Unit proved", "count"), lambda s: sum(bool(p.unit) for p in points.get(s.name, ()))),
            (Column("runs", "Runs", "count"), lambda s: sum(len(p.runs) for p in points.get(s.name, ()))),
            (Column("license", "License"), lambda s: s.license),
            (Column("retrieved", "As of"), lambda s: s.retrieved),
            (Column("url", "Where"), lambda s: s.url),
        ),
    )


def points_table(points: Sequence[PublishedPoint]) -> Table:
    """Show published points.

    Args:
        points: In the order of their rows.

    Returns:
        A row for each, with its rate per device, or why it has none.
    """
    return table_of(
        "published",
        "Published points",
        points,
        (
            (Column("benchmark", "Model"), lambda p: p.benchmark),
            (Column("device", "Device"), lambda p: p.device),
            (Column("workers", "Devices", "count"), lambda p: p.workers),
            (Column("nodes", "Nodes", "count"), lambda p: p.nodes),
            (Column("submitter", "Submitter"), lambda p: p.submitter),
            (Column("system", "System"), lambda p: p.system),
            (Column("global_batch", "Batch", "count"), lambda p: p.global_batch),
            (
                Column("per_device", "Per device", "number"),
                lambda p: median(p.rates) / p.workers if p.unit and p.rates else None,
            ),
            (Column("unit", "Unit"), lambda p: p.unit),
            (Column("runs", "Runs", "count"), lambda p: len(p.runs)),
            (Column("farthest", "Farthest run", "percent"), lambda p: p.farthest),
            (Column("mfu", "MFU", "percent"), lambda p: p.mfu),
            (Column("minutes", "Minutes to target", "number"), lambda p: p.minutes_to_target),
            (Column("source", "Source"), lambda p: p.source),
            (Column("reason", "No rate because"), lambda p: p.reason or None),
        ),
    )


def power_table(rates: Sequence[ErrorRates], refused: Sequence[RefusedSystems] = ()) -> Table:
    """Show the error rates of an acceptance test.

    Args:
        rates: One for each number of repetitions.
        refused: How many published systems would be refused.

    Returns:
        A row for each: false alarms, and how often a machine that is slower is refused.
    """
    columns = [(Column(f"below_{d:g}", f"{100 * d:g} % slower", "percent"), at) for at, d in enumerate(BELOW)]
    return table_of(
        "power",
        "Refused by an acceptance test",
        rates,
        (
            (Column("repetitions", "Repetitions", "count"), lambda r: r.repetitions),
            (Column("false_alarms", "At the threshold", "percent"), lambda r: r.false_alarms),
            *((column, lambda r, at=at: r.power[at]) for column, at in columns),
            (Column("draws", "Draws", "count"), lambda r: r.draws),
        ),
        [
            "A machine is refused where the upper end of its one-sided 95 % interval is below the threshold: 5 % at it "
            "are promised. Counted on the repetitions of published systems against the others of the same system, "
            "every system alike; repetitions are fixed beforehand, and all in one session.",
            *(f"{each.sentence}." for each in refused),
        ],
    )


def utilization_table(standings: Sequence[UtilizationStanding]) -> Table:
    """Show each MFU beside the published ones.

    Args:
        standings: One for each point.

    Returns:
        A row for each, with the lowest, median and highest published MFU, and why it is not judged.
    """
    return table_of(
        "utilization",
        "MFU beside published models of about this size",
        standings,
        (
            *_OWN,
            (Column("mfu", "MFU", "percent", interval=True), lambda s: s.mfu),
            (Column("lowest", "Published, lowest", "percent"), lambda s: s.shares[0]),
            (Column("median", "Median", "percent"), lambda s: median(s.shares)),
            (Column("highest", "Highest", "percent"), lambda s: s.shares[-1]),
            (Column("figures", "Figures", "count"), lambda s: len(s.others)),
            (Column("devices", "On devices"), lambda s: s.sizes),
            (Column("models", "Models"), lambda s: ", ".join(sorted({each.benchmark for each in s.others}))),
            (Column("sources", "Source"), lambda s: ", ".join(sorted({each.source for each in s.others}))),
            (Column("verdict", "Not judged"), lambda s: s.refused or None),
        ),
        [_UTILIZATION] if standings else [],
    )


def busbw_table(beside: Sequence[BusbwBeside]) -> Table:
    """Show each measured bus bandwidth beside the published ones.

    Args:
        beside: Pairs of a measured and a published figure.

    Returns:
        A row for each pair, with the source.
    """
    return table_of(
        "busbw",
        "Bus bandwidth beside published figures",
        beside,
        (
            (Column("experiment", "Experiment", detail=True), lambda b: b.measured.bundle),
            (Column("collective", "Collective"), lambda b: b.measured.line.collective.value),
            (Column("tool", "Tool"), lambda b: b.measured.line.tool),
            (Column("workers", "Workers", "count"), lambda b: b.measured.point.workers),
            (Column("device", "Device"), lambda b: b.device),
            (Column("size", "Size"), lambda b: formatting.size(b.measured.line.bytes)),
            (Column("busbw_gb_s", "busbw", "number", "GB/s", interval=True), lambda b: b.measured.busbw),
            (Column("published", "Published"), lambda b: b.published.title),
            (Column("published_gb_s", "Their busbw", "number", "GB/s"), lambda b: b.published.busbw_gb_s),
            (Column("share", "Of theirs", "percent"), lambda b: b.measured.busbw.value / b.published.busbw_gb_s),
            (Column("differs", "Differs in"), lambda b: b.differs or None),
            (Column("note", "How"), lambda b: b.published.note),
            (Column("source", "Source"), lambda b: b.published.source),
        ),
        [_BUSBW],
    )


def _another(standing: PublishedStanding) -> str | None:
    """Where a further system of the kind is expected."""
    if standing.another is None:
        return None
    return "–".join(formatting.number(end) for end in standing.another.ends)


def _citation(source: PublishedSource) -> str:
    return f"{source.title} ({source.license}, {source.retrieved}): {source.url}"


def _short(text: str, most: int = 60) -> str:
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}…"
