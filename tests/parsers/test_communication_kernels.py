"""Names of communication kernels: library, operation, and what resembles communication."""

from __future__ import annotations

from pathlib import Path

import pytest

from ccltui.parsers.communication_kernels import (
    bare_kernel_name,
    communication_kernel,
    operation_in,
    resembles_communication,
)

NAMES = [
    ("deepep", "AllToAll", "void deep_ep::intranode::dispatch<4, 768>(int4*, float*)"),
    ("deepep", "AllToAll", "void dpsk::ep::internode::notify_combine<false>(int*)"),
    ("deepep", "Barrier", "void deep_ep::intranode::cached_notify_combine<8>(int**)"),
    ("deepep", "Recv", "void deep_ep::elastic::pp_recv_impl<8>(void*)"),
    ("hybrid-ep", "AllToAll", "void hybrid_ep::combine_kernel<4>(hybrid_ep::param_t)"),
    ("trtllm-a2a", "AllToAll", "void flashinfer::trtllm_alltoall::moeAllToAllKernel<true>(int)"),
    ("vllm", "AllReduce", "void sglang::cross_device_reduce_2stage<__half, 4>(sglang::RankData*)"),
    ("aiter", "AllReduce", "_ZN5aiter32allreduce_fusion_kernel_2stage_pIDF16bLi8EEEvv"),
    ("nccl", "ReduceScatter", "_Z40ncclDevKernel_ReduceScatter_Sum_f32_RING24ncclDevKernelArgs"),
    ("nccl-symm", "AllGather", "ncclSymkDevKernel_AllGather_LL(ncclSymkDevWorkArgs)"),
    ("rccl-msccl", "Generic", "mscclKernel_Sum_half_Simple_false"),
    ("nccl", "Generic", "rccl_main_kernel_nolds(ncclDevComm*, unsigned long, ncclWork*)"),
    ("mscclpp", "AllGather", "void mscclpp::collective::allgatherFullmesh<4>(void*)"),
    ("xccl", "AllGather", "oneccl_allgather_small<float>(float*)"),
    ("hccl", "Broadcast", "hcom_broadcast__1_2_3"),
    ("userbuffers", "AllGather", "void userbuffers_fp16_sum_inplace_gpu_rr_ag<4>(int)"),
    ("nvshmem", "AllReduce", "void sum_reduce_on_stream_kernel<float>(int)"),
    ("torch-symm", "AllGather", "void (anonymous namespace)::multimem_all_gather_kernel<16>(int)"),
    (
        "torch-symm",
        "ReduceScatter",
        "void two_shot_all_reduce_kernel<c10::Half, 16, 4, true, false>(c10::Half**)",
    ),
    (
        "torch-symm",
        "AllReduce",
        "void two_shot_all_reduce_kernel<c10::Half, 16, 4, false, false>(c10::Half**)",
    ),
    ("torch-symm", "Barrier", "void barrier_kernel(unsigned int**, int, int, unsigned long)"),
    ("nccl", "AllReduce", "ncclDevKernel_AllReduce_Sum_f32_RING_LL.kd"),
    ("xla", "AllToAll", "ragged-all-to-all-start.12"),
]


@pytest.mark.parametrize(("library", "operation", "name"), NAMES)
def test_library_and_operation_of_a_name(library: str, operation: str, name: str) -> None:
    found = communication_kernel(name)

    assert found is not None
    assert (found.library, found.operation, found.is_certain) == (library, operation, True)


@pytest.mark.parametrize(
    "name",
    [
        "void deep_ep::layout::get_dispatch_layout<256, 32>(long const*, int*)",
        "void deep_ep::elastic::dispatch_copy_epilogue_impl<8>(void*)",
        "flash_fwd_splitkv_combine_kernel(Flash_fwd_params)",
        "void barrier_kernel(float*)",
        "void at::native::reduce_kernel<128, 4, Op<float>>(Op<float>)",
        "void fused_norm<float>(hybrid_ep::dispatch_kernel_param_t, AllReduceFusionParams)",
        "_all_to_all_offset_kernel",
        "",
    ],
)
def test_names_that_are_no_communication(name: str) -> None:
    assert communication_kernel(name) is None


def test_words_of_a_python_function_are_uncertain() -> None:
    found = communication_kernel("_quantised_all_to_all_v_kernel")

    assert found is not None
    assert (found.operation, found.is_certain) == ("AllToAll", False)


@pytest.mark.parametrize(
    ("name", "resembles"),
    [
        ("void acme::peer_copy_ring(float*)", True),
        ("void acme::fancy_allreduce(float*)", True),
        ("void deep_ep::layout::get_dispatch_layout<8>(int*)", False),
        ("void at::native::reduce_kernel<128, 4>(int)", False),
        ("sm90_xmma_gemm_bf16bf16", False),
        ("ncclDevKernel_AllReduce_Sum_f32_RING_LL(int)", False),
    ],
)
def test_unknown_kernels_with_a_word_of_communication(name: str, *, resembles: bool) -> None:
    assert resembles_communication(name) is resembles


@pytest.mark.parametrize(
    ("text", "operation"),
    [
        ("reduce_scatter_tensor", "ReduceScatter"),
        ("all-gather", "AllGather"),
        ("moe_a2a", "AllToAll"),
        ("hcom_receive_1", "Recv"),
        ("nothing of it", "Other"),
    ],
)
def test_operation_by_word(text: str, operation: str) -> None:
    assert operation_in(text) == operation


@pytest.mark.parametrize(
    ("name", "bare"),
    [
        ("void a::b<c::d>(e::f)", "a::b"),
        ("static void (anonymous namespace)::k<1>(int) [clone .kd]", "k"),
        ("_ZN1a12_GLOBAL__N_13fooILi1EEEvv", "a::foo"),
        ("_Z3barv", "bar"),
        ("_Z", ""),
        ("_Z99999short", "short"),
    ],
)
def test_bare_names(name: str, bare: str) -> None:
    assert bare_kernel_name(name) == bare


def test_recorded_and_published_names(shared: Path) -> None:
    table = shared / "commlogs" / "kernel_names.tsv"
    if not table.exists():
        pytest.skip(f"no {table}")
    wrong = []
    for line in table.read_text().splitlines()[1:]:
        _, library, operation, name = line.split("\t")
        found = communication_kernel(name)
        if (library, operation) != ("-", "-"):
            if found is None or (found.library, found.operation) != (library, operation):
                wrong.append((name, found))
        elif found is not None:
            wrong.append((name, found))
    assert wrong == []
