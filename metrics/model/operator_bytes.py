"""Count the bytes that an operator must move at least: every input read once, outputs written once.

Caches, padding and the logarithms that attention saves for its backward pass are not counted, so
that a kernel moves at least this much unless its inputs stay in a cache.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any, Final

from ccltui.metrics.model.flops import convolution_of, is_product

_BYTES: Final = {
    "float": 4,
    "double": 8,
    "c10::half": 2,
    "c10::bfloat16": 2,
    "c10::float8_e4m3fn": 1,
    "c10::float8_e5m2": 1,
    "c10::float8_e4m3fnuz": 1,
    "c10::float8_e5m2fnuz": 1,
    "signed char": 1,
    "unsigned char": 1,
}
"""Bytes of an element by the type as PyTorch writes it, in lower case."""
_PRECISIONS: Final = {
    "c10::half": "fp16",
    "c10::bfloat16": "bf16",
    "c10::float8_e4m3fn": "fp8",
    "c10::float8_e5m2": "fp8",
    "c10::float8_e4m3fnuz": "fp8",
    "c10::float8_e5m2fnuz": "fp8",
}
_TF32_KERNEL: Final = re.compile(r"tf32|s1688gemm|s16816tf32", re.IGNORECASE)
_FP32_KERNEL: Final = re.compile(
    r"simt|(?<![a-z0-9])(?:ampere|volta|maxwell|turing)_sgemm|f32f32_f32f32|ffma", re.IGNORECASE
)
_FACTOR_AT: Final = 3
"""Place of the factor of what is added among the inputs of such a product."""
_ADDED: Final = ("aten::addmm", "aten::_addmm_activation", "aten::baddbmm")


def bytes_of(
    name: str, shapes: Sequence[Any], types: Sequence[Any], values: Sequence[Any] = ()
) -> int | None:
    """Return the bytes of one call, None where a shape or a type is unknown.

    Args:
        name: the operator, one whose FLOPs are counted.
        shapes: shapes of its inputs.
        types: their data types as PyTorch writes them.
        values: its inputs that are no tensors, as text.
    """
    if "convolution" in name:
        return _convolution(name, shapes, types, values)
    tensors = _tensors(shapes, types)
    if tensors is None or name == "aten::_scaled_mm" or not is_product(name):
        return None  # the type of the output of a scaled product is no recorded input
    if "attention" in name:
        return _attention(tensors, backward="backward" in name)
    first = 1 if name in _ADDED else 0
    try:
        (a, size), (b, _) = tensors[first : first + 2]
    except ValueError:
        return None
    # Unless its factor is known not to be 0, what is added need not be read.
    skipped = first if first and not _is_added(values) else 0
    read = sum(math.prod(shape) * width for shape, width in tensors[skipped : first + 2])
    return read + math.prod(a[:-1]) * b[-1] * size


def _is_added(values: Sequence[Any]) -> bool:
    """Return whether the factor of the added input is recorded and not 0."""
    try:
        return float(values[_FACTOR_AT]) != 0
    except (IndexError, TypeError, ValueError):
        return False


def precision_of_inputs(types: Sequence[Any], kernels: Sequence[str]) -> str | None:
    """Return the precision of the products of an operator, None where it is unknown.

    Args:
        types: data types of its inputs.
        kernels: names of its kernels: they tell whether float32 inputs are computed as TF32.
    """
    named = [str(one).lower() for one in types if str(one).lower() in _BYTES]
    if not named:
        return None
    if named[0] != "float":
        return _PRECISIONS.get(named[0])
    text = " ".join(kernels)
    tf32, fp32 = _TF32_KERNEL.search(text), _FP32_KERNEL.search(text)
    if bool(tf32) == bool(fp32):
        return None
    return "tf32" if tf32 else "fp32"


def _tensors(
    shapes: Sequence[Any], types: Sequence[Any]
) -> list[tuple[tuple[int, ...], int]] | None:
    """Return shape and bytes of an element of each tensor input, None if one type is unknown."""
    found = []
    for shape, kind in zip(shapes, types, strict=False):
        if not isinstance(shape, list) or not shape or not all(type(n) is int for n in shape):
            continue
        width = _BYTES.get(str(kind).lower())
        if width is None:
            return None
        found.append((tuple(shape), width))
    return found


def _attention(tensors: list[tuple[tuple[int, ...], int]], *, backward: bool) -> int | None:
    """Queries, keys, values and the output; backward their gradients too."""
    at = 1 if backward else 0
    if len(tensors) < at + 3:
        return None
    (query, width), (key, _), (value, _) = tensors[at : at + 3]
    if not len(query) == len(key) == len(value) == 4:
        return None
    inputs = sum(map(math.prod, (query, key, value))) * width
    output = math.prod(query[:3]) * value[3] * width
    return 2 * inputs + 2 * output if backward else inputs + output


def _convolution(
    name: str, shapes: Sequence[Any], types: Sequence[Any], values: Sequence[Any]
) -> int | None:
    found = convolution_of(name, shapes, values)
    tensors = _tensors(shapes, types)
    if found is None or not tensors:
        return None
    width = tensors[0][1]
    image, weight, output = map(math.prod, (found.image, found.weight, found.output))
    if found.gradients is None:
        return sum(math.prod(shape) * size for shape, size in tensors) + output * width
    of_image, of_weight = found.gradients
    # The gradient of the input needs the weight, that of the weight needs the input.
    moved = output + of_image * (weight + image) + of_weight * (image + weight)
    return moved * width
