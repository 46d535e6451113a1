"""Bare names and categories of kernels, with names from real traces."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ccltui.metrics.model.kernel_names import CATEGORIES, RULES, bare_name, category_of

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
