"""Classification of kernels by name and metadata."""

from __future__ import annotations

import pytest
from factories import Coll, Event, allreduce, copy, kernel, rank_trace

from ccltui.metrics.model.classify import (
    COMM,
    COMP,
    MEM,
    TYPES,
    classes_of,
    is_call,
    is_collective_kernel,
    is_named_compute,
    normalise,
    reduced_dtype,
    type_of_kernel,
    type_of_operation,
)

STORAGE = "(ncclDevKernelArgsStorage<4096ul>)"


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*, unsigned long)", "AllReduce"),
        ("ncclKernel_AllReduce_TREE_LL_Sum_half(ncclWorkElem)", "AllReduce"),
        (f"ncclDevKernel_AllReduce_Sum_bf16_TREE_LL{STORAGE}", "AllReduce"),
        (f"ncclDevKernel_ReduceScatter_Sum_f32_RING_LL{STORAGE}", "ReduceScatter"),
        (f"ncclDevKernel_AllGather_RING_LL{STORAGE}", "AllGather"),
        ("ncclKernel_Broadcast_RING_LL_Sum_int8_t(ncclDevComm*)", "Broadcast"),
        (f"ncclDevKernel_Reduce_Sum_f32_RING_LL{STORAGE}", "Reduce"),
        ("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclWorkElem)", "SendRecv"),
        (f"ncclDevKernel_SendRecv{STORAGE}", "SendRecv"),
        (f"ncclDevKernel_Generic{STORAGE}", "Generic"),
        ("ncclDevKernel_Generic_4(ncclDevKernelArgsStorage<4096ul>)", "Generic"),
        ("ncclSymkDevKernel_AllReduce_RSxLD_AGxST_Sum_bf16(ncclSymkDevWorkArgs)", "AllReduce"),
        ("ncclSymDevKernel_AllGather_LL(ncclSymDevArgs)", "AllGather"),
        ("void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(RankData*)", "AllReduce"),
        (
            "void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, 16>(int)",
            "AllReduce",
        ),
        ("void two_shot_all_reduce_kernel<c10::BFloat16, 8>(int)", "AllReduce"),
        ("void mscclpp_allreduce_kernel<float>(float*)", "AllReduce"),
        ("nvshmemx_alltoall_kernel(int)", "AllToAll"),
        ("void deep_ep::intranode::dispatch<4, 768, 8192>(int4*)", "AllToAll"),
        ("void deep_ep::internode_ll::combine<true, 7168>(void*)", "AllToAll"),
        ("void deep_ep::intranode::notify_dispatch<8>(int const*)", "AllToAll"),
        ("rcclKernel_something(int)", "Other"),
    ],
)
def test_kernels_of_communication_libraries_and_their_type(name: str, kind: str) -> None:
    assert is_collective_kernel(name)
    assert TYPES[type_of_kernel(name)] == kind


@pytest.mark.parametrize(
    "name",
    [
        "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float>>(int)",
        "void cub::DeviceReduceKernel<float>(float*)",
        "void splitKreduce_kernel<32, 16, int, float>(int)",
        "void at::native::_scatter_gather_elementwise_kernel<128, 8>(int)",
        "sm80_xmma_gemm_f32f32_tn",
        "void convert_send_buffer(float*)",
        "reduce_1Block_kernel(int)",
        "_combined_routing_compute",
        "void dispatch<float>(int)",
        "paged_attention_ll4mi_reduce_kernel",
        "aten::broadcast_tensors",
    ],
)
def test_substrings_do_not_make_a_kernel_communication(name: str) -> None:
    assert not is_collective_kernel(name)


@pytest.mark.parametrize(
    ("operation", "kind"),
    [
        ("allreduce", "AllReduce"),
        ("_allgather_base", "AllGather"),
        ("all_gather_into_tensor_coalesced", "AllGather"),
        ("_reduce_scatter_base", "ReduceScatter"),
        ("reduce_scatter_tensor_coalesced_", "ReduceScatter"),
        ("all_to_allv", "AllToAll"),
        ("all_to_all", "AllToAll"),
        ("alltoall_base_", "AllToAll"),
        ("broadcast_", "Broadcast"),
        ("reduce_", "Reduce"),
        ("gather_", "Gather"),
        ("scatter_", "Scatter"),
        ("send", "Send"),
        ("recv_any_source_", "Recv"),
        ("monitored_barrier_", "Barrier"),
        ("coalesced", "Other"),
        ("", "Other"),
    ],
)
def test_type_of_a_recorded_operation(operation: str, kind: str) -> None:
    assert TYPES[type_of_operation(operation)] == kind


def test_spellings_of_one_operation_agree() -> None:
    assert normalise("_allgather_base") == normalise("all_gather_into_tensor_coalesced")


def test_a_wait_is_recorded_but_is_no_call() -> None:
    assert not is_call("wait")
    assert not is_call("wait_tensor")
    assert is_call("barrier")


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("ncclDevKernel_AllReduce_Sum_f16_RING_LL(ncclDevComm*)", "Half"),
        ("ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(int)", "BFloat16"),
        ("ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*)", "Float"),
        ("ncclDevKernel_AllReduce_Sum_u64_TREE_LL(int)", "UInt64"),
        # Kernels that only move data are compiled for bytes, whatever they carry.
        ("ncclKernel_Broadcast_RING_LL_Sum_int8_t(ncclDevComm*)", ""),
        ("ncclDevKernel_AllGather_RING_LL(int)", ""),
    ],
)
def test_dtype_of_a_reduction_is_in_its_kernel_name(name: str, dtype: str) -> None:
    assert reduced_dtype(name) == dtype


def test_category_has_precedence_over_metadata_and_metadata_over_names() -> None:
    trace = rank_trace(
        gpu=[
            kernel("sm80_xmma_gemm", 0, 1),
            allreduce(1, 1),
            copy(2, 1),
            Event("nccl_looking_copy_ncclDevKernel_", 3, 1, category="Memset"),
            kernel("vendor_allreduce_nobody_knows", 4, 1, coll=Coll("allreduce")),
            kernel("old_style", 5, 1, coll=Coll(op="")),  # sizes, but no operation's name
        ]
    )

    assert classes_of(trace).tolist() == [COMP, COMM, MEM, MEM, COMM, COMP]


def test_a_rank_without_device_work_has_no_classes() -> None:
    assert classes_of(rank_trace()).tolist() == []


def test_narrow_set_of_computation_is_by_name() -> None:
    assert is_named_compute("ampere_sgemm_128x64_tn")
    assert is_named_compute("void cudnn::ops::implicit_convolve_sgemm<float>(int)")
    assert not is_named_compute("void at::native::vectorized_elementwise_kernel<4>(int)")
