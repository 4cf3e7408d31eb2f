"""Traced torch modules against our own files: the worker's models, and a twin of every shipped network."""

import pytest

from scalecurve_models.networks import SHIPPED, NetworkError, network_of_model, shipped, totals
from scalecurve_models.networks.layer import (
    Add,
    Concat,
    Conv,
    Dense,
    Dropout,
    Input,
    LocalResponseNorm,
    Pool,
    Shortcut,
    Softmax,
)
from scalecurve_models.networks.tracing import trace, trace_reference
from scalecurve_models.networks.window import padding_of

torch = pytest.importorskip("torch")
nn = torch.nn

WORKER_MODELS = (
    "resnet18", "resnet34", "resnet50", "resnet101", "resnet152", "vgg16", "vgg19", "alexnet", "googlenet",
    "inception_v3", "resnet20_cifar", "resnet32_cifar", "resnet44_cifar", "resnet56_cifar", "resnet110_cifar",
)  # fmt: skip


@pytest.mark.parametrize("name", WORKER_MODELS)
def test_the_workers_models_count_as_our_files_do(name):
    from scalecurve_worker.torch.models import build, spec

    ours = network_of_model(name)
    with torch.device("meta"):
        model = build(name)
    traced = totals(trace(model, ours.input.shape))
    assert traced.work == totals(ours).work
    assert traced.work.parameters == spec(name).parameters


def test_auxiliary_parameters_are_told_of_and_modules_left_as_they_were():
    from scalecurve_worker.torch.models import build

    with torch.device("meta"):
        model = build("inception_v3", auxiliary=True)
    model.train()
    network = trace(model, (299, 299, 3))
    assert "3,326,696 of 27,161,264 parameters are unused in evaluation mode." in network.notes
    assert all(part.training for part in model.modules())
    assert totals(shipped("inception_v3_torchvision")).parameters == sum(p.numel() for p in model.parameters())


class Twin(nn.Module):
    """A network of ours with torch's own layers; a lone offset a channel becomes a bias."""

    def __init__(self, network):
        super().__init__()
        self.network = network
        self.parts = nn.ModuleDict()
        for layer in network.layers:
            part = self.part(layer, network.inputs_of(layer))
            if part is not None:
                self.parts[self.key(layer.name)] = part

    @staticmethod
    def key(name):
        return name.replace("/", "_").replace("@", "_")

    def part(self, layer, inputs):
        match layer:
            case Conv():
                bias = layer.bias or layer.norm == "center"
                conv = nn.Conv2d(
                    inputs[0][2], layer.filters, layer.kernel, layer.stride, groups=layer.groups, bias=bias
                )
                return self.after(layer, [self.pad(layer, inputs[0]), conv], nn.BatchNorm2d)
            case Dense():
                shape = inputs[0]
                size = shape[0] if len(shape) == 1 else shape[0] * shape[1] * shape[2]
                return self.after(
                    layer, [nn.Flatten(1), nn.Linear(size, layer.features, bias=layer.bias)], nn.BatchNorm1d
                )
            case Pool() if layer.grid is not None:
                return nn.AdaptiveAvgPool2d(layer.grid)
            case Pool():
                kind = nn.MaxPool2d if layer.kind == "maxpool" else nn.AvgPool2d
                (kernel, stride), padding = layer.window(inputs[0]), 0
                if isinstance(layer.padding, tuple):
                    padding = layer.padding
                pool = kind(kernel, stride, padding, ceil_mode=layer.ceil)
                return nn.Sequential(self.pad(layer, inputs[0]), pool) if layer.padding == "same" else pool
            case LocalResponseNorm():
                return nn.LocalResponseNorm(layer.size)
            case Dropout():
                return nn.Dropout(layer.rate)
            case Softmax():
                return nn.Sequential(nn.Flatten(1), nn.Softmax(1))
        return None

    @staticmethod
    def after(layer, parts, norm):
        if layer.norm == "batch":
            parts.append(norm(parts[-1].out_channels))
        if layer.activation:
            parts.append(nn.ReLU())
        return nn.Sequential(*parts)

    @staticmethod
    def pad(layer, shape):
        if layer.padding == "valid":
            return nn.Identity()
        if layer.padding != "same":
            rows, columns = layer.padding
            return nn.ZeroPad2d((columns, columns, rows, rows))
        sides = []
        for axis in (1, 0):
            kernel, stride = layer.kernel[axis], (layer.stride or layer.kernel)[axis]
            before = max(0, padding_of("same", axis, shape[axis], kernel, stride))
            sides += [before, max(0, (-(-shape[axis] // stride) - 1) * stride + kernel - shape[axis] - before)]
        return nn.ZeroPad2d(tuple(sides))

    def forward(self, x):
        values = {}
        for layer in self.network.layers:
            inputs = [values[parent] for parent in layer.parents]
            match layer:
                case Input():
                    value = x
                case Add():
                    value = inputs[0]
                    for other in inputs[1:]:
                        value = value + other
                    value = torch.relu(value) if layer.activation else value
                case Concat():
                    value = torch.cat(inputs, dim=1)
                case Shortcut():
                    rows, columns = layer.stride
                    extra = layer.filters - self.network.inputs_of(layer)[0][2]
                    value = nn.functional.pad(inputs[0][:, :, ::rows, ::columns], (0, 0, 0, 0, 0, extra))
                case _:
                    value = self.parts[self.key(layer.name)](inputs[0])
            values[layer.name] = value
        return value


@pytest.mark.parametrize("name", sorted(set(SHIPPED) - {network_of_model(name).name for name in WORKER_MODELS}))
def test_a_twin_of_every_other_network_counts_the_same_in_torch(name):
    from torch.utils.flop_counter import FlopCounterMode

    network = shipped(name)
    sums = totals(network)
    with torch.device("meta"):
        twin = Twin(network).eval()
        height, width, channels = network.input.shape
        sample = torch.empty(2, channels, height, width)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        output = twin(sample)
    macs = sums.work.macs
    last = network.shapes[network.layers[-1].name]
    assert sum(parameter.numel() for parameter in twin.parameters()) == sums.parameters
    assert counter.get_total_flops() == 2 * 2 * macs
    assert tuple(output.shape) == (2, *(last if len(last) == 1 else (last[2], *last[:2])))
    traced = totals(trace(twin, network.input.shape))
    assert (traced.parameters, traced.work.macs) == (sums.parameters, macs)
    assert (traced.work.pooled, traced.work.lrn, traced.depth) == (sums.work.pooled, sums.work.lrn, sums.depth)


class Small(nn.Module):
    """Functions where modules could be, and what a CNN seldom has."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding="same", bias=False)
        self.norm = nn.BatchNorm2d(8)
        self.up = nn.ConvTranspose2d(8, 4, 2, stride=2)
        self.head = nn.Linear(4, 5)

    def forward(self, x):
        y = nn.functional.relu(self.norm(self.conv(x)))
        y = nn.functional.max_pool2d(y, 2) + nn.functional.avg_pool2d(y, 2)
        y = nn.functional.gelu(self.up(y))
        y = nn.functional.dropout(y.mean([2, 3]), 0.25, self.training)
        return self.head(y).softmax(1)


def test_functions_are_read_as_the_layers_they_are():
    network = trace(Small(), (16, 16, 3), name="small")
    assert [(layer.kind, network.shapes[layer.name]) for layer in network.layers] == [
        ("input", (16, 16, 3)), ("conv", (16, 16, 8)), ("maxpool", (8, 8, 8)), ("avgpool", (8, 8, 8)),
        ("add", (8, 8, 8)), ("deconv", (16, 16, 4)), ("avgpool", (1, 1, 4)), ("dropout", (1, 1, 4)), ("fc", (5,)),
        ("softmax", (5,)),
    ]  # fmt: skip
    conv = network.by_name["conv"]
    assert (conv.norm, conv.activation, conv.bias) == ("batch", "relu", False)
    assert network.by_name["up"].activation == "gelu"
    assert totals(network).parameters == sum(p.numel() for p in Small().parameters())


class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 3, 1)

    def forward(self, x):
        return self.conv(self.conv(x))


def test_a_layer_used_twice_is_counted_twice_and_said_to_be():
    network = trace(Twice(), (8, 8, 3))
    assert totals(network).parameters == 24
    assert "Used more than once and counted at each use: conv." in network.notes


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(3, 1, 1))

    def forward(self, x):
        return x * self.scale


class Branching(nn.Module):
    def forward(self, x):
        return x if x.sum() > 0 else -x


@pytest.mark.parametrize(
    ("module", "message"),
    [
        (Scaled(), "layer scale: values outside a known layer are not supported"),
        (nn.Sequential(nn.Linear(8, 2)), r"layer 0: Linear outputs \(1, 3, 8, 2\); only vectors are supported"),
        (nn.Sequential(nn.Flatten(2)), r"flatten outputs \(1, 3, 64\); only maps and vectors are supported"),
        (nn.Sequential(nn.LayerNorm([3, 8, 8])), "layer 0: unsupported LayerNorm with 384 parameters"),
        (nn.Sequential(nn.PReLU()), "layer 0: unsupported PReLU with 1 parameters"),
        (Branching(), "Branching cannot be traced"),
        (nn.Linear(7, 2), "Linear cannot be traced"),
        ("no module", "expected a torch.nn.Module"),
    ],
)
def test_what_is_no_cnn_is_refused_in_one_line(module, message):
    with pytest.raises(NetworkError, match=message) as error:
        trace(module, (8, 8, 3))
    assert "\n" not in str(error.value)


def test_references():
    assert trace_reference("torch.nn:Identity", (8, 8, 3)).name == "Identity"
    for reference, message in [
        ("no.such.package:name", "cannot be imported"),
        ("torch.nn:NoSuchModule", "cannot be imported"),
        ("torch.nn:Conv2d", "cannot be called without arguments"),
        ("math:pi", "neither a torch.nn.Module nor a function that makes one"),
        ("os:getpid", "expected a torch.nn.Module"),
    ]:
        with pytest.raises(NetworkError, match=message):
            trace_reference(reference, (8, 8, 3))
