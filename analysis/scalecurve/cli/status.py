"""``scalecurve status BUNDLE|EXPERIMENT...``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from scalecurve.cli.bundles import bundles_or_experiments_argument, open_all
from scalecurve.cli.cluster import cluster_errors, cluster_options
from scalecurve.cli.output import output_option, show
from scalecurve_kube.address import ClusterAddress

if TYPE_CHECKING:
    from scalecurve.cluster.experiments import Watched
    from scalecurve.curves.progress import ExperimentProgress
    from scalecurve.render.table import Table


@click.command("status")
@bundles_or_experiments_argument
@cluster_options
@output_option
def command(arguments: tuple[Path, ...], address: ClusterAddress, output: str) -> None:
    """Show the progress of bundles, or of experiments in a cluster: trials done, failed, invalid, efficiency so far.

    Existing paths are bundles; anything else is an experiment in the cluster.
    """
    from scalecurve.cluster.experiments import split
    from scalecurve.curves.progress import status

    folders, names = split(arguments)
    watched, states = _find_in_cluster(names, address)
    states = [*(status(bundle) for bundle in (open_all(folders) if folders else ())), *states]
    in_cluster = zip(watched, states[len(folders) :], strict=True)
    headlines = [state.headline for state in states[: len(folders)]]
    headlines += ["; ".join((experiment.headline, *state.warnings)) for experiment, state in in_cluster]
    if output == "table":
        click.echo("\n".join(headlines))
    extra: dict[str, Any] = {"headlines": headlines, "finished": all(state.finished for state in states)}
    points = _merge_tables([state.bundle for state in states], [state.table() for state in states])
    points = points if len(states) == 1 else replace(points, title="Points")
    # In text, the headlines have them.
    warnings = [line for state in states for line in state.warnings] if output in ("json", "csv") else []
    show([points, *_tables(watched, extra)], output, extra, warnings)


def _find_in_cluster(names: Sequence[str], address: ClusterAddress) -> tuple[list[Watched], list[ExperimentProgress]]:
    if not names:
        return [], []
    from scalecurve.cluster.experiments import begun, find
    from scalecurve.cluster.status import bundle_of
    from scalecurve.curves.progress import status

    watched, states = [], []
    with cluster_errors():
        for name in names:
            cluster, experiment = find(address, name)
            watched.append(experiment)
            states.append(status(bundle_of(experiment, begun(cluster, name))))
    return watched, states


def _tables(watched: Sequence[Watched], extra: dict[str, Any]) -> list[Table]:
    if not watched:
        return []
    from scalecurve.cluster.status import condition_table, current_table, plain

    extra["experiments"] = [plain(experiment) for experiment in watched]
    extra["finished"] = extra["finished"] and all(experiment.ended for experiment in watched)
    names = [experiment.name for experiment in watched]
    tables = [
        _merge_tables(names, [table_of(each) for each in watched]) for table_of in (current_table, condition_table)
    ]
    return [table for table in tables if table.rows]


def _merge_tables(names: Sequence[str], tables: list[Table]) -> Table:
    from scalecurve.render.table import Column

    if len(tables) == 1:
        return tables[0]
    return replace(
        tables[0],
        columns=(Column("experiment", "Experiment"), *tables[0].columns),
        rows=tuple((name, *row) for name, table in zip(names, tables, strict=True) for row in table.rows),
        notes=tuple(note for table in tables for note in table.notes),
    )
