"""The fields of a run that any source or ``--set`` may state, as text -> a reading without its numbers."""

import re
from collections.abc import Callable, Mapping

from scalecurve_api.spec.scaling import Mode
from scalecurve_api.text import count
from scalecurve_importing.columns import FACTORS, Meaning
from scalecurve_importing.numbers import number, whole
from scalecurve_importing.reading import Reading, SourceError, Value, WorkerPrice

Place = Callable[[str], str]


def stated(
    cells: Mapping[str, str], place: str, at: Place, factors: Mapping[str, str], price: Meaning | None = None
) -> Reading:
    """Build the reading that these fields describe; ``at`` gives the place of a field, ``factors`` are further ones.

    Raises SourceError for a field that is missing or is not what it should be.
    """
    if "layout" in cells:
        cells = _expand_layout(cells, at("layout"))
    if "workers" not in cells and not {"nodes", "workers_per_node"} <= cells.keys():
        raise SourceError(f"{place}: states no worker count; add a column workers, or --set workers=N")
    nodes = whole(cells["nodes"], at("nodes")) if "nodes" in cells else None
    each = whole(cells["workers_per_node"], at("workers_per_node")) if "workers_per_node" in cells else None
    workers = whole(cells["workers"], at("workers")) if "workers" in cells else (nodes or 1) * (each or 1)
    if nodes is None and each is not None:
        nodes = -(-workers // each)
    if nodes is not None and each is not None and -(-workers // each) != nodes:
        raise SourceError(f"{at('nodes')}: {nodes} nodes with {each} workers on each are not {workers} workers")
    if workers % (nodes or 1):
        raise SourceError(f"{at('nodes')}: {workers} workers do not spread evenly over {nodes} nodes")
    global_batch, share, arithmetic = _batches(cells, workers, at)
    repetitions = cells.get("repetitions", "1")
    return Reading(
        place=place,
        workers=workers,
        nodes=nodes,
        mode=_mode(cells["mode"], at("mode")) if "mode" in cells else None,
        global_batch=global_batch,
        batch_per_worker=share,
        accumulation=_accumulation(cells, at),
        repetition=cells.get("repetition"),
        price=_price(cells, workers, nodes, at, price) if "price" in cells else None,
        model=cells.get("model"),
        factors={name: _value(text) for name, text in {**_select_factors(cells), **factors}.items()},
        notes=(*arithmetic, *([f"mean of {repetitions} repetitions"] if repetitions != "1" else [])),
    )


def _expand_layout(cells: Mapping[str, str], place: str) -> dict[str, str]:
    """The fields with the nodes and the workers on each that a layout such as ``2x8`` says."""
    match = re.fullmatch(r"(\d{1,7})\s*[x×*]\s*(\d{1,7})(?:\s*GPUs?)?", cells["layout"].strip(), re.IGNORECASE)
    if match is None:
        raise SourceError(f"{place}: got {cells['layout']!r}, expected nodes x workers on each, such as 2x8")
    for name, count_of in (("nodes", match[1]), ("workers_per_node", match[2])):
        if name in cells and not _same(cells[name], count_of):
            raise SourceError(f"{place}: {cells['layout']} is not {name} {cells[name]}")
    return {**cells, "nodes": match[1], "workers_per_node": match[2]}


def agreed(facts: Mapping[str, str], written: Mapping[str, str], place: str) -> dict[str, str]:
    """Merge what the user states and what the source says; raises SourceError where one contradicts the other."""
    for name, text in written.items():
        if name in facts and not _same(facts[name], text):
            raise SourceError(f"{place}: has {name} {text}, and --set {name}={facts[name]} contradicts it")
    return {**facts, **written}


def _same(first: str, second: str) -> bool:
    try:
        return float(first) == float(second)
    except ValueError:
        return first.strip().casefold() == second.strip().casefold()


def tokens_a_step(cells: Mapping[str, str], workers: int, at: Place) -> tuple[int | None, tuple[str, ...]]:
    """Compute the tokens of a step over all workers, where the source states them, and the arithmetic."""
    total = whole(cells["tokens_per_step"], at("tokens_per_step")) if "tokens_per_step" in cells else None
    if "tokens_per_worker" not in cells:
        return total, ()
    worked_out, spelled = _product(cells, "tokens_per_worker", workers, at)
    if total is not None and total != worked_out:
        raise SourceError(f"{at('tokens_per_step')}: {total} is not {spelled} tokens a step")
    return worked_out, (f"{spelled} tokens a step",)


def _batches(cells: Mapping[str, str], workers: int, at: Place) -> tuple[int | None, int | None, tuple[str, ...]]:
    """The batch of a step over all workers and of one, over all micro-batches; and how it was worked out."""
    total = whole(cells["global_batch"], at("global_batch")) if "global_batch" in cells else None
    if "batch_per_worker" not in cells:
        return total, total and total // workers, ()
    worked_out, spelled = _product(cells, "batch_per_worker", workers, at)
    if total is not None and total != worked_out:
        if "accumulation" in cells:
            raise SourceError(f"{at('global_batch')}: {total} is not {spelled}")
        share = cells["batch_per_worker"]
        raise SourceError(f"{at('global_batch')}: {total} is not {count(workers, 'worker')} x {share} per worker")
    return worked_out, worked_out // workers, (f"{spelled} a step",) if "accumulation" in cells else ()


def _product(cells: Mapping[str, str], name: str, workers: int, at: Place) -> tuple[int, str]:
    """What all workers have of ``name`` in all micro-batches of a step, and the multiplication."""
    share = whole(cells[name], at(name))
    times = _accumulation(cells, at)
    micro = f" × {times} micro-batches" if "accumulation" in cells else ""
    total = share * times * workers
    return total, f"{share}{micro} × {workers} = {total}"


def _accumulation(cells: Mapping[str, str], at: Place) -> int:
    return whole(cells["accumulation"], at("accumulation")) if "accumulation" in cells else 1


def _mode(text: str, place: str) -> Mode:
    if text.strip().lower() not in tuple(Mode):
        raise SourceError(f"{place}: got {text!r}, expected strong or weak")
    return Mode(text.strip().lower())


def _price(cells: Mapping[str, str], workers: int, nodes: int | None, at: Place, price: Meaning | None) -> WorkerPrice:
    value = number(cells["price"], at("price"), zero=True)
    if price is not None and price.per == "node":
        if nodes is None:
            raise SourceError(f"{at('price')}: is of a node, and the number of nodes is not stated")
        value = value * nodes / workers
    currency = cells.get("currency", "USD").strip().upper()
    if len(currency) != 3 or not currency.isalpha():
        raise SourceError(f"{at('currency')}: got {cells['currency']!r}, expected three letters such as USD")
    return WorkerPrice(value, currency)


def _select_factors(cells: Mapping[str, str]) -> dict[str, str]:
    return {name: cells[name] for name in FACTORS if name in cells}


def _value(text: str) -> Value:
    return int(text) if text.isdecimal() and len(text) < 16 else text
