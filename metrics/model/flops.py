"""Count the floating-point operations of matrix products from the shapes of their inputs.

A product of [m, k] and [k, n] has 2 m k n operations: a multiplication and an addition for each
pair of numbers. Attention has two products over the full square of positions, also under a causal
mask, and five products backward, because the scores are computed again. Convolutions are not
counted: the shapes of their inputs do not determine the size of their output.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Any, Final

Shape = Sequence[int]

_ATTENTION: Final = re.compile(
    r"aten::_scaled_dot_product_(?:flash|efficient|cudnn|fused)_attention\w*?(_backward)?"
)
PRODUCTS: Final = re.compile(
    r"aten::(?:mm|addmm|_addmm_activation|bmm|baddbmm|_scaled_mm)"
    r"|" + _ATTENTION.pattern.replace("(_backward)?", "(?:_backward)?")
)
"""Operators whose FLOPs are counted; none of them calls another of them."""

CONVOLUTIONS: Final = (
    "aten::convolution",
    "aten::convolution_backward",
    "aten::cudnn_convolution_backward",
    "aten::miopen_convolution_backward",
    "aten::mkldnn_convolution_backward",
    "aten::thnn_conv2d_backward",
)
"""Operators that run once for each convolution, forward or backward: calls without known FLOPs."""


def is_product(name: str) -> bool:
    """Return whether the FLOPs of an operator are counted."""
    return PRODUCTS.fullmatch(name) is not None


def flops_of(name: str, shapes: Sequence[Any]) -> int | None:
    """Return the FLOPs of one call from the shapes of its inputs, None where unknown."""
    rule = _RULES.get(name)
    if rule is None:
        attention = _ATTENTION.fullmatch(name)
        if attention is None:
            return None
        rule = _attention_backward if attention[1] else _attention
    tensors = [shape for shape in shapes if _is_shape(shape)]
    try:
        return rule(tensors)
    except (IndexError, ValueError):
        return None


def _is_shape(shape: object) -> bool:
    return (
        isinstance(shape, list | tuple)
        and len(shape) > 0
        and all(type(size) is int and size >= 0 for size in shape)
    )


def _product(a: Shape, b: Shape) -> int:
    """FLOPs of the product of […, m, k] and […, k, n]."""
    if len(a) < 2 or len(a) != len(b) or a[-1] != b[-2] or list(a[:-2]) != list(b[:-2]):
        raise ValueError(a)
    return 2 * math.prod(a) * b[-1]


def _plain(tensors: list[Shape]) -> int:
    return _product(tensors[0], tensors[1])


def _added(tensors: list[Shape]) -> int:
    """FLOPs of a product whose first input is added to it; that addition is not counted."""
    return _product(tensors[1], tensors[2])


def _attention(tensors: list[Shape]) -> int:
    """FLOPs of attention; queries, keys and values are [batch, heads, length, width]."""
    query, key, value = tensors[:3]
    if not len(query) == len(key) == len(value) == 4:
        raise ValueError(query)
    return 2 * math.prod(query[:3]) * key[2] * (query[3] + value[3])


def _attention_backward(tensors: list[Shape]) -> int:
    """FLOPs of the backward pass: three products of the query width, two of the value width.

    The first input is the gradient of the output.
    """
    query, key, value = tensors[1:4]
    if not len(query) == len(key) == len(value) == 4:
        raise ValueError(query)
    return 2 * math.prod(query[:3]) * key[2] * (3 * query[3] + 2 * value[3])


_RULES: Final[dict[str, Callable[[list[Shape]], int]]] = {
    "aten::mm": _plain,
    "aten::bmm": _plain,
    "aten::_scaled_mm": _plain,
    "aten::addmm": _added,
    "aten::_addmm_activation": _added,
    "aten::baddbmm": _added,
}
