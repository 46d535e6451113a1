"""Names in the traces: kernels, operators, annotations, runtime calls.

Keys are ``Kind`` and ``Operation`` of the program.
"""

from __future__ import annotations

from ccltui.demo.spec import Library

KERNELS: dict[str, str] = {
    "gemm": (
        "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64"
        "_warpgroupsize1x1x1_execute_segment_k_off_kernel__5x_cublas"
    ),
    "attention": (
        "void flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4, false, false, "
        "cutlass::bfloat16_t>, false, true, false>(flash::Flash_fwd_params)"
    ),
    "elementwise": (
        "void at::native::vectorized_elementwise_kernel<4, at::native::BinaryFunctor<"
        "c10::BFloat16, c10::BFloat16, c10::BFloat16>, std::array<char*, 3ul> >"
        "(int, at::native::BinaryFunctor<c10::BFloat16>, std::array<char*, 3ul>)"
    ),
    "norm": (
        "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<c10::BFloat16, "
        "float>(int, float, c10::BFloat16 const*, c10::BFloat16 const*, float*, c10::BFloat16*)"
    ),
    "grad_norm": (
        "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::"
        "(anonymous namespace)::TensorListMetadata<1>, at::native::(anonymous namespace)::"
        "LpNormFunctor<c10::BFloat16, (at::native::NormType)1, float, 1, 1, 0>, float*, int>"
        "(float*, int)"
    ),
    "optimizer": (
        "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::"
        "(anonymous namespace)::FusedOptimizerTensorListMetadata<4>, at::native::"
        "(anonymous namespace)::FusedAdamMathFunctor<float, 4> >(float, double, double)"
    ),
    "side": (
        "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::"
        "(anonymous namespace)::TensorListMetadata<2>, at::native::(anonymous namespace)::"
        "BinaryOpListAlphaFunctor<float, 2, 2, 0> >(float)"
    ),
    "copy_in": "Memcpy HtoD (Pinned -> Device)",
    "copy_peer": "Memcpy PtoP (Device -> Device)",
    "copy_out": "Memcpy DtoH (Device -> Pageable)",
    "memset": "Memset (Device)",
}
ATTENTION_BACKWARD_KERNEL = (
    "void flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<Flash_bwd_kernel_traits<128, 64, 128, 8, "
    "cutlass::bfloat16_t>, false, true, false>(flash::Flash_bwd_params)"
)
ROCM_GEMM = "Cijk_Ailk_Bljk_BBS_BH_MT256x128x64_MI32x32x8x1_SN_1LDSB1_GRVW8_GSU1_WG32_8_1"

OPERATORS: dict[str, str] = {
    "gemm": "aten::mm",
    "attention": "aten::_flash_attention_forward",
    "elementwise": "aten::mul",
    "norm": "aten::native_layer_norm",
    "grad_norm": "aten::_foreach_norm",
    "optimizer": "aten::_fused_adamw_",
    "side": "aten::_foreach_lerp_",
    "copy_in": "aten::copy_",
    "copy_out": "aten::_local_scalar_dense",
    "memset": "aten::zero_",
}
ATTENTION_BACKWARD_OPERATOR = "aten::_flash_attention_backward"

# Category and name of the event in which the host stalls.
HOST_EVENTS: dict[str, tuple[str, str]] = {
    "data_loading": (
        "user_annotation",
        "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__",
    ),
    "checkpoint": ("user_annotation", "save_checkpoint"),
    "garbage_collection": (
        "python_function",
        "<built-in method collect of module object at 0x7f64d2a1b4c0>",
    ),
    "allocation": ("cuda_runtime", "cudaMalloc"),
    "synchronisation": ("cuda_runtime", "cudaDeviceSynchronize"),
    "operator": ("cpu_op", "aten::empty"),
}

CALL_OPERATORS: dict[str, str] = {
    "allreduce": "c10d::allreduce_",
    "_allgather_base": "c10d::_allgather_base_",
    "_reduce_scatter_base": "c10d::_reduce_scatter_base_",
    "all_to_allv": "c10d::alltoall_base_",
    "send": "c10d::send",
    "recv": "c10d::recv_",
    "broadcast": "c10d::broadcast_",
    "symmetric": "symm_mem::two_shot_all_reduce_",
}
ANNOTATIONS: dict[str, str] = {
    "allreduce": "nccl:all_reduce",
    "_allgather_base": "nccl:_all_gather_base",
    "_reduce_scatter_base": "nccl:_reduce_scatter_base",
    "all_to_allv": "nccl:all_to_all",
    "send": "nccl:send",
    "recv": "nccl:recv",
    "batch": "nccl:coalesced",
    "broadcast": "nccl:broadcast",
}
TYPES: dict[str, str] = {
    "allreduce": "AllReduce",
    "_allgather_base": "AllGather",
    "_reduce_scatter_base": "ReduceScatter",
    "all_to_allv": "AllToAll",
    "send": "Send",
    "recv": "Recv",
    "broadcast": "Broadcast",
}
OTHER_CALLS: dict[str, str] = {
    "symmetric": (
        "void (anonymous namespace)::two_shot_all_reduce_kernel<c10::BFloat16, 16, 8, false>"
        "(c10::BFloat16**, unsigned long, unsigned long, unsigned int**, unsigned long)"
    ),
    "notify_dispatch": (
        "void deep_ep::intranode::notify_dispatch<8>(int const*, int*, int const*, int*, int, int,"
        " int, bool const*, int*, int*, int, void**, int**, int)"
    ),
    "dispatch": (
        "void deep_ep::intranode::dispatch<8, 768, 8192>(int4*, float*, int*, long*, float*, int*,"
        " int*, int4 const*, float const*, long const*, float const*, bool const*, int const*)"
    ),
    "combine": (
        "void deep_ep::intranode::combine<__nv_bfloat16, 8, 768, 4096>(__nv_bfloat16*, float*,"
        " __nv_bfloat16 const*, float const*, int const*, int const*, int const*, int*)"
    ),
}
"""Kernels of calls that no library of collectives makes."""

NEW_ARGUMENTS = "(ncclDevKernelArgsStorage<4096ul>)"
OLD_ARGUMENTS = "(ncclDevComm*, unsigned long, ncclWork*)"
_SHORT = {"BFloat16": "bf16", "Float": "f32"}
_LONG = {"BFloat16": "__nv_bfloat16", "Float": "float"}


def kernel_type(operation: str, library: Library) -> str:
    """Type of a collective that follows from the kernel's name alone."""
    if library == "rccl":
        return "Generic"
    if operation in ("send", "recv", "all_to_allv", "batch"):
        return "SendRecv"
    return TYPES[operation]


def call_kernel(operation: str, dtype: str, library: Library) -> str:
    """Name of the kernel that executes a call."""
    if operation in OTHER_CALLS:
        return OTHER_CALLS[operation]
    kind = kernel_type(operation, library)
    if library == "rccl":
        return f"ncclDevKernel_Generic_4{NEW_ARGUMENTS}"
    if library == "nccl_old":
        if kind == "SendRecv":
            return f"ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t{OLD_ARGUMENTS}"
        element = "int8_t" if kind == "AllGather" else _LONG[dtype]
        return f"ncclKernel_{kind}_RING_LL_Sum_{element}{OLD_ARGUMENTS}"
    if kind == "SendRecv":
        return f"ncclDevKernel_SendRecv{NEW_ARGUMENTS}"
    if kind in ("AllGather", "Broadcast"):
        return f"ncclDevKernel_{kind}_RING_LL{NEW_ARGUMENTS}"
    return f"ncclDevKernel_{kind}_Sum_{_SHORT[dtype]}_RING_LL{NEW_ARGUMENTS}"


def kernel(kind: str, library: Library, *, backward: bool) -> str:
    """Name of a compute kernel, copy or memset."""
    if kind == "gemm" and library == "rccl":
        return ROCM_GEMM
    return ATTENTION_BACKWARD_KERNEL if kind == "attention" and backward else KERNELS[kind]


def operator(kind: str, *, backward: bool) -> str:
    """Name of the operator that launches work of a kind."""
    return ATTENTION_BACKWARD_OPERATOR if kind == "attention" and backward else OPERATORS[kind]


def launch(kind: str, library: Library, *, copies: bool = False) -> str:
    """Name of the runtime call that launches work of a kind."""
    prefix = "hip" if library == "rccl" else "cuda"
    if copies or kind in ("copy_in", "copy_out"):
        return f"{prefix}MemcpyAsync"
    return f"{prefix}MemsetAsync" if kind == "memset" else f"{prefix}LaunchKernel"


def synchronize(library: Library) -> str:
    """Name of the runtime call that waits for the main stream."""
    return "hipStreamSynchronize" if library == "rccl" else "cudaStreamSynchronize"
