"""Select the inputs of operators that metrics need: shapes, types, and of some the values.

FLOPs and bytes are computed from those of matrix products, attention and convolutions, the tokens
of a step from the shapes of look-ups of embeddings.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ccltui.parsers.columns import MISSING

if TYPE_CHECKING:
    import msgspec

    from ccltui.parsers.kineto.json_text.typed_event import Event
    from ccltui.parsers.kineto.scanner.text_ids import StringPool

_PRODUCT = re.compile(
    r"aten::(?:mm|addmm|_addmm_activation|bmm|baddbmm|_scaled_mm)"
    r"|aten::_scaled_dot_product_(?:flash|efficient|cudnn|fused)_attention\w*"
    r"|aten::embedding"
)
_WITH_VALUES: Final = frozenset(
    (
        *("aten::convolution", "aten::convolution_backward"),
        *("aten::addmm", "aten::_addmm_activation", "aten::baddbmm"),
    )
)
"""Operators whose other inputs count: stride and padding; the factor of what is added, if 0."""
MAX_SHAPES_BYTES: Final = 400  # bytes; a longer text is not the inputs of a product


def is_product(name: object) -> bool:
    """Return whether shapes and types of the inputs of an operator of this name are stored."""
    return isinstance(name, str) and (_PRODUCT.fullmatch(name) is not None or has_values(name))


def has_values(name: object) -> bool:
    """Return whether values of the inputs of an operator of this name are stored too."""
    return isinstance(name, str) and name in _WITH_VALUES


class ProductInputs:
    """Text ids of the inputs of such operators of a rank."""

    def __init__(self, strings: StringPool) -> None:
        self._strings = strings
        self._known: dict[object, bool] = {}

    def ids_of(self, events: list[Event]) -> dict[str, list[int]]:
        """Return text ids of shapes, types and values of each event, by column; -1: not stored."""
        found: dict[str, list[int]] = {"shapes": [], "input_types": [], "input_values": []}
        for event in events:
            product = self._known.get(event.name)
            if product is None:
                product = self._known[event.name] = is_product(event.name)
            args = event.args if product else None
            shapes = MISSING if args is None else self._id_of(args.input_dims)
            stored = args is not None and shapes >= 0
            types = self._id_of(args.input_type) if args is not None and stored else MISSING
            values = MISSING
            if args is not None and stored and has_values(event.name):
                values = self._id_of(args.concrete_inputs)
            for column, value in zip(found.values(), (shapes, types, values), strict=True):
                column.append(value)
        return found

    def _id_of(self, raw: msgspec.Raw) -> int:
        text = bytes(raw)
        usable = 0 < len(text) <= MAX_SHAPES_BYTES and text.isascii()
        return self._strings.id_of(text.decode()) if usable else MISSING
