"""Tables of networks: layers with their arithmetic, totals, comparisons."""

from collections.abc import Sequence

from scalecurve.render.table import Cell, Column, Table
from scalecurve_models.networks import arithmetic
from scalecurve_models.networks.counting import CONVENTIONS, Convention, LayerCount, by_kind, count, totals
from scalecurve_models.networks.graph import Network
from scalecurve_models.networks.inception import InceptionAnalysis
from scalecurve_models.networks.layer import Input, Pair, spell
from scalecurve_models.networks.receptive import stack_field

TITLES: dict[Convention, str] = {"mac": "MACs", "2mac": "FLOPs (2 per MAC)", "lu": "FLOPs (Lu et al.)"}

_LAYER_COLUMNS = (
    Column("layer", "layer"),
    Column("type", "type"),
    Column("output", "output"),
    Column("activations", "activations", "count"),
    Column("weights", "weights", "count"),
    Column("weights_formula", "weights formula"),
    Column("biases", "biases", "count"),
    Column("norm_parameters", "norm", "count"),
    Column("macs", "MACs", "count"),
    Column("macs_formula", "MACs formula"),
)


def network_tables(network: Network, convention: Convention = "mac", batch: int = 1) -> list[Table]:
    """Every layer of a network, FLOPs by kind of layer, and the totals."""
    return [
        layer_table(network, convention, batch),
        kinds_table(network, convention),
        totals_table([network], convention, batch),
    ]


def kinds_table(network: Network, convention: Convention = "mac") -> Table:
    """FLOPs by kind of layer: convolutions, fully connected, and by Lu et al.'s rule the minor operations."""
    kinds = by_kind(network, convention)
    total = sum(kinds.values()) or 1
    columns = (
        Column("kind", "kind"),
        Column("flops", TITLES[convention], "count"),
        Column("share", "share", "number", "%"),
    )
    rows = tuple((kind, flops, 100 * flops / total) for kind, flops in kinds.items() if flops)
    return Table("kinds", "FLOPs by kind of layer", columns, rows)


def layer_table(network: Network, convention: Convention = "mac", batch: int = 1) -> Table:
    """One row per layer, counts for one sample; memory is the activations of ``batch`` samples and the parameters."""
    total = totals(network).work.flops(convention) or 1
    columns = (
        *_LAYER_COLUMNS,
        *(() if convention == "mac" else (Column("flops", TITLES[convention], "count"),)),
        Column("share", "share", "percent"),
        Column("memory_bytes", "memory", "count", "B"),
        Column("receptive_field", "receptive field"),
        Column("auxiliary", "auxiliary", "flag"),
    )
    if not any(layer.auxiliary for layer in network.layers):
        columns = columns[:-1]
    rows = [_layer_row(entry, convention, total, batch)[: len(columns)] for entry in count(network)]
    notes = [f"{TITLES[convention]}: {CONVENTIONS[convention]}.", *network.notes]
    if network.source:
        notes.append(f"Source: {network.source}.")
    title = f"{network.name}: {network.title}" if network.title else network.name
    return Table("layers", f"{title}, input {spell(network.input.shape)}", columns, tuple(rows), tuple(notes))


def _layer_row(entry: LayerCount, convention: Convention, total: int, batch: int) -> tuple[Cell, ...]:
    work, auxiliary = entry.work, entry.layer.auxiliary
    flops = work.flops(convention)
    return (
        entry.name,
        arithmetic.describe(entry),
        spell(entry.output),
        entry.activations,
        work.weights,
        arithmetic.weights(entry),
        work.biases,
        work.norm_parameters,
        work.macs,
        arithmetic.macs(entry),
        *(() if convention == "mac" else (flops,)),
        None if auxiliary else flops / total,
        entry.memory_bytes(batch),
        None if isinstance(entry.layer, Input) else str(entry.field),
        auxiliary,
    )


def totals_table(networks: Sequence[Network], convention: Convention = "mac", batch: int = 1) -> Table:
    """One row per network: parameters, work, the convolutions' share of it, activations, memory."""
    columns = (
        Column("network", "network"),
        Column("input", "input"),
        Column("depth", "depth", "count"),
        Column("parameters", "parameters", "count"),
        Column("weights", "weights", "count"),
        Column("biases", "biases", "count"),
        Column("norm_parameters", "norm", "count"),
        Column("auxiliary_parameters", "auxiliary", "count"),
        Column("macs", "MACs", "count"),
        *(() if convention == "mac" else (Column("flops", TITLES[convention], "count"),)),
        Column("convolution_share", "convolutions", "percent"),
        Column("activations", "activations", "count"),
        Column("forward_bytes", "memory forward", "count", "B"),
        Column("training_bytes", "memory training", "count", "B"),
        Column("receptive_field", "receptive field (last convolution)"),
    )
    rows = [_totals_row(network, convention, batch) for network in networks]
    notes = [
        f"Counts are for one sample, memory for a batch of {batch} in fp32; training adds gradients, one momentum "
        "and the gradients of activations, without workspace.",
        "Parameters include auxiliary classifiers, MACs do not. Depth counts convolutions and fully connected layers "
        "on the longest path.",
        f"The share of convolutions refers to {TITLES[convention]}.",
    ]
    return Table("totals", "Totals", columns, tuple(rows), tuple(notes))


def _totals_row(network: Network, convention: Convention, batch: int) -> tuple[Cell, ...]:
    sums, counted = totals(network), count(network)
    convolutions = [entry for entry in counted if entry.convolution and not entry.layer.auxiliary]
    flops = sums.work.flops(convention)
    convolution_flops = by_kind(network, convention)["convolutions"]
    parts = (sums.work, sums.auxiliary)
    return (
        network.name,
        spell(network.input.shape),
        sums.depth,
        sums.parameters,
        sum(part.weights for part in parts),
        sum(part.biases for part in parts),
        sum(part.norm_parameters for part in parts),
        sums.auxiliary.parameters,
        sums.work.macs,
        *(() if convention == "mac" else (flops,)),
        convolution_flops / flops if flops else None,
        sums.activations,
        sums.forward_bytes(batch),
        sums.training_bytes(batch),
        str(convolutions[-1].field) if convolutions else None,
    )


def inception_tables(analysis: InceptionAnalysis, convention: Convention = "mac") -> list[Table]:
    """The layers of both modules, and the savings of the reduced one."""
    columns = (
        Column("module", "module"),
        Column("layer", "layer"),
        Column("type", "type"),
        Column("output", "output"),
        Column("weights", "weights", "count"),
        Column("macs", "MACs", "count"),
        Column("macs_formula", "MACs formula"),
        Column("flops", TITLES[convention], "count"),
    )
    rows = [
        (
            network.name, entry.name, arithmetic.describe(entry), spell(entry.output), entry.work.weights,
            entry.work.macs, arithmetic.macs(entry), entry.work.flops(convention),
        )
        for network in (analysis.naive, analysis.reduced)
        for entry in count(network)
    ]  # fmt: skip
    naive, reduced = analysis.flops(convention)
    outputs = analysis.outputs()
    summary_columns = (
        Column("module", "module"),
        Column("output", "output"),
        Column("weights", "weights", "count"),
        Column("flops", TITLES[convention], "count"),
        Column("ratio", "relative work", "number"),
        Column("saving", "saved", "percent"),
    )
    weights = [sum(entry.work.weights for entry in layers) for layers in analysis.layers()]
    summary = (
        ("naive", spell(outputs[0]), weights[0], naive, naive / reduced, None),
        ("reduced", spell(outputs[1]), weights[1], reduced, 1.0, analysis.saving(convention)),
    )
    shape = spell(analysis.naive.input.shape)
    return [
        Table("layers", f"Inception module over {shape}", columns, tuple(rows)),
        Table("summary", "Naive vs. reduced", summary_columns, summary, (f"{CONVENTIONS[convention]}.",)),
    ]


def stack_table(kernels: Sequence[Pair], strides: Sequence[Pair], channels: int | None) -> Table:
    """A stack of convolutions: the field after each, and the single convolution with the same field."""
    columns = (
        Column("layers", "layers", "count"),
        Column("kernel", "kernel"),
        Column("stride", "stride"),
        Column("receptive_field", "receptive field"),
        *(() if channels is None else (Column("weights", "cumulative weights", "count"),)),
        *(() if channels is None else (Column("single_weights", "single convolution", "count"),)),
    )
    rows: list[tuple[Cell, ...]] = []
    weights = 0
    for index in range(1, len(kernels) + 1):
        field = stack_field(kernels[:index], strides[:index])
        kernel, stride = kernels[index - 1], strides[index - 1]
        row: tuple[Cell, ...] = (index, spell(kernel), spell(stride), str(field))
        if channels is not None:
            weights += kernel[0] * kernel[1] * channels**2
            row = (*row, weights, field.size[0] * field.size[1] * channels**2)
        rows.append(row)
    notes = ("r += (k - 1) * j; j *= stride. N layers of FxF with stride 1 cover N(F-1)+1.",)
    return Table("stack", "Receptive field of a stack", columns, tuple(rows), notes)
