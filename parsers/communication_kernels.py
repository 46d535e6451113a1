"""Recognise the kernels of communication libraries by name, and the operation that they perform.

A pattern is compared with the whole bare name of a kernel: arguments name types of other
libraries, and a word such as "reduce" occurs in the names of computation kernels too. The names
come from the sources of the libraries and from recorded traces.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from typing import Final

import msgspec

FROM_WORDS: Final = ""
"""Operation of a rule whose kernels state the operation by a word of their names."""

_SCOPE = r"(?:\w+::)*"


class CommunicationKernel(msgspec.Struct, frozen=True):
    """Library, operation and certainty of a communication kernel.

    Attributes:
        library: the library that the kernel belongs to.
        operation: "AllReduce", "Send", … ; "Generic" where one kernel performs all operations,
            "Other" where the name does not state one.
        is_certain: False where only words of the name suggest communication.
    """

    library: str
    operation: str
    is_certain: bool = True


_RULES: Final = (
    # NCCL and libraries that copy its names
    ("nccl", FROM_WORDS, r"nccl(?:Dev)?Kernel(?:Debug)?_\w+"),
    ("nccl-symm", FROM_WORDS, r"ncclSymk?(?:Dev)?Kernel_\w+"),
    ("rccl-msccl", "Generic", r"(?:mscclKernel|MSCCL)_\w+"),
    ("nccl", "Generic", r"rccl_main_kernel\w*"),  # of ROCm 6.2 and newer, for every operation
    ("nccl", FROM_WORDS, r"(?i:rccl)\w*"),
    ("nccl-like", FROM_WORDS, r"[a-z]{1,2}ccl(?:Dev)?Kernel_\w+"),
    ("nccl-ubx", FROM_WORDS, r"ubx_kernel_\w+"),
    # exchange of tokens between experts
    (
        "nccl-ep",
        "AllToAll",
        r"nccl_ep_jit_ht_(?:dispatch|combine)_kernel|§nccl_ep::§(?:dispatch|combine)(?:_\w+)?",
    ),
    (
        "deepep",
        "AllToAll",
        r"§(?:deep_ep|dpsk::ep)::§(?:dispatch|combine)(?:_(?!\w*(?:epilogue|layout))\w+)?",
    ),
    ("deepep", "AllToAll", r"§(?:deep_ep|dpsk::ep)::§notify_(?:dispatch|combine)"),
    (
        "deepep",
        "Barrier",
        r"§(?:deep_ep|dpsk::ep)::§(?:cached_notify(?:_dispatch|_combine)?|barrier(?:_impl)?"
        r"|clean_low_latency_buffer)",
    ),
    ("deepep", "AllToAll", r"§deep_ep::elastic::(?:hybrid_)?(?:dispatch|combine)_impl"),
    ("deepep", "Send", r"§deep_ep::elastic::pp_send_impl"),
    ("deepep", "Recv", r"§deep_ep::elastic::pp_recv_impl"),
    ("hybrid-ep", "AllToAll", r"§hybrid_ep::(?:dispatch|combine)_kernel"),
    ("hybrid-ep", "Barrier", r"§hybrid_ep::device_sync_kernel"),
    ("mori", "AllToAll", r"§Ep(?:Dispatch|Combine)\w*Kernel\w*"),
    (
        "trtllm-a2a",
        "AllToAll",
        r"§(?:moeA2A(?:Dispatch|Combine)Kernel|moeAllToAllKernel|allToAllMetadataDevice)",
    ),
    ("flashinfer", "AllToAll", r"§ulysses_a2a_kernel"),
    # all-reduces of inference servers
    ("vllm", "AllReduce", r"§cross_device_reduce_[12]stage(?:_\w+)?"),
    ("vllm", "AllReduce", r"§custom_all_?reduce\w*"),
    ("quickreduce", "AllReduce", r"§allreduce_prototype_(?:one|two)shot"),
    ("aiter", "AllReduce", r"§allreduce_fusion_kernel_(?:1stage|2stage|split)(?:_\w+)?"),
    ("aiter", "ReduceScatter", r"§reduce_scatter_cross_device_store"),
    ("aiter", "AllGather", r"§all_?gather_cross_device\w*"),
    # symmetric memory of PyTorch
    (
        "torch-symm",
        "AllReduce",
        r"§multimem_(?:all_reduce_kernel|one_shot_(?:all_)?reduce_kernel)",
    ),
    ("torch-symm", "AllGather", r"§multimem_all_gather_kernel"),
    ("torch-symm", "AllReduce", r"§(?:one|two)_shot_all_reduce(?:_\w+)?"),
    ("torch-symm", FROM_WORDS, r"§multimem_\w+"),
    (
        "trtllm",
        "AllReduce",
        r"§(?:moe(?:reduce|finalize)_)?allreduce_fusion_kernel_(?:oneshot_lamport|twoshot_sync)",
    ),
    (
        "trtllm",
        "AllReduce",
        r"§(?:lowPrecision)?(?:[oO]ne|[tT]wo)_?[sS]hot_?[aA]ll_?[rR]educe(?:Fusion)?(?:Hier)?_?"
        r"[kK]ernel\w*",
    ),
    ("trtllm", "AllReduce", r"§(?:lamport_style_)?one_shot_(?:prenorm_)?all_reduce_norm_kernel"),
    ("trtllm", "AllGather", r"§mnnvlAllGather\w*Kernel"),
    # Userbuffers of Transformer Engine
    ("userbuffers", "ReduceScatter", r"§userbuffers_\w*_rs(?:_\w+)?"),
    ("userbuffers", "AllGather", r"§userbuffers_\w*_ag(?:_\w+)?"),
    ("userbuffers", "AllReduce", r"§userbuffers_fp16_sum_inplace_gpu_\w+"),
    ("userbuffers", "SendRecv", r"§kuserbuffers_p\w+"),
    # NVSHMEM
    ("torch-nvshmem", "AllToAll", r"§(?:exchangeSplitAndOffset|allToAllV)(?:_2d)?"),
    ("nvshmem", "AllToAll", r"§alltoall\w*_on_stream_kernel\w*"),
    ("nvshmem", "AllGather", r"§(?:fcollect|collect)\w*_on_stream_kernel\w*"),
    ("nvshmem", "Broadcast", r"§broadcast\w*_on_stream_kernel\w*"),
    ("nvshmem", "Barrier", r"§(?:barrier|sync)(?:_all)?_on_stream_kernel\w*"),
    ("nvshmem", "ReduceScatter", r"§reducescatter\w*_on_stream_kernel\w*"),
    ("nvshmem", "AllReduce", r"§(?:\w*_)?reduce\w*_on_stream_kernel\w*"),
    ("nvshmem", FROM_WORDS, r"nvshmem[ix]?_\w+"),
    # other vendors and compilers
    ("mscclpp", FROM_WORDS, r"§mscclpp::collective::\w+|mscclpp_\w+"),
    ("mscclpp", "Generic", r"§(?:mscclpp::)?executionKernel"),
    ("mscclpp", "AllReduce", r"allreduce_LL_[12]node"),
    ("xccl", "Other", r"oneccl_reduce_base"),  # runs inside all-reduces: the name misleads
    ("xccl", FROM_WORDS, r"oneccl_\w+"),
    (
        "hccl",
        FROM_WORDS,
        r"hcom_(?i:allReduce|allGather|reduceScatter|allToAll\w*|broadcast|reduce|scatter|send"
        r"|receive|batchSendRecv)_\w*",
    ),
    ("hccl", FROM_WORDS, r"(?i:hccl)\w*"),
    (
        "xla",
        FROM_WORDS,
        r"(?:all-reduce|all-gather|reduce-scatter|all-to-all|ragged-all-to-all"
        r"|collective-permute|collective-broadcast)(?:-start|-done)?[.\d]*",
    ),
)
"""Library, operation and pattern; the first pattern that matches applies. § is any scope."""

LIBRARIES: Final = (*dict.fromkeys(library for library, _, _ in _RULES), "triton")
"""All libraries, NCCL first."""
ON_NCCL: Final = frozenset({"nccl", "nccl-symm", "nccl-ubx", "rccl-msccl"})
"""Libraries whose kernels execute the calls of NCCL's communicators."""


# Longest first, so that "reducescatter" is not taken for a scatter or a reduction.
_WORDS: Final = {
    "reducescatter": "ReduceScatter",
    "allreduce": "AllReduce",
    "allgather": "AllGather",
    "alltoall": "AllToAll",
    "a2a": "AllToAll",
    "broadcast": "Broadcast",
    "collectivepermute": "SendRecv",
    "batchsendrecv": "SendRecv",
    "sendrecv": "SendRecv",
    "barrier": "Barrier",
    "receive": "Recv",
    "recv": "Recv",
    "send": "Send",
    "gather": "Gather",
    "scatter": "Scatter",
    "reduce": "Reduce",
    "generic": "Generic",
}
OTHER: Final = "Other"

_SYNCHRONISATION: Final = {
    "barrier_kernel": "Barrier",
    "put_signal_kernel": "Send",
    "wait_signal_kernel": "Recv",
}
"""Kernels of symmetric memory whose names are so general that their arguments decide."""
_SIGNAL_ARGUMENTS = re.compile(r"\(unsigned int\*\*, int, int")
_TO_SCATTERED = re.compile(
    r"two_shot_all_reduce_kernel<[^,>]*,[^,>]*,[^,>]*, *(?:\(bool\))?(?:true|1)\b"
)
"""A two-shot all-reduce without its second half: the fourth template argument is set."""

_QUALIFIERS = re.compile(r"^(?:static |void |__global__ )+")
_ANONYMOUS = re.compile(r"\(anonymous namespace\)::|\(anonymous\)::|<unnamed>::|_GLOBAL__N_\w*::")
_END = re.compile(r"(?:\.kd|\s*\[clone [^\]]*\])+$")
_TEMPLATE_OR_ARGUMENTS = re.compile(r"[<(]")
_LENGTH = re.compile(r"\d+")

_SUGGESTS = re.compile(
    r"(?:^|_)(all_?reduce|all_?gather|reduce_?scatter|all_?to_?all)(?:_|\d|$)", re.IGNORECASE
)
_NO_TRANSFER = re.compile(r"offset|layout|index|count|meta|prepare|initialize|epilogue")
_NO_EXCHANGE = re.compile(
    r"get_dispatch_layout|_epilogue_impl$|mask_buffer$|moeA2A(?:Prepare|Sanitize)"
    r"|lamport_initialize|^oneRankReduce$|nccl_ep_jit_ht_scan|flash_\w*combine"
)
"""Kernels of communication libraries that exchange nothing."""
_RESEMBLES = re.compile(
    r"all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|a2a|broadcast_kernel|send_?recv|shmem"
    r"|[a-z]ccl(?=[A-Z_:]|$)|multimem|symm_?mem|cross_device|peer_?(?:to_?peer|copy|put|get)"
    r"|p2p|_ep::",
    re.IGNORECASE,
)


@lru_cache(maxsize=65_536)
def communication_kernel(name: str) -> CommunicationKernel | None:
    """Return the library and operation of a communication kernel, None for any other name.

    Args:
        name: the name as recorded, demangled or not, with or without arguments.
    """
    bare = bare_kernel_name(name)
    if bare in _SYNCHRONISATION or bare.rpartition("::")[2] in _SYNCHRONISATION:
        if _SIGNAL_ARGUMENTS.search(name) is None:
            return None
        return CommunicationKernel("torch-symm", _SYNCHRONISATION[bare.rpartition("::")[2]])
    for library, operation, pattern in _compiled():
        if pattern.fullmatch(bare):
            if _TO_SCATTERED.search(name):
                return CommunicationKernel(library, "ReduceScatter")
            return CommunicationKernel(library, operation or operation_in(bare))
    return _suggested(name, bare)


@cache
def _compiled() -> tuple[tuple[str, str, re.Pattern[str]], ...]:
    """Compile the rules, which takes 4 ms: not every run classifies kernels."""
    return tuple(
        (library, operation, re.compile(pattern.replace("§", _SCOPE)))
        for library, operation, pattern in _RULES
    )


def _suggested(name: str, bare: str) -> CommunicationKernel | None:
    """Return the operation of a Triton kernel: the name of a Python function, no argument text.

    "dispatch" and "combine" alone suggest nothing: attention kernels have such names too.
    """
    if name.strip() != bare or "::" in bare or _NO_TRANSFER.search(bare.lower()):
        return None
    word = _SUGGESTS.search(bare)
    if word is None:
        return None
    return CommunicationKernel("triton", operation_in(word.group(1)), is_certain=False)


def resembles_communication(name: str) -> bool:
    """Return whether a kernel without a rule has a name with a word of communication.

    Kernels of communication libraries that are known to exchange nothing do not resemble it.
    """
    bare = bare_kernel_name(name)
    if communication_kernel(name) is not None or _NO_EXCHANGE.search(bare):
        return False
    return _RESEMBLES.search(bare) is not None


def operation_in(text: str) -> str:
    """Return the operation that a word of ``text`` names in any spelling, else "Other"."""
    joined = text.lower().replace("_", "").replace("-", "")
    for word, operation in _WORDS.items():
        if word in joined:
            return operation
    return OTHER


def bare_kernel_name(name: str) -> str:
    """Return the scoped name without return type, template arguments, parameters and suffixes."""
    text = _END.sub("", name.strip())
    if text.startswith("_Z"):
        return "::".join(_mangled_parts(text))
    text = _ANONYMOUS.sub("", _QUALIFIERS.sub("", text))
    cut = _TEMPLATE_OR_ARGUMENTS.search(text)
    return (text[: cut.start()] if cut else text).strip()


def _mangled_parts(text: str) -> list[str]:
    """Return the parts of a mangled name, each of which its length precedes.

    ``_Z`` begins a single part, ``_ZN`` a sequence of nested ones. What follows the name are
    template arguments and parameters.
    """
    is_nested = text.startswith("_ZN")
    position = 3 if is_nested else 2
    parts: list[str] = []
    while length := _LENGTH.match(text, position):
        size = int(length.group()[:4])
        part = text[length.end() : length.end() + size]
        position = length.end() + size
        if not part.startswith("_GLOBAL__N_"):
            parts.append(part)
        if not is_nested:
            break
    return parts
