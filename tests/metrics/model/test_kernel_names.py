"""Names of kernels: their classes, and parts of one kernel."""

from __future__ import annotations

import pytest
from factories import Coll, Event, allreduce, copy, job, kernel, rank_trace, world
from hypothesis import given
from hypothesis import strategies as st

from ccltui.metrics.model import classify
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
from ccltui.metrics.model.kernel_names import CATEGORIES, RULES, bare_name, category_of
from ccltui.metrics.view.job_view import View
from ccltui.parsers.columns import RankTrace

NAMES = {
    "ampere_fp16_s16816gemm_fp16_128x128_ldg8_f2f_stages_32x5_tn": "gemm",
    "Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT256x192x64_MI16x16x1": "gemm",
    "nvjet_tst_128x256_64x4_1x2_h_bz_coopB_TNT": "gemm",
    "void gemv2T_kernel_val<int, int, float, float>(cublasGemvParams<float>)": "gemm",
    "triton_tem_fused_bmm_12": "gemm",
    "void fbgemm_gpu::permute_2D_data_kernel<false, int, long>(int)": "copy",
    "transpose_readWrite_alignment_kernel<float2>(cublasTransposeParams<float2>)": "copy",
    "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<64>>(Params)": "attention",
    "fmha_cutlassF_f32_aligned_64x64_rf_sm80(PyTorchMemEffAttention::Params)": "attention",
    "aiter::fmha_fwd_hd128_bf16_rtz": "attention",
    "void vllm::reshape_and_cache_flash_kernel<bf16>(bf16*)": "copy",
    "void vllm::rotary_embedding_kernel<c10::BFloat16, true>(long const*)": "elementwise",
    "triton_poi_fused__to_copy_add_cat_fmha_v3_fwd_mul_neg_13": "elementwise",
    "triton_red_fused_add_addmm_mul_native_layer_norm_split_18": "norm",
    "triton_per_fused_add_mean_pow_24": "reduction",
    "void cuApplyLayerNorm<c10::Half, float, c10::Half>(c10::Half*)": "norm",
    "void cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float, int, 512>(Tensor4d)": "norm",
    "volta_scudnn_128x64_stridedB_splitK_xregs_large_nn_v1": "convolution",
    "void implicit_convolve_sgemm<float, float, 128, 6, 7, 3>(int)": "convolution",
    "void multi_tensor_apply_kernel<TensorListMetadata<4>, AdamFunctor<float>>(long)": "optimizer",
    "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<LpNormFunctor>(T)": (
        "optimizer"
    ),
    "void split_embedding_codegen_forward_unweighted_kernel<float>(int)": "embedding",
    "void (anonymous namespace)::softmax_warp_forward<float, float, float, 8>(float*)": "softmax",
    "moe::dev::routing::routingIndicesHistogramKernel": "moe",
    "_matmul_ogs_NNT_bf16xbf16xmxfp4_16x128x256x1_swiglu": "moe",
    "void cub::DeviceRadixSortOnesweepKernel<Policy800, false, long>(int)": "sort",
    "void at::native::elementwise_kernel<128, 2, direct_copy_kernel_cuda(Iter&)::f>(int)": "copy",
    "void at::native::(anonymous namespace)::CatArrayBatchedCopy<float, 4>(float*)": "copy",
    "void at::native::vectorized_elementwise_kernel<4, CUDAFunctor_add<float>>(int)": "elementwise",
    "void at::native::reduce_kernel<512, 1, ReduceOp<float, MeanOps<float>>>(ReduceOp)": (
        "reduction"
    ),
    "void at::native::indexSelectLargeIndex<float, long>(Info)": "gather",
    "void at::native::(anonymous namespace)::fused_dropout_kernel_vec<float>(Info)": "random",
    "my_very_own_kernel": "other",
}


@pytest.mark.parametrize(("name", "category"), NAMES.items())
def test_categories(name: str, category: str) -> None:
    assert category_of(name) == category


def test_every_rule_has_a_category_and_other_is_last() -> None:
    assert {category for category, _ in RULES} == set(CATEGORIES[:-1])
    assert CATEGORIES[-1] == "other"


@pytest.mark.parametrize(
    ("name", "bare"),
    [
        (
            "void at::native::(anonymous namespace)::foo<int, bar<2> >(int, char*)",
            "at::native::foo",
        ),
        ("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)", None),
        ("sgemm_32x32", "sgemm_32x32"),
        ("void (anonymous namespace)::bare(int)", "bare"),
        ("std::enable_if<(bool)1, void>::type vllm::f<int>(x)", "std::enable_if::type vllm::f"),
        ("f<g<(1)>(2)>(int)", "f"),
        ("f<g<1>, h<2>>::k<(3)>(int)", "f::k"),
        ("", ""),
        ("(", "("),
        ("unclosed<int", "unclosed"),
    ],
)
def test_bare_names(name: str, bare: str | None) -> None:
    assert bare_name(name) == (name.partition("(")[0] if bare is None else bare)


def test_parameters_begin_behind_all_template_arguments() -> None:
    # The type of the kernel is in the arguments of an argument, the word in its parameters is not.
    assert category_of("run<wrap<(1)>(gemm)>(softmax_args)") == "gemm"


@given(st.text(max_size=80))
def test_any_text_has_a_bare_name_and_a_category(name: str) -> None:
    assert category_of(name) in CATEGORIES
    assert bare_name(name) == bare_name(name)


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


@pytest.mark.parametrize("most", [0, 512])
def test_category_has_precedence_over_metadata_and_metadata_over_names(
    monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(classify, "FEW_TEXTS", most)  # many names, or few
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


NOTIFY = "void deep_ep::intranode::notify_dispatch<8>(int const*)"
DISPATCH = "void deep_ep::intranode::dispatch<8, 768>(int4*)"
COMBINE = "void deep_ep::intranode::combine<8, 768>(int4*)"


def peer_copy(start_us: float, dur_us: float, coll: Coll | None, stream: int = 30) -> Event:
    name = "Memcpy PtoP (Device -> Device)"
    return Event(name, start_us, dur_us, stream, coll, category="gpu_memcpy", bytes=4096)


def calls(trace: RankTrace) -> list[tuple[str, int, int]]:
    """Type, start and duration in µs of each call."""
    found = View(job(trace)).ranks[0].named_calls
    return [
        (TYPES[kind], start // 1000, dur // 1000)
        for kind, start, dur in zip(
            found.kind.tolist(), found.start_ns.tolist(), found.dur_ns.tolist(), strict=True
        )
    ]


def test_a_dispatch_and_the_exchange_of_its_sizes_are_one_call() -> None:
    trace = rank_trace(gpu=[kernel(NOTIFY, 0, 5), kernel(DISPATCH, 7, 20), kernel(COMBINE, 40, 10)])
    assert calls(trace) == [("AllToAll", 0, 27), ("AllToAll", 40, 10)]


def test_an_exchange_of_sizes_without_a_dispatch_is_a_call_of_its_own() -> None:
    apart = rank_trace(
        gpu=[kernel(NOTIFY, 0, 5), kernel(COMBINE, 7, 20), kernel(DISPATCH, 30, 5, stream=8)]
    )
    assert calls(apart) == [("AllToAll", 0, 5), ("AllToAll", 7, 20), ("AllToAll", 30, 5)]


def test_copies_of_one_numbered_call_are_one_call() -> None:
    gathered = [Coll("_allgather_base", 512, 1024, group_size=2, seq=k) for k in (1, 2)]
    gpu = [
        peer_copy(0, 10, gathered[0]),
        peer_copy(12, 8, gathered[0]),
        peer_copy(40, 10, gathered[1]),
        peer_copy(60, 5, None),  # of no collective
    ]
    # the builder gives each event a row of its own; the two copies of one call share theirs
    trace = rank_trace(gpu=gpu, groups=[world(2)])
    trace.group("gpu").args[1] = trace.group("gpu").args[0]

    assert calls(trace) == [("AllGather", 0, 20), ("AllGather", 40, 10)]


def test_a_kernel_of_another_stream_does_not_divide_the_copies_of_a_call() -> None:
    gathered = [Coll("_allgather_base", 512, 1024, group_size=2, seq=k) for k in (1, 3)]
    scattered = Coll("_reduce_scatter_base", 1024, 512, group_size=2, seq=2)
    gpu = [
        peer_copy(0, 10, gathered[0]),
        kernel("ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(int)", 5, 50, 7, scattered),
        peer_copy(12, 8, gathered[0]),
        peer_copy(40, 10, gathered[1]),
        peer_copy(52, 10, gathered[1]),
    ]
    trace = rank_trace(gpu=gpu, groups=[world(2)])
    args = trace.group("gpu").args
    args[2], args[4] = args[0], args[3]

    assert calls(trace) == [("AllGather", 0, 20), ("ReduceScatter", 5, 50), ("AllGather", 40, 22)]


def moe_rank(rank: int, late_us: float) -> RankTrace:
    """NCCL with metadata, and exchanges of tokens in which a rank waits for the other."""
    gpu = [kernel("gemm", 0, 100 + 300 * late_us)]
    for k in range(6):
        base = 1_000.0 * k + 200
        gpu += [
            kernel(DISPATCH, base + late_us, 150 - late_us),
            kernel(COMBINE, base + 300, 40),
            allreduce(base + 500, 50, Coll("allreduce", 8, 8, group_size=2, seq=k)),
        ]
    return rank_trace(rank, gpu=gpu[1:], groups=[world(2)])


def test_exchanges_of_tokens_have_a_group_and_a_lag_of_their_own() -> None:
    view = View(job(moe_rank(0, 0), moe_rank(1, 90)))

    kinds = [{TYPES[kind] for kind in match.kind.tolist()} for match in view.matches.groups]
    assert sorted(map(sorted, kinds)) == [["AllReduce"], ["AllToAll"]]
    exchanges = next(m for m in view.matches.groups if TYPES[m.kind[0]] == "AllToAll")
    assert len(exchanges.kind) == 12
    assert bool(exchanges.complete.all())
    assert view.matches.ungrouped == 0


def test_kernels_of_two_libraries_are_never_one_collective() -> None:
    def rank(number: int) -> RankTrace:
        first = "void vllm::cross_device_reduce_1stage<float, 2>(int)"
        gpu = [kernel(first, 0, 10), allreduce(20, 10, stream=7), kernel(first, 40, 10)]
        return rank_trace(number, gpu=gpu if number else gpu[1:])

    view = View(job(rank(0), rank(1)))

    for match in view.matches.groups:
        names = {
            view.ranks[member].named_calls.library[row]
            for member in (0, 1)
            for row in match.rows[:, member].tolist()
            if row >= 0
        }
        assert len(names) == 1
