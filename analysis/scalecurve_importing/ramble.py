"""Ramble's ``results.json``: a run for each experiment that succeeded, by one of its figures of merit.

The worker count is ``n_ranks``; another variable is taken with ``--column workers=VARIABLE``.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from scalecurve_importing.columns import Statements
from scalecurve_importing.figures_of_merit import Case, Figure, cells, readings_of_cases
from scalecurve_importing.importer import Importer
from scalecurve_importing.reading import Reading, SourceError
from scalecurve_importing.text_file import read_text

_WORKERS = {"workers": "n_ranks", "nodes": "n_nodes", "workers_per_node": "processes_per_node"}
_WHOLE = "null"  # the context of figures that are of a whole run
_MEAN = "summary::mean"


def recognized(path: Path, head: str) -> bool:
    """Return whether Ramble wrote this."""
    return head.lstrip().startswith("{") and '"RAMBLE_STATUS"' in head


def read(path: Path, statements: Statements) -> list[Reading]:
    """Read every experiment that succeeded; raises SourceError where none has a figure that can be read."""
    try:
        experiments = json.loads(read_text(path))["experiments"]
        repeated = {str(each.get("name", "")).rpartition(".")[0] for each in experiments if not each.get("N_REPEATS")}
        summed_up = [each for each in experiments if each.get("N_REPEATS") and str(each.get("name", "")) in repeated]
        cases = [_case(path, each, statements) for each in experiments if each not in summed_up]
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise SourceError(f"{path}: no complete results of Ramble: {type(error).__name__}: {error}") from error
    return readings_of_cases(path, cases, statements)


def _case(path: Path, tree: Mapping[str, Any], statements: Statements) -> Case:
    variables = {**dict(cells(tree.get("RAMBLE_VARIABLES"))), **dict(cells(tree))}
    known = _WORKERS if "workers" not in statements.columns else {}
    facts = {name: variables[key] for name, key in known.items() if variables.get(key, "").isdecimal()}
    workload = ".".join(variables[name] for name in ("application_name", "workload_name") if name in variables)
    status = str(tree.get("RAMBLE_STATUS"))
    return Case(
        f"{path.name}, {tree.get('name', 'an experiment')}",
        {**facts, **({"model": workload} if workload else {}), **_repetitions(tree)},
        list(_figures(tree)),
        variables,
        "" if status == "SUCCESS" else status,
    )


def _repetitions(tree: Mapping[str, Any]) -> dict[str, str]:
    """Only what has its repetitions summed up, without them, is a mean."""
    return {"repetitions": str(tree["N_REPEATS"])} if tree.get("N_REPEATS") else {}


def _figures(tree: Mapping[str, Any]) -> Iterator[Figure]:
    for context in tree.get("CONTEXTS", ()):
        name = str(context.get("name", _WHOLE))
        for each in context.get("foms", ()):
            if tree.get("N_REPEATS") and each.get("origin_type") != _MEAN:
                continue
            where = "" if name == _WHOLE else f" ({context.get('display_name', name)})"
            yield Figure(f"{each.get('name')}{where}", str(each.get("value", "")), str(each.get("units") or ""))


IMPORTER = Importer(recognized, read)
