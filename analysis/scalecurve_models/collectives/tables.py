"""Fitted algorithms of collectives as tables: errors, latency and bandwidth, and predicted against measured times."""

from collections.abc import Sequence

from scalecurve.render import formatting
from scalecurve.render.table import Cell, Column, Table, columns_of
from scalecurve_api.features.collectives.kinds import Collective
from scalecurve_models.collectives.collective_fit import CrossValidatedCollective
from scalecurve_models.collectives.comparison import USUAL, CollectiveComparison
from scalecurve_models.collectives.costs import ALGORITHMS, LinkCost, RankGroup, cost, lower_bound, server_seconds
from scalecurve_models.fitting.parameter_tables import PARAMETER_COLUMNS, PARAMETER_NOTE, parameter_cells


def selected(compared: CollectiveComparison) -> CrossValidatedCollective:
    """The algorithm shown in the tables: the requested one, else the best, else the ring."""
    requested = compared.algorithm(compared.requested) if compared.requested else None
    return requested or compared.best or compared.algorithm(USUAL) or compared.algorithms[0]


def collective_tables(comparisons: Sequence[CollectiveComparison]) -> tuple[Table, ...]:
    """Three tables; none where no all-reduce was timed."""
    return (_models(comparisons), _parameters(comparisons), _prediction_table(comparisons)) if comparisons else ()


def cost_table(
    workers: Sequence[int],
    sizes: Sequence[int],
    within: LinkCost,
    between: LinkCost,
    *,
    gamma: float = 0.0,
    nodes: int = 1,
    servers: int = 1,
) -> Table:
    """Microseconds of every algorithm at every worker count and size, for known latencies and bandwidths.

    Raises FitError for ranks that cannot be spread over the nodes, or negative numbers.
    """
    columns = (
        Column("workers", "Workers", "count"),
        Column("size", "Size"),
        Column("bytes", "Bytes", "count", detail=True),
        Column("algorithm", "Algorithm"),
        Column("us", "Time", "number", "µs"),
        Column("bus_gb_s", "busbw", "number", "GB/s"),
        Column("equation", "Equation"),
    )
    notes = (_server_note(workers, sizes[0], between if nodes > 1 else within),)
    rows: list[tuple[Cell, ...]] = []
    for n in workers:
        shape = RankGroup(n, nodes, servers)
        for size in sizes:
            for algorithm in ALGORITHMS.values():
                seconds = cost(algorithm, shape, size, within, between, gamma)
                bus = size / seconds * 2 * (n - 1) / n / 1e9 if seconds else None
                rows.append((n, formatting.size(size), size, algorithm.name, seconds * 1e6, bus, algorithm.equation))
    return Table("collective", "All-reduce by algorithm", columns, tuple(rows), notes)


def _server_note(workers: Sequence[int], size: float, link: LinkCost) -> str:
    processes = max(2, min(workers))
    time = formatting.seconds(server_seconds(processes, size, link))
    return (
        "parameter-server: n workers beside a server of its own, which receives n vectors and then sends n: 2n. Where "
        f"the server is one of P processes, n = P - 1: 2(P-1)(α + Sβ), {time} at P = {processes}."
    )


def subject(comparisons: Sequence[CollectiveComparison]) -> str:
    """What a title calls the collectives of these series."""
    only_sums = all(compared.collective is Collective.all_reduce for compared in comparisons)
    return "All-reduce" if only_sums else "Collective"


def _models(comparisons: Sequence[CollectiveComparison]) -> Table:
    columns = (
        *columns_of("text", series="Series", algorithm="Algorithm"),
        Column("regimes", "Regimes", "count"),
        *columns_of("percent", error_small="Error below 1 MiB", error_large="Error from 1 MiB"),
        Column("error_workers", "Error, worker counts", "percent"),
        Column("best", "Best", "flag"),
        Column("equation", "Equation"),
    )
    rows: list[tuple[Cell, ...]] = [
        (
            *(compared.series, judged.fit.algorithm.name, len(judged.fit.regimes)),
            *(judged.small_error, judged.large_error, judged.ranks_error),
            *(judged is compared.best and not compared.note, judged.fit.algorithm.equation),
        )
        for compared in comparisons
        for judged in compared.algorithms
    ]
    notes = ["Errors are mean |predicted/measured - 1| of the time, at sizes and worker counts left out of the fit."]
    notes += [f"{compared.series}: {compared.note}." for compared in comparisons if compared.note]
    notes += [f"{compared.series}: {failure}" for compared in comparisons for failure in compared.failures]
    return Table("collectives", f"{subject(comparisons)} models", columns, tuple(rows), tuple(notes))


def _parameters(comparisons: Sequence[CollectiveComparison]) -> Table:
    columns = (
        *columns_of("text", series="Series", algorithm="Algorithm", up_to="Sizes up to"),
        Column("up_to_bytes", "Bytes", "number", detail=True),
        *PARAMETER_COLUMNS,
    )
    rows: list[tuple[Cell, ...]] = []
    for compared in comparisons:
        fit = selected(compared).fit
        for regime in fit.regimes:
            limit = "any" if regime.up_to is None else formatting.size(round(regime.up_to))
            head = (compared.series, fit.algorithm.name, limit, regime.up_to)
            latencies = ([regime.launch] if regime.launch else []) + list(regime.latencies)
            parameters = [*(latency.scaled(1e6, "µs") for latency in latencies), *regime.bandwidths]
            rows += [(*head, *parameter_cells(parameter)) for parameter in parameters]
    notes = (
        "γ, the cost of reducing, is part of the bandwidth: the bytes reduced are a fixed share of the bytes sent.",
        PARAMETER_NOTE,
    )
    return Table("collective_parameters", "Latency and bandwidth", columns, tuple(rows), notes)


def _prediction_table(comparisons: Sequence[CollectiveComparison]) -> Table:
    columns = (
        *columns_of("text", series="Series", algorithm="Algorithm"),
        Column("workers", "Workers", "count"),
        Column("size", "Size"),
        Column("bytes", "Bytes", "count", detail=True),
        *columns_of("number", "µs", measured_us="Measured", predicted_us="Predicted"),
        Column("error", "Error", "percent"),
        Column("bound_us", "Bound", "number", "µs"),
    )
    rows: list[tuple[Cell, ...]] = []
    for compared in comparisons:
        judged = selected(compared)
        bandwidth = judged.fit.regimes[-1].bandwidths[-1].value
        for left in judged.by_size:
            point = left.point
            rows.append(
                (
                    *(compared.series, judged.fit.algorithm.name, point.shape.ranks, formatting.size(point.bytes)),
                    *(point.bytes, point.seconds * 1e6, left.predicted * 1e6, left.error),
                    lower_bound(point.shape.ranks, point.bytes, bandwidth * 1e9, compared.collective) * 1e6
                    if bandwidth
                    else None,
                )
            )
    rows.sort(key=lambda row: (str(row[0]), row[2], row[4]))
    notes = (
        "Each size is predicted by a fit to the other sizes.",
        "Bound: 2(n-1)/n·S/B, the minimum for any all-reduce, at the bandwidth B fitted to the largest sizes; "
        "(n-1)/n·S/B for all-gather, reduce-scatter and all-to-all, S/B for broadcast and send-recv.",
    )
    title = f"{subject(comparisons)}: predicted vs. measured"
    return Table("collective_predicted", title, columns, tuple(rows), notes)
