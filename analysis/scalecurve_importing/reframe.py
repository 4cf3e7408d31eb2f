"""ReFrame's run report: a run for each test case that passed, by one of its performance variables.

Workers are the tasks of a case; where it has more devices than tasks, the message asks which of them counts.
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

_PASSED = ("success", "pass")


def recognized(path: Path, head: str) -> bool:
    """Return whether ReFrame wrote this."""
    return head.lstrip().startswith("{") and '"session_info"' in head and '"testcases"' in head


def read(path: Path, statements: Statements) -> list[Reading]:
    """Read every case that passed; raises SourceError where none has a number that can be read."""
    try:
        runs = json.loads(read_text(path))["runs"]
        cases = [(number, case) for number, run in enumerate(runs) for case in run["testcases"]]
        read_cases = [_case(path, number, case, statements) for number, case in cases]
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        if isinstance(error, SourceError):
            raise
        raise SourceError(f"{path}: no complete report of ReFrame: {type(error).__name__}: {error}") from error
    return readings_of_cases(path, read_cases, statements)


def _case(path: Path, run: int, tree: Mapping[str, Any], statements: Statements) -> Case:
    name = str(tree.get("display_name") or tree.get("unique_name") or tree.get("name"))
    place = f"{path.name}, {name}" + (f" (retry {run})" if run else "")
    known = {} if "workers" in statements.columns else _workers(tree, place, statements)
    result = str(tree.get("result"))
    reason = str(tree.get("fail_reason") or result).splitlines()[0][:80]
    return Case(
        place,
        {**known, "model": name.partition(" ")[0]},
        list(_figures(tree)),
        dict(cells(tree)),
        "" if result in _PASSED else reason,
    )


def _workers(tree: Mapping[str, Any], place: str, statements: Statements) -> dict[str, str]:
    tasks, each, gpus = (tree.get(name) for name in ("num_tasks", "num_tasks_per_node", "num_gpus_per_node"))
    hosts = tree.get("job_nodelist") or tree.get("nodelist") or ()
    nodes = len(set(hosts)) if isinstance(hosts, list) else 0
    if isinstance(tasks, int) and isinstance(each, int) and tasks > 0 and each > 0:
        nodes = nodes or -(-tasks // each)
    if isinstance(gpus, int) and nodes and isinstance(tasks, int) and gpus * nodes > tasks and gpus * nodes > 1:
        if not statements.facts.keys() & {"workers", "workers_per_node"}:
            raise SourceError(
                f"{place}: {tasks} tasks with {gpus * nodes} GPUs on {nodes} nodes: which are the workers? State them "
                "with --set workers=N, or with --column workers=num_tasks"
            )
        return {"nodes": str(nodes)}
    known = {"workers": tasks, "nodes": nodes}
    return {name: str(value) for name, value in known.items() if isinstance(value, int) and value > 0}


def _figures(tree: Mapping[str, Any]) -> Iterator[Figure]:
    for key, stated in (tree.get("perfvalues") or {}).items():  # value, reference, bounds, unit, verdict
        yield Figure(str(key).rpartition(":")[2], str(stated[0]), str(stated[4] or ""))
    for each in tree.get("perfvars") or ():  # of reports before version 4.0
        yield Figure(str(each["name"]), str(each["value"]), str(each.get("unit") or ""))


IMPORTER = Importer(recognized, read)
