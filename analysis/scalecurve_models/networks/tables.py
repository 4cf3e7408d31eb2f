"""Tables of networks: layers with counts as written-out arithmetic, ``(3*3*64)*64 = 36,864``; totals, comparisons."""

from collections.abc import Sequence
from math import prod

from scalecurve.render.table import Cell, Column, Table, columns_of
from scalecurve_models.networks.counting import CONVENTIONS, Convention, LayerCount, by_kind, count, totals
from scalecurve_models.networks.graph import Network
from scalecurve_models.networks.inception import InceptionAnalysis
from scalecurve_models.networks.layer import Conv, Deconv, Dense, Input, Pair, Pool, Shape, spell
from scalecurve_models.networks.receptive import stack_field
from scalecurve_models.networks.window import describe_extent, reach

TOTAL = "total"
WINDOWS = "An output's height is floor((height + 2*padding - kernel) / stride) + 1; padded same, ceil(height / stride)."
TITLES: dict[Convention, str] = {"mac": "MACs", "2mac": "FLOPs (2 per MAC)", "lu": "FLOPs (Lu et al.)"}


def network_tables(network: Network, convention: Convention = "mac", batch: int = 1) -> list[Table]:
    """Tabulate every layer of a network, FLOPs by kind of layer, and the totals."""
    return [
        _layers(network, convention, batch),
        _kinds(network, convention),
        totals_table([network], convention, batch),
    ]


def _flops(convention: Convention) -> tuple[Column, ...]:
    """A column of FLOPs, unless they are the MACs that a table has anyway."""
    return () if convention == "mac" else (Column("flops", TITLES[convention], "count"),)


def _kinds(network: Network, convention: Convention) -> Table:
    kinds = by_kind(network, convention)
    total = sum(kinds.values()) or 1
    columns = (
        Column("kind", "kind"),
        Column("flops", TITLES[convention], "count"),
        Column("share", "share", "number", "%"),
    )
    rows = tuple((kind, flops, 100 * flops / total) for kind, flops in kinds.items() if flops)
    return Table("kinds", "FLOPs by kind of layer", columns, rows)


def _layers(network: Network, convention: Convention, batch: int) -> Table:
    """One row per layer, counts for one sample; memory is the activations of ``batch`` samples and the parameters."""
    total = totals(network).work.flops(convention) or 1
    auxiliary = any(layer.auxiliary for layer in network.layers)
    columns = (
        *columns_of("text", layer="layer", type="type", padding="padding", output="output"),
        Column("output_formula", "output height", detail=True),
        *columns_of("count", activations="activations", weights="weights"),
        Column("weights_formula", "weights formula"),
        *columns_of("count", biases="biases", norm_parameters="norm", macs="MACs"),
        Column("macs_formula", "MACs formula"),
        *_flops(convention),
        Column("share", "share", "percent"),
        Column("memory_bytes", "memory", "count", "B"),
        Column("receptive_field", "receptive field"),
        *((Column("auxiliary", "auxiliary", "flag"),) if auxiliary else ()),
    )
    entries = count(network)
    rows = tuple(_layer_row(entry, convention, total, batch)[: len(columns)] for entry in entries)
    rows += (_total_row(network, entries, convention, batch)[: len(columns)],)
    notes = [f"{TITLES[convention]}: {CONVENTIONS[convention]}.", WINDOWS, *network.notes]
    if network.source:
        notes.append(f"Source: {network.source}.")
    title = f"{network.name}: {network.title}" if network.title else network.name
    return Table("layers", f"{title}, input {spell(network.input.shape)}", columns, rows, tuple(notes))


def _total_row(network: Network, entries: Sequence[LayerCount], convention: Convention, batch: int) -> tuple[Cell, ...]:
    """Sums of the column, auxiliary classifiers among the parameters; of work those of the main network."""
    sums, works = totals(network), [entry.work for entry in entries]
    return (
        *(TOTAL, None, None, None, None, sums.activations),
        *(sum(work.weights for work in works), None, sum(work.biases for work in works)),
        *(sum(work.norm_parameters for work in works), sums.work.macs, None),
        *(() if convention == "mac" else (sums.work.flops(convention),)),
        *(1.0, sum(entry.memory_bytes(batch) for entry in entries if not entry.layer.auxiliary), None, None),
    )


def matrix_table(network: Network) -> Table:
    """Tabulate convolutions as matrix products (im2col): sizes for one sample, and how often an input is copied."""
    columns = (
        *columns_of("text", layer="layer", filters="filters", patches="patches (im2col)", product="product"),
        *columns_of("count", macs="MACs", input_values="input values", patch_values="values of patches"),
        Column("copies", "copies of an input", "number"),
    )
    rows: list[tuple[Cell, ...]] = []
    for entry in count(network):
        if not isinstance(entry.layer, Conv):
            continue
        conv, (height, width, channels) = entry.layer, entry.inputs[0]
        inner, places = prod(conv.kernel) * (channels // conv.groups), entry.output[0] * entry.output[1]
        per_group, times = conv.filters // conv.groups, f"{conv.groups} x " if conv.groups > 1 else ""
        values, patches = height * width * channels, conv.groups * inner * places
        rows.append(
            (
                *(entry.name, f"{times}{per_group:,} x {inner:,}", f"{times}{inner:,} x {places:,}"),
                *(f"{times}{per_group:,} x {places:,}", entry.work.macs, values, patches, patches / values),
            )
        )
    notes = (
        "A row of the filters' matrix is one filter (k*k*C values), a column of the patches one place of the window; "
        "their product is the output, one row per filter. MACs are rows * inner size * columns.",
    )
    return Table("matrix", f"{network.name}: convolutions as matrix products", columns, tuple(rows), notes)


def _window(entry: LayerCount) -> tuple[Cell, Cell]:
    """The padding of a window, and the height of its output as arithmetic."""
    layer = entry.layer
    if isinstance(layer, Conv):
        kernel, stride, rounded_up = reach(layer.kernel[0], layer.dilation[0]), layer.stride[0], False
    elif isinstance(layer, Pool):
        kernel, stride, rounded_up = *(pair[0] for pair in layer.window(entry.inputs[0])), layer.ceil
    else:
        return None, None
    pads = [layer.padding] if isinstance(layer.padding, str) else sorted({*layer.padding})
    padding = "0" if layer.padding == "valid" else "x".join(map(str, pads))
    if isinstance(layer, Pool) and layer.grid is not None:
        return padding, None
    return padding, describe_extent(layer.padding, 0, entry.inputs[0][0], kernel, stride, rounded_up)


def _layer_row(entry: LayerCount, convention: Convention, total: int, batch: int) -> tuple[Cell, ...]:
    work, auxiliary, (padding, formula) = entry.work, entry.layer.auxiliary, _window(entry)
    flops = work.flops(convention)
    return (
        *(entry.name, describe(entry), padding, spell(entry.output), formula, entry.activations),
        *(work.weights, weights(entry), work.biases, work.norm_parameters),
        *(work.macs, macs(entry), *(() if convention == "mac" else (flops,))),
        *(None if auxiliary else flops / total, entry.memory_bytes(batch)),
        *(None if isinstance(entry.layer, Input) else str(entry.field), auxiliary),
    )


def totals_table(networks: Sequence[Network], convention: Convention = "mac", batch: int = 1) -> Table:
    """Tabulate networks, a row each: parameters, work, the convolutions' share of it, activations, memory."""
    columns = (
        *columns_of("text", network="network", input="input"),
        *columns_of("count", depth="depth", parameters="parameters", weights="weights", biases="biases"),
        *columns_of("count", norm_parameters="norm", auxiliary_parameters="auxiliary", macs="MACs"),
        *_flops(convention),
        Column("convolution_share", "convolutions", "percent"),
        Column("activations", "activations", "count"),
        *columns_of("count", "B", forward_bytes="memory forward", training_bytes="memory training"),
        Column("receptive_field", "receptive field (last convolution)"),
    )
    notes = (
        f"Counts are for one sample, memory for a batch of {batch} in fp32; training adds gradients, one momentum "
        "and the gradients of activations, without workspace.",
        "Parameters include auxiliary classifiers, MACs do not. Depth counts convolutions and fully connected layers "
        "on the longest path.",
        f"The share of convolutions refers to {TITLES[convention]}.",
    )
    rows = tuple(_totals_row(network, convention, batch) for network in networks)
    return Table("totals", "Totals", columns, rows, notes)


def _totals_row(network: Network, convention: Convention, batch: int) -> tuple[Cell, ...]:
    sums = totals(network)
    fields = [entry.field for entry in count(network) if entry.convolution and not entry.layer.auxiliary]
    flops = sums.work.flops(convention)
    share = by_kind(network, convention)["convolutions"] / flops if flops else None
    main, auxiliary = sums.work, sums.auxiliary
    return (
        *(network.name, spell(network.input.shape), sums.depth, sums.parameters),
        *(main.weights + auxiliary.weights, main.biases + auxiliary.biases),
        *(main.norm_parameters + auxiliary.norm_parameters, auxiliary.parameters),
        *(main.macs, *(() if convention == "mac" else (flops,)), share),
        *(sums.activations, sums.forward_bytes(batch), sums.training_bytes(batch)),
        str(fields[-1]) if fields else None,
    )


def inception_tables(analysis: InceptionAnalysis, convention: Convention = "mac") -> list[Table]:
    """Tabulate the layers of both modules, and the savings of the reduced one."""
    columns = (
        *columns_of("text", module="module", layer="layer", type="type", output="output"),
        *columns_of("count", weights="weights", macs="MACs"),
        Column("macs_formula", "MACs formula"),
        *_flops(convention),
    )
    rows = [
        (
            *(network.name, entry.name, describe(entry), spell(entry.output), entry.work.weights),
            *(entry.work.macs, macs(entry), entry.work.flops(convention)),
        )[: len(columns)]
        for network in (analysis.naive, analysis.reduced)
        for entry in count(network)
    ]
    summary_columns = (
        *columns_of("text", module="module", output="output"),
        *columns_of("count", weights="weights", flops=TITLES[convention]),
        Column("ratio", "relative work", "number"),
        Column("saving", "saved", "percent"),
    )
    weights = [totals(network).work.weights for network in (analysis.naive, analysis.reduced)]
    (naive, reduced), outputs = analysis.flops(convention), analysis.outputs()
    summary = (
        ("naive", spell(outputs[0]), weights[0], naive, naive / reduced, None),
        ("reduced", spell(outputs[1]), weights[1], reduced, 1.0, analysis.saving(convention)),
    )
    title = f"Inception module over {spell(analysis.naive.input.shape)}"
    return [
        Table("layers", title, columns, tuple(rows)),
        Table("summary", "Naive vs. reduced", summary_columns, summary, (f"{CONVENTIONS[convention]}.",)),
    ]


def stack_table(kernels: Sequence[Pair], strides: Sequence[Pair], channels: int | None) -> Table:
    """Tabulate a stack of convolutions: the field after each, and the single convolution with the same field."""
    weighted = channels is not None
    columns = (
        Column("layers", "layers", "count"),
        *columns_of("text", kernel="kernel", stride="stride", receptive_field="receptive field"),
        *(columns_of("count", weights="cumulative weights", single_weights="single convolution") if weighted else ()),
    )
    rows: list[tuple[Cell, ...]] = []
    weights = 0
    for index, (kernel, stride) in enumerate(zip(kernels, strides, strict=True), start=1):
        field = stack_field(kernels[:index], strides[:index])
        weights += prod(kernel)
        counts = [area * channels**2 for area in (weights, prod(field.size))] if channels is not None else []
        rows.append((index, spell(kernel), spell(stride), str(field), *counts))
    notes = ("r += (k - 1) * j; j *= stride. N layers of FxF with stride 1 cover N(F-1)+1.",)
    return Table("stack", "Receptive field of a stack", columns, tuple(rows), notes)


def weights(entry: LayerCount) -> str:
    """Write out the weights of a layer without biases; empty if it has none."""
    factors = _weights(entry)
    return f"{factors} = {entry.work.weights:,}" if factors else ""


def macs(entry: LayerCount) -> str:
    """Write out the multiply-adds for one sample: the weights times the positions where they are used."""
    factors = _weights(entry)
    if not factors:
        return ""
    where = entry.output if isinstance(entry.layer, Conv) else entry.inputs[0]
    places = "" if isinstance(entry.layer, Dense) else f"*({where[0]}*{where[1]})"
    return f"{factors}{places} = {entry.work.macs:,}"


def describe(entry: LayerCount) -> str:
    """Describe the layer by its type and parameters: ``conv 3x3 /2``."""
    layer = entry.layer
    match layer:
        case Input():
            return "input"
        case Conv() | Deconv():
            stride = "" if layer.stride == (1, 1) else f" /{_square(layer.stride)}"
            groups = f" groups {layer.groups}" if isinstance(layer, Conv) and layer.groups > 1 else ""
            return f"{layer.kind} {layer.kernel[0]}x{layer.kernel[1]}{stride}{groups}"
        case Pool():
            (height, width), steps = layer.window(entry.inputs[0])
            return f"{layer.kind} {height}x{width} /{_square(steps)}"
        case _:
            return layer.kind


def _weights(entry: LayerCount) -> str:
    match entry.layer:
        case Conv() as conv:
            return f"({conv.kernel[0]}*{conv.kernel[1]}*{entry.inputs[0][-1] // conv.groups})*{conv.filters}"
        case Deconv() as deconv:
            return f"({deconv.kernel[0]}*{deconv.kernel[1]}*{entry.inputs[0][-1]})*{deconv.filters}"
        case Dense() as dense:
            shape = entry.inputs[0]
            return f"({_product(shape)})*{dense.features}" if len(shape) > 1 else f"{shape[0]}*{dense.features}"
        case _:
            return ""


def _product(shape: Shape) -> str:
    return "*".join(str(size) for size in shape)


def _square(pair: tuple[int, int]) -> str:
    return str(pair[0]) if pair[0] == pair[1] else f"{pair[0]}x{pair[1]}"
