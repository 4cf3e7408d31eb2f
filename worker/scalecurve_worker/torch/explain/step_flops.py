"""FLOPs of one step of anyone's loop, counted while it runs.

The conventions are those of :mod:`scalecurve_worker.torch.flops`: matrix products and convolutions by torch's own
formulas (``torch.utils.flop_counter``), forward and backward. What activation checkpointing computes again in the
backward pass is counted apart, as it is the hardware's work and not the model's.

torch.compile never compiles a function that first runs while a step is counted, so a program that compiles is not
counted like this: its model is run once more on the meta device.
"""

from collections import Counter
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch._ops import HigherOrderOperator
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only
from torch.utils.flop_counter import flop_registry

from scalecurve_worker.torch.flops import FlopCountError, Precision, count_call_flops

_ATEN = torch.ops.aten
# Attention on CPUs, which torch's counter omits, has the arguments of the kernel for GPUs.
_ON_CPU = {
    _ATEN._scaled_dot_product_flash_attention_for_cpu: _ATEN._scaled_dot_product_flash_attention,
    _ATEN._scaled_dot_product_flash_attention_for_cpu_backward: _ATEN._scaled_dot_product_flash_attention_backward,
}
_PRECISIONS: dict[torch.dtype, Precision] = {
    torch.float32: "fp32",
    torch.bfloat16: "bf16",
    torch.float16: "fp16",
}
_STANDARD = {"aten", "prim", "prims", "c10d", "_c10d_functional", "fsdp", "profiler"}


class StepFlops(NamedTuple):
    """FLOPs of a step, without what is computed again; the arithmetic of most of them, where it is known.

    ``outside`` are those of ``model`` in neither a forward nor a backward pass, as an optimizer's own products.
    """

    model: int
    precision: Precision | None
    note: str | None = None
    recomputed: int = 0
    outside: int = 0


class StepCounter:
    """Counts the step between ``begin`` and ``end``."""

    def __init__(self) -> None:
        self._mode: Any = None  # torch leaves it without types
        self._call: _FirstCall | None = None

    def begin(self, model: nn.Module | None) -> None:
        """Begin to count the next step; ``model`` is what to run again where the program compiles."""
        if not compiles():
            self._mode = _Counting()
            self._mode.__enter__()
        elif model is not None:
            self._call = _FirstCall(model)

    def end(self) -> StepFlops:
        """Return the step's FLOPs.

        Raises:
            FlopCountError: nothing could be counted; the message says why.
        """
        if self._mode is not None:
            mode, self._mode = self._mode, None
            mode.__exit__(None, None, None)
            result: StepFlops = mode.result()
            return result
        if self._call is None:
            raise FlopCountError("the program compiles, and its model is not known: pass it to attach()")
        return self._call.count()


def compiles() -> bool:
    """Tell whether torch.compile has compiled anything in this process."""
    return bool(torch._dynamo.utils.counters["frames"]["total"])


class _Counting(TorchDispatchMode):  # type: ignore[no-untyped-call]  # torch leaves it without types
    supports_higher_order_operators = True

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._by_type: Counter[torch.dtype] = Counter()
        self._recomputed = self._outside = 0
        self._foreign: set[str] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if isinstance(func, HigherOrderOperator) or any(kind not in (Tensor, nn.Parameter) for kind in types):
            return NotImplemented  # it comes again, as operations on what a DTensor or another such tensor holds
        keywords = kwargs or {}
        result = func(*args, **keywords)
        packet: Any = getattr(func, "_overloadpacket", None)
        formula = flop_registry.get(_ON_CPU.get(packet, packet))
        if formula is not None:
            try:
                self._add(int(formula(*args, **keywords, out_val=result)), args)
            except Exception:  # an error of a formula must not be the program's
                self._foreign.add(str(packet))
        elif getattr(func, "namespace", "aten") not in _STANDARD and any(isinstance(each, Tensor) for each in args):
            self._foreign.add(f"{func.namespace}::{packet.__name__ if packet else func}")
        return result

    def _add(self, flops: int, args: Any) -> None:
        if _again():
            self._recomputed += flops
            return
        if not torch.is_grad_enabled() and torch._C._current_graph_task_id() == -1:
            self._outside += flops
        operand = next((each for each in args if isinstance(each, Tensor)), None)
        self._by_type[operand.dtype if operand is not None else torch.float32] += flops

    def result(self) -> StepFlops:
        total = self._by_type.total()
        if not total:
            raise FlopCountError("no matrix product or convolution of torch ran in the counted step")
        kind, _ = self._by_type.most_common(1)[0]
        note = f"without operations that torch cannot count: {', '.join(sorted(self._foreign)[:3])}"
        return StepFlops(total, _precision(kind), note if self._foreign else None, self._recomputed, self._outside)


class _FirstCall:
    """What the model was called with first in a step, as shapes, and under which autocast."""

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        self._calls: list[tuple[Any, Any]] = []
        self._narrow: torch.dtype | None = None
        self._handle = model.register_forward_pre_hook(self._keep, with_kwargs=True)

    def count(self) -> StepFlops:
        self._handle.remove()
        if not self._calls:
            raise FlopCountError("the model that attach() got was not called in the counted step")
        inner = self._model
        while (module := getattr(inner, "_orig_mod", None) or getattr(inner, "module", None)) is not None:
            inner = module
        # Micro-batches of one shape are counted once.
        shapes = Counter(map(_shapes, self._calls))
        one_of = {_shapes(call): call for call in self._calls}
        total = sum(count_call_flops(inner, *one_of[shape]).total * times for shape, times in shapes.items())
        first = next(iter(inner.parameters()))
        return StepFlops(total, _precision(self._narrow or first.dtype), "counted on the meta device")

    def _keep(self, _: nn.Module, args: Any, keywords: Any) -> None:
        if not torch.is_grad_enabled():
            return
        self._calls.append(tree_map_only(Tensor, lambda each: torch.empty_like(each, device="meta"), (args, keywords)))
        kinds = [each.device.type for each in tree_leaves((args, keywords)) if isinstance(each, Tensor)]
        if kinds and torch.is_autocast_enabled(kinds[0]):
            self._narrow = torch.get_autocast_dtype(kinds[0])


def _shapes(call: tuple[Any, Any]) -> str:
    return str([(tuple(each.shape), each.dtype) if isinstance(each, Tensor) else each for each in tree_leaves(call)])


def _again() -> bool:
    """Whether a forward operation runs within the backward pass: activation checkpointing, not the model."""
    return torch._C._current_graph_task_id() != -1 and torch.is_grad_enabled()


def _precision(kind: torch.dtype) -> Precision | None:
    precision = _PRECISIONS.get(kind)
    return "tf32" if precision == "fp32" and _narrow_products() else precision


def _narrow_products() -> bool:
    try:
        return torch.get_float32_matmul_precision() != "highest"
    except RuntimeError:
        # The program has set it by the newer interface, beside which torch refuses to read the older one.
        return bool(getattr(torch.backends.cuda.matmul, "fp32_precision", "") == "tf32")
