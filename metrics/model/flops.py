"""Count the floating-point operations of operators from the shapes of their inputs.

A product of [m, k] and [k, n] has 2 m k n operations: a multiplication and an addition for each
pair of numbers. Attention has two products over the full square of positions, also under a causal
mask, and five products backward, because the scores are computed again. A convolution is a product
for each place of its output, whose size follows from stride, padding and dilation: values that
are recorded beside the shapes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Any, Final

from msgspec import Struct

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
"""Operators that run once for each convolution, forward or backward."""
_CONVOLUTION: Final = "aten::convolution"
_CONVOLUTION_BACKWARD: Final = "aten::convolution_backward"
_FORWARD_AT: Final = 3
_BACKWARD_AT: Final = 4
"""Place of the stride among the inputs of a convolution; its padding, dilation and whether it is
transposed follow."""
_MASK_AT: Final = 10
"""Place of the mask of wanted gradients: of the input, the weight, the bias."""


def is_product(name: str) -> bool:
    """Return whether the FLOPs of an operator are counted."""
    return PRODUCTS.fullmatch(name) is not None


def flops_of(name: str, shapes: Sequence[Any], values: Sequence[Any] = ()) -> int | None:
    """Return the FLOPs of one call, None where unknown.

    Args:
        name: the operator.
        shapes: shapes of its inputs.
        values: its inputs that are no tensors, as text; without them convolutions are unknown.
    """
    if name in (_CONVOLUTION, _CONVOLUTION_BACKWARD):
        found = convolution_of(name, shapes, values)
        return None if found is None else found.flops
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


class Convolution(Struct, frozen=True):
    """Shapes of a convolution.

    Attributes:
        image: shape of its input.
        weight: shape of its weight.
        output: shape of its output.
        products: products of this size: 1 forward, one for each wanted gradient backward.
        flops: FLOPs of all of them.
        gradients: backward, whether those of the input and of the weight are computed.
    """

    image: tuple[int, ...]
    weight: tuple[int, ...]
    output: tuple[int, ...]
    products: int
    flops: int
    gradients: tuple[bool, bool] | None = None


def convolution_of(name: str, shapes: Sequence[Any], values: Sequence[Any]) -> Convolution | None:
    """Return the shapes of a convolution, forward or backward, None where they are unknown."""
    backward = name == _CONVOLUTION_BACKWARD
    at = _BACKWARD_AT if backward else _FORWARD_AT
    places = (1, 2) if backward else (0, 1)
    try:
        image, weight = (tuple(shapes[place]) for place in places)
        if not (_is_shape(image) and _is_shape(weight) and len(image) == len(weight) > 2):
            return None
        transposed = {"True": True, "False": False}[str(values[at + 3])]
        if backward:
            output, mask = tuple(shapes[0]), _flags(values[_MASK_AT])
            if not _is_shape(output) or len(output) != len(image):
                return None
        else:
            output, mask = _output(image, weight, values[at : at + 3], transposed), (True, False)
    except (ArithmeticError, IndexError, KeyError, TypeError, ValueError):
        return None
    # Each weight is used once for each place: of the output, or of the input where transposed.
    batch, *places_of = (image if transposed else output)[:1] + (image if transposed else output)[
        2:
    ]
    products = sum(mask[:2]) if backward else 1
    flops = products * 2 * batch * math.prod(places_of) * math.prod(weight)
    gradients = (mask[0], mask[1]) if backward else None
    return Convolution(image, weight, output, products, flops, gradients)


def _flags(text: object) -> tuple[bool, ...]:
    flags = tuple(
        {"True": True, "False": False}[one.strip()] for one in str(text).strip("[]").split(",")
    )
    if len(flags) != 3:
        raise ValueError(text)
    return flags


def _output(
    image: tuple[int, ...], weight: tuple[int, ...], values: Sequence[Any], transposed: bool
) -> tuple[int, ...]:
    """Return the shape of the output of a convolution that is not transposed."""
    if transposed:
        raise ValueError("output padding and groups would be needed")
    stride, padding, dilation = (_sizes(one, len(image) - 2) for one in values)
    axes = zip(image[2:], weight[2:], stride, padding, dilation, strict=True)
    places = [(size + 2 * pad - step * (k - 1) - 1) // by + 1 for size, k, by, pad, step in axes]
    if min(places) < 1:
        raise ValueError(places)
    return (image[0], weight[0], *places)


def _sizes(text: object, axes: int) -> list[int]:
    """Return the sizes in a text such as "[1, 1]"; one size is that of every axis."""
    sizes = [int(one) for one in str(text).strip("[]").split(",")]
    sizes = sizes * axes if len(sizes) == 1 else sizes
    if len(sizes) != axes:
        raise ValueError(text)
    return sizes


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
