"""Derive from the name of a kernel its bare name, for grouping, and its category of work."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

RULES: Final[Sequence[tuple[str, str]]] = (
    # torch.compile begins with the kind of a kernel and appends the names of all fused operations
    ("elementwise", r"^triton_poi_"),
    ("norm", r"^triton_(?:red|per)_\w*norm"),
    ("softmax", r"^triton_(?:red|per)_\w*softmax"),
    ("reduction", r"^triton_(?:red|per)_"),
    # names with words of attention and embeddings that have another meaning
    ("copy", r"reshape_and_cache|store_kvcache|kv_indices"),
    ("elementwise", r"rotary|\brope|_rope"),
    (
        "attention",
        r"flash|fmha|attention|\battn_|sdpa|_mha_|paged_?attn|mla_(?:decode|prefill|fwd)",
    ),
    (
        "moe",
        r"\bmoe|_moe_|MoE|[Gg]rouped?_?[Gg]emm|grouped_mm|GroupProblemShape|_matmul_ogs"
        r"|topk_?gating|expert|routing(?:Main|Indices|_|\d)|_routing_|deep_ep",
    ),
    (
        "optimizer",
        r"multi_tensor_apply|[Aa]dam(?:[wW]?[_A-Z]|w?$)|[Ff]used_?[Ss]gd|[Ll]amb_|adagrad"
        r"|_foreach_",
    ),
    ("embedding", r"[Ee]mbedding|permute_pooled_embs|bounds_check_indices|linearize_index"),
    (
        "convolution",
        r"[Cc]onvol|scudnn|[wd]grad|fprop|[Ww]inograd|im2col|col2im|im2d2col|flip_filter"
        r"|cask_cudnn|grouped_conv|conv6kernel|conv_?(?:fwd|bwd|depthwise|[123]d)|_conv_"
        r"|igemm_(?:fwd|bwd|wrw)|fft[12]d_|c?gcgemm|cgemm|pointwise_mult_and_sum",
    ),
    (
        "gemm",
        r"(?<![Ff][Bb])[Gg]e[mM][mMvV]|GEMM|Cijk_|nvjet|cublas|xmma|cutlass|[Mm]at_?[Mm]ul|bmm_"
        r"|_mm_kernel|splitKreduce|split_?k_?reduce|\bdot_kernel|tensor_operation6device|mfma"
        r"|^triton_tem_",
    ),
    (
        "norm",
        r"[Ll]ayer_?[Nn]orm|[Rr][Mm][Ss]_?[Nn]orm|[Bb]atch_?[Nn]orm|bn_(?:fw|bw)_|[Ww]elford"
        r"|[Gg]roup_?[Nn]orm|GammaBeta|RowwiseMoments|instance_norm|_norm_kernel",
    ),
    ("softmax", r"[Ss]oft_?[Mm]ax|nll_loss|ClassNLL|[Cc]ross_?[Ee]ntropy"),
    (
        "sort",
        r"[Ss]ort|[Tt]op_?[Kk]|DeviceSelect|DeviceScan|DeviceCompact|DeviceReduceByKey"
        r"|DeviceRunLength|unique|searchsorted|nonzero|cumsum|scan_kernel",
    ),
    (
        "copy",
        r"direct_copy|copy_kernel|CatArrayBatchedCopy|[Tt]ranspose|[Nn]chw[Tt]o\w*[Nn]hwc"
        r"|[Nn]hwc[Tt]o\w*[Nn]chw|[Nn]hwcToNhwc|[Nn]hwcToFolded|CNHW|convertTensor|_copy_"
        r"|[Ff]ill|permute_\w*kernel|split_with_sizes|chunk_cat|pad_kernel|concat",
    ),
    ("gather", r"index|[Gg]ather|[Ss]catter|roll_cuda|[Ss]lice|find_long_segments"),
    ("random", r"distribution|dropout|philox|bernoulli|curand"),
    ("reduction", r"[Rr]educe|sum_functor|norm_functor|argmax|[Hh]istogram"),
    (
        "elementwise",
        r"elementwise|[Pp]ointwise|[Ff]unctor|activation|[Ss]i?lu|gelu|sigmoid|quant|cast"
        r"|scalePackedTensor|OpTensor|SubTensor|upsample|interpolate|max_pool|avg_pool|triu_tril"
        r"|clamp|float_cuda|_to_float|to_hfp8|globalKernel",
    ),
)
"""Category and pattern: the first pattern that matches the name of a computation kernel applies.

Attention and experts precede matrix products because the names of their kernels contain those words
too. Reductions and element-wise work are last because their words occur in template arguments of
the others.
"""

OTHER: Final = "other"
CATEGORIES: Final = (*dict.fromkeys(name for name, _ in RULES), OTHER)

_COMPILED: Final = tuple((name, re.compile(pattern)) for name, pattern in RULES)
_RETURN_TYPE = re.compile(r"^(?:void|int|float|bool)\s+")
_ANONYMOUS = re.compile(r"\((?:anonymous namespace|anonymous)\)::|<unnamed>::")
_OPENING, _CLOSING = "<(", ">)"


@lru_cache(maxsize=65_536)
def category_of(name: str) -> str:
    """Return the category of a computation kernel's name, ``other`` where no rule matches.

    Parameter types are ignored: a transpose has parameters of a library of matrix products.
    """
    text = _without_parameters(name)
    for category, pattern in _COMPILED:
        if pattern.search(text):
            return category
    return OTHER


@lru_cache(maxsize=65_536)
def bare_name(name: str) -> str:
    """Return the name without return type, template arguments and parameters.

    All instances of a template have one bare name.
    """
    text = _without_parameters(name)
    kept: list[str] = []
    depth = 0
    for character in text:
        if character in _OPENING:
            depth += 1
        elif character in _CLOSING:
            depth = max(depth - 1, 0)
        elif depth == 0:
            kept.append(character)
    return " ".join("".join(kept).split()) or text


def _without_parameters(name: str) -> str:
    """Name before its parameter list, without return type and anonymous namespaces."""
    text = _ANONYMOUS.sub("", _RETURN_TYPE.sub("", name.strip()))
    depth = 0
    for position, character in enumerate(text):
        if character == "(" and depth == 0 and position:
            return text[:position].rstrip()
        if character in _OPENING:
            depth += 1
        elif character in _CLOSING:
            depth = max(depth - 1, 0)
    return text
