"""Select the input shapes of operators that metrics need.

FLOPs are computed from those of matrix products and attention, the tokens of a step from those of
look-ups of embeddings.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from ccltui.parsers.columns import MISSING

if TYPE_CHECKING:
    from ccltui.parsers.kineto.json_text.typed_event import Event
    from ccltui.parsers.kineto.scanner.text_ids import StringPool

_PRODUCT = re.compile(
    r"aten::(?:mm|addmm|_addmm_activation|bmm|baddbmm|_scaled_mm)"
    r"|aten::_scaled_dot_product_(?:flash|efficient|cudnn|fused)_attention\w*"
    r"|aten::embedding"
)
MAX_SHAPES_BYTES: Final = 400  # bytes; a longer text is not the shapes of a product


def is_product(name: object) -> bool:
    """Return whether the shapes of an operator of this name are stored."""
    return isinstance(name, str) and _PRODUCT.fullmatch(name) is not None


class ProductShapes:
    """Text ids of the input shapes of such operators of a rank."""

    def __init__(self, strings: StringPool) -> None:
        self._strings = strings
        self._known: dict[object, bool] = {}

    def ids_of(self, events: list[Event]) -> list[int]:
        """Return the text id of each event's shapes, -1 for other operators and without shapes."""
        found = []
        for event in events:
            product = self._known.get(event.name)
            if product is None:
                product = self._known[event.name] = is_product(event.name)
            text = bytes(event.args.input_dims) if product and event.args is not None else b""
            usable = 0 < len(text) <= MAX_SHAPES_BYTES and text.isascii()  # shapes are ASCII
            found.append(self._strings.id_of(text.decode()) if usable else MISSING)
        return found
