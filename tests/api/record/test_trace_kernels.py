"""Time by class of kernel and by collective, from events as torch's profiler has them."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scalecurve_api.record.trace_kernels import (
    OPTIMIZER,
    TraceEvent,
    alone,
    collective_kind,
    exposed_share,
    kernel_class,
    merged,
    own_times,
    summarize,
)

SPANS = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 12)).map(lambda pair: (pair[0], pair[0] + pair[1])))


def ticks(spans: list[tuple[int, int]]) -> set[int]:
    return {tick for start, end in spans for tick in range(start, end)}


@given(SPANS, SPANS)
def test_time_of_communication_alone(communication: list[tuple[int, int]], computing: list[tuple[int, int]]) -> None:
    assert alone(communication, computing) == len(ticks(communication) - ticks(computing))


@given(SPANS)
def test_merged_spans_are_the_same_time_in_order(spans: list[tuple[int, int]]) -> None:
    result = merged(spans)
    assert ticks(result) == ticks(spans)
    assert all(before[1] < after[0] for before, after in itertools.pairwise(result))
    assert all(start < end for start, end in result)


def test_hidden_communication_costs_nothing() -> None:
    assert alone([(10, 20)], [(0, 30)]) == 0
    assert alone([(10, 40)], [(0, 30), (25, 35)]) == 5
    assert alone([(10, 20)], []) == 10


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("aten::addmm", "matrix product"),
        ("aten::_linear_pointwise", "matrix product"),
        ("aten::mkldnn_convolution", "convolution"),
        ("aten::convolution_backward", "convolution"),
        ("aten::native_batch_norm_backward", "normalization"),
        ("aten::_scaled_dot_product_flash_attention_for_cpu", "attention"),
        ("aten::_log_softmax", "softmax and loss"),
        ("aten::_foreach_add_", OPTIMIZER),
        ("aten::max_pool2d_with_indices", "pooling"),
        ("aten::embedding_dense_backward", "embedding and indexing"),
        ("aten::copy_", "copy"),
        ("aten::sum", "reduction"),
        ("aten::relu_", "elementwise and other"),
        ("aten::adaptive_avg_pool2d", "pooling"),
        ("aten::upsample_bilinear2d", "elementwise and other"),
        ("nvjet_tst_128x256_64x4_2x1_v_bz_coopA_TNN", "matrix product"),
        ("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1", "matrix product"),
        ("void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_bf16_128x64_ldg8_f2f_nn>", "matrix product"),
        ("sm80_xmma_dgrad_implicit_gemm_bf16bf16_bf16f32_f32_nhwckrsc_nhwc_tilesize128x128x32", "convolution"),
        ("void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64, 128, 128, 4>>", "attention"),
        ("void cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float, int, 512, true, 1, true>", "normalization"),
        ("void at::native::(anonymous namespace)::multi_tensor_apply_kernel<TensorListMetadata<4>>", OPTIMIZER),
        ("void at::native::vectorized_elementwise_kernel<4, at::native::BinaryFunctor>", "elementwise and other"),
        ("triton_poi_fused_gelu_3", "elementwise and other"),
        ("void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float>>", "reduction"),
        ("Memcpy HtoD (Pinned -> Device)", "copy"),
    ],
)  # fmt: skip
def test_classes_of_kernels(name: str, expected: str) -> None:
    assert kernel_class(name) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("gloo:all_reduce", "all-reduce"),
        ("nccl:_all_gather_base", "all-gather"),
        ("nccl:_reduce_scatter_base", "reduce-scatter"),
        ("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "all-reduce"),
        ("ncclDevKernel_ReduceScatter_Sum_f32_RING_LL", "reduce-scatter"),
        ("ncclDevKernel_SendRecv", "send and receive"),
        ("ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*, unsigned long, ncclWork*)", "all-reduce"),
        ("nccl:all_to_all", "all-to-all"),
        ("gloo:broadcast", "broadcast"),
        ("nccl:send 0->1", "send and receive"),
    ],
)
def test_kinds_of_collectives(name: str, expected: str) -> None:
    assert collective_kind(name) == expected


def times(events: list[TraceEvent]) -> dict[str, tuple[int, int]]:
    return {row.name: (row.calls, row.ns) for row in own_times(events)}


def test_own_time_is_without_what_runs_inside() -> None:
    nested = [
        TraceEvent("aten::linear", 0, 100, 1),
        TraceEvent("aten::copy_", 10, 30, 1),
        TraceEvent("aten::addmm", 30, 90, 1),
        TraceEvent("aten::relu", 100, 110, 1),
        TraceEvent("aten::addmm", 50, 70, 2),  # of another thread
    ]
    assert times(nested) == {"matrix product": (3, 100), "copy": (1, 20), "elementwise and other": (1, 10)}


def test_all_that_an_optimizer_calls_is_its_own() -> None:
    stepping = [TraceEvent("Optimizer.step#SGD.step", 0, 50, 1), TraceEvent("aten::copy_", 5, 25, 1)]
    assert times([*stepping, TraceEvent("aten::copy_", 60, 61, 1)]) == {OPTIMIZER: (1, 20), "copy": (1, 1)}


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 10)), max_size=12))
def test_own_times_of_one_thread_are_the_time_in_any(inside: list[tuple[int, int]]) -> None:
    """Of operations that nest, as those of a thread do: here each ends before its caller."""
    events, end = [], 100
    for number, (gap, length) in enumerate(inside):
        start = number * 3
        end = max(start + 1, end - gap)
        events.append(TraceEvent("aten::mm" if length % 2 else "aten::copy_", start, end, 1))
    spans = [(event.start, event.end) for event in events]
    nests = all(later[1] <= earlier[1] for earlier, later in itertools.pairwise(spans))
    if nests:
        assert sum(ns for _, ns in times(events).values()) == sum(end - start for start, end in merged(spans))


EVENTS = st.lists(
    st.builds(
        lambda name, start, length, device: TraceEvent(name, start, start + length, 1, device, 8),
        st.sampled_from(["aten::mm", "ncclDevKernel_AllReduce", "gemm", "Memcpy HtoD", "gloo:all_reduce", "other"]),
        st.integers(0, 80),
        st.integers(1, 20),
        st.booleans(),
    ),
    max_size=15,
)


@given(EVENTS, st.sampled_from(["cpu", "cuda"]))
def test_the_parts_add_up_to_the_steps(events: list[TraceEvent], device: str) -> None:
    found = summarize(events, "cuda" if device == "cuda" else "cpu", 2, 100)
    assert found.computing_ns + found.copy_ns + found.exposed_ns + found.idle_ns == 100
    assert found.exposed_ns <= found.communication_ns
    assert found.copy_ns == 0 or device == "cuda"
    share = exposed_share(found)
    assert (share is None) == (found.communication_ns == 0)


def test_kernels_of_older_nccl_are_communication() -> None:
    """As they were named before NCCL 2.19."""
    found = summarize([TraceEvent("ncclKernel_AllReduce_RING_LL_Sum_float", 0, 30, 7, True)], "cuda", 1, 30)
    assert (found.communication_ns, found.computing_ns, found.kernels) == (30, 0, [])


def test_a_gpu_has_bytes_from_the_host_and_time_from_its_kernels() -> None:
    events = [
        TraceEvent("nccl:all_reduce", 0, 3, 1, on_device=False, bytes=4000),
        TraceEvent("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 10, 40, on_device=True),
        TraceEvent("sm90_xmma_gemm_f32", 0, 30, on_device=True),
        TraceEvent("Memcpy HtoD (Pinned -> Device)", 50, 55, on_device=True),
        TraceEvent("aten::mm", 0, 2, 1),
    ]
    found = summarize(events, "cuda", 1, 60)
    assert (found.computing_ns, found.exposed_ns, found.copy_ns, found.idle_ns) == (30, 10, 5, 15)
    assert [row.wire() for row in found.collectives] == [{"name": "all-reduce", "calls": 1, "bytes": 4000, "ns": 30}]
    assert [(row.name, row.ns) for row in found.kernels] == [("matrix product", 30), ("copy", 5)]
