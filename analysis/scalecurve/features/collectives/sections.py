"""All-reduce and other collectives in a report."""

from collections.abc import Iterator, Mapping

from scalecurve.features.collectives.allreduce import AllReduceReport, allreduce
from scalecurve.features.collectives.collectives import OWN, CollectiveResult, CollectivesReport, collectives
from scalecurve.render import formatting
from scalecurve.reporting.contributions import Contribution, contribute
from scalecurve.reporting.findings import Analysis
from scalecurve.reporting.registry import Body, section
from scalecurve_api.text import count


def allreduce_of(analysis: Analysis) -> AllReduceReport:
    """Compute the all-reduces of a report; call it as ``analysis.once(allreduce_of)``."""
    return allreduce(analysis.bundles)


def collectives_of(analysis: Analysis) -> CollectivesReport:
    """Compute the collectives of a report; call it as ``analysis.once(collectives_of)``."""
    return collectives(analysis.bundles)


@section("allreduce", "All-reduce", order=120, question="bend")
def _allreduce(analysis: Analysis) -> Body:
    return Body((analysis.once(allreduce_of).table(),))


@section("collectives", "Collectives", order=125, question="bend")
def _collectives(analysis: Analysis) -> Body:
    report = analysis.once(collectives_of)
    return Body((report.table(),) if report.results else ())


class _Collectives(Contribution):
    def headlines(self, analysis: Analysis) -> Iterator[str]:
        several = len(analysis.bundles) > 1
        for point in analysis.once(allreduce_of).points:
            best = max(point.sizes, key=lambda size: size.busbw.median)
            where = f"{point.bundle}, " if several else ""
            yield (
                f"{where}all-reduce over {count(point.point.workers, 'worker')} ({point.point.layout}): "
                f"{formatting.number(best.busbw.median)} GB/s of bus bandwidth at {formatting.size(best.bytes)}"
            )
        yield from _highest(analysis, several)

    def methods(self, analysis: Analysis) -> Iterator[str]:
        if analysis.once(allreduce_of).points:
            yield (
                "All-reduce: algbw = bytes/time, busbw = algbw·2(n-1)/n, GB = 1e9 bytes, time of the slowest rank, "
                "results checked against the expected sum (the conventions of nccl-tests)."
            )
        if analysis.once(collectives_of).results:
            yield (
                "Collectives: algbw = bytes/time, busbw = algbw times 2(n-1)/n for all-reduce, (n-1)/n for "
                "all-gather, reduce-scatter and all-to-all, 1 for broadcast and send-recv (a ring); bytes are what a "
                "rank puts in or gets out, whichever is larger; time of the slowest rank, results checked "
                "(nccl-tests' conventions)."
            )

    def bandwidths(self, analysis: Analysis) -> Mapping[tuple[int, int], float]:
        return analysis.once(allreduce_of).highest()


contribute(_Collectives())


def _highest(analysis: Analysis, several: bool) -> Iterator[str]:
    """The highest bandwidth of each collective, a sentence for every point."""
    best: dict[tuple[str, str], dict[str, CollectiveResult]] = {}
    for each in analysis.once(collectives_of).results:
        if each.line.tool == OWN:
            kinds = best.setdefault((each.bundle, each.point.name), {})
            kind = each.line.collective.value
            if kind not in kinds or each.busbw.value > kinds[kind].busbw.value:
                kinds[kind] = each
    for (bundle, _), kinds in best.items():
        point = next(iter(kinds.values())).point
        where = f"{bundle}, " if several else ""
        rates = ", ".join(f"{kind} {formatting.number(each.busbw.value)} GB/s" for kind, each in kinds.items())
        yield f"{where}highest bus bandwidth over {count(point.workers, 'worker')} ({point.layout}): {rates}"
