"""Names of kernels, operators and annotations of planted jobs."""

from __future__ import annotations

from typing import Final

from ccltui.demo import profiler_names

NEW: Final = profiler_names.NEW_ARGUMENTS
SIDE_KERNEL: Final = (
    "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::"
    "(anonymous namespace)::TensorListMetadata<2>, at::native::(anonymous namespace)::"
    "BinaryOpListAlphaFunctor<float, 2, 2, 0> >(float)"
)

CALL_KERNELS: Final[dict[str, str]] = {
    "allreduce": f"ncclDevKernel_AllReduce_Sum_bf16_RING_LL{NEW}",
    "_allgather_base": f"ncclDevKernel_AllGather_RING_LL{NEW}",
    "_reduce_scatter_base": f"ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL{NEW}",
    "all_to_allv": f"ncclDevKernel_SendRecv{NEW}",
    "send": f"ncclDevKernel_SendRecv{NEW}",
    "recv": f"ncclDevKernel_SendRecv{NEW}",
    "batch": f"ncclDevKernel_SendRecv{NEW}",
    "broadcast": f"ncclDevKernel_Broadcast_RING_LL{NEW}",
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
PEER_COPY: Final = "Memcpy PtoP (Device -> Device)"

OPERATORS: Final[dict[str, str]] = {
    "allreduce": "c10d::allreduce_",
    "_allgather_base": "c10d::_allgather_base_",
    "copy_gather": "c10d::_allgather_base_",
    "_reduce_scatter_base": "c10d::_reduce_scatter_base_",
    "all_to_allv": "c10d::alltoall_base_",
    "send": "c10d::send",
    "recv": "c10d::recv_",
    "broadcast": "c10d::broadcast_",
    "symmetric": "symm_mem::two_shot_all_reduce_",
}
ANNOTATIONS: Final[dict[str, str]] = {
    "allreduce": "nccl:all_reduce",
    "_allgather_base": "nccl:_all_gather_base",
    "copy_gather": "nccl:_all_gather_base",
    "_reduce_scatter_base": "nccl:_reduce_scatter_base",
    "all_to_allv": "nccl:all_to_all",
    "send": "nccl:send",
    "recv": "nccl:recv",
    "batch": "nccl:coalesced",
    "broadcast": "nccl:broadcast",
}
DESCRIPTIONS: Final[dict[str, str]] = {
    "world": "default_pg",
    "dp": "mesh_dp_replicate",
    "tp": "mesh_tp",
    "cp": "mesh_cp",
    "ep": "mesh_ep",
    "pp": "mesh_pp",
    "own": "undefined",
}


def kernel(kind: str, *, backward: bool) -> str:
    """Name of a compute kernel or copy."""
    if kind == "side":
        return SIDE_KERNEL
    return profiler_names.kernel(kind, "nccl", backward=backward)


def operator(kind: str, *, backward: bool) -> str:
    """Name of the operator that launches it."""
    if kind == "side":
        return "aten::_foreach_lerp_"
    return profiler_names.operator(kind, backward=backward)
