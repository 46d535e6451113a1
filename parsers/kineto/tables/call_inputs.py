"""Read sizes, peers and splits of a collective from the recorded inputs of an operator."""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from ccltui.parsers.columns import MISSING
from ccltui.parsers.kineto.tables.matrix_products import has_values, is_product

PARAMS: Final = "record_param_comms"
POINT_TO_POINT: Final = re.compile(r"c10d::(send|recv)")
_COLLECTIVE_OPERATOR: Final = re.compile(
    r"(?:_c10d_functional|c10d|nccl|gloo|mpi|ucc|hccl):|record_param_comms"
)
_DIGITS: Final = 7  # most digits of a number of ranks
_MAX_U64: Final = (1 << 64) - 1
_DIGITS_U64: Final = 20  # most digits of a 64-bit number; Python raises on thousands of digits


def describes_collective(name: object) -> bool:
    """Return whether the inputs of an event of this name describe a collective."""
    return isinstance(name, str) and _COLLECTIVE_OPERATOR.match(name) is not None


def input_kind(name: str) -> int:
    """Return what the inputs of an event of this name describe.

    Returns:
        1 for a collective, 2 for a collective with its peer or splits, 3 for a matrix product,
        4 for one whose values count too, 0 for anything else.
    """
    if POINT_TO_POINT.match(name) is not None or name == PARAMS:
        return 2
    if describes_collective(name):
        return 1
    return 4 if has_values(name) else 3 if is_product(name) else 0


def decoded(raw: msgspec.Raw) -> Any:
    """Decode an argument; None if it was not recorded or cannot be read."""
    data = bytes(raw)
    if not data:
        return None
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def first_tensor(dims: Any, types: Any) -> tuple[int, str | None]:
    """Return the number of elements and the type of the first tensor input.

    Args:
        dims: "Input Dims": one shape per input.
        types: "Input type": one type name per input.

    Returns:
        Elements (of a tensor list the sum over its tensors; -1 if unknown) and the type, None
        for a tensor list, whose elements have no recorded type.
    """
    if not isinstance(dims, list) or not isinstance(types, list):
        return MISSING, None
    for shape, kind in zip(dims, types, strict=False):
        if kind == "TensorList" and isinstance(shape, list) and shape:
            counts = [_elements(tensor) for tensor in shape]
            return (MISSING if MISSING in counts else sum(counts)), None
        if isinstance(kind, str) and kind not in _NO_TENSOR:
            return _elements(shape), kind
    return MISSING, None


_NO_TENSOR = frozenset({"", "Scalar", "ScalarList", "TensorList", "None", "GenericList"})


def _elements(shape: Any) -> int:
    if not isinstance(shape, list) or not all(isinstance(size, int) for size in shape):
        return MISSING
    count = 1
    for size in shape:
        count *= size
    return count if 0 <= count < 1 << 62 else MISSING


def peer_of(inputs: Any) -> int:
    """Return the third input of c10d::send and c10d::recv_: the peer's rank in the group."""
    return count_of(inputs[2]) if isinstance(inputs, list) and len(inputs) > 2 else MISSING


def split_and_size(inputs: Any) -> tuple[int, tuple[str | None, str | None]]:
    """Return the group size and the splits from the inputs of ``record_param_comms``.

    Source: PyTorch's ``record_param_comms`` has the inputs tensors, sequence, group, rank,
    operation, splits in, splits out; then the size of the group, or since 2024 its first rank,
    the stride of its ranks and its size.

    Returns:
        The size, -1 if unknown; the texts of the splits in and out, None if unknown.
    """
    if not isinstance(inputs, list) or not all(isinstance(value, str) for value in inputs):
        return MISSING, (None, None)
    lists = [at for at, text in enumerate(inputs) if text.startswith("[") and text.endswith("]")]
    if len(lists) != 2 or lists[1] != lists[0] + 1:
        return MISSING, (None, None)
    first, last = inputs[lists[0]], inputs[lists[1]]
    rest = [text for text in inputs[lists[1] + 1 :] if text.isdecimal() and len(text) <= _DIGITS]
    size = int(rest[2]) if len(rest) >= 3 else int(rest[0]) if len(rest) == 1 else 0
    return size or MISSING, (first, last)


def count_of(value: object) -> int:
    """Return an integer of at least -1, given as number or text; -1 for anything else."""
    if isinstance(value, int) and not isinstance(value, bool) and -1 <= value < 1 << 62:
        return value
    if isinstance(value, str) and value.isdecimal() and len(value) < 19:
        return int(value)
    return MISSING


def record_id(value: object) -> int:
    """Return the id of an operator in the execution trace; -1 for 0, which means no id."""
    return count_of(value) or MISSING


def unsigned(value: object) -> int:
    """Return an unsigned 64-bit integer, given as number or text; 0 for anything else."""
    if isinstance(value, str) and value.isdecimal() and len(value) <= _DIGITS_U64:
        value = int(value)
    return value if isinstance(value, int) and 0 <= value <= _MAX_U64 else 0


def scalar_text(value: object) -> str | None:
    """Return the text of a value, None for None."""
    return None if value is None else str(value)


def list_text(value: object) -> str | None:
    """Return split sizes as text; a JSON list is formatted as the profiler formats it."""
    if value is None or isinstance(value, str):
        return value or None
    return str(value)
