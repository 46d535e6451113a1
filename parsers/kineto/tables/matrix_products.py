"""Operators made of matrix products: the shapes of their inputs tell how much they compute."""

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
)
LONGEST: Final = 400  # bytes of shapes that are kept: what is longer describes no product


def is_product(name: object) -> bool:
    """Whether an operator of this name is one whose shapes are kept."""
    return isinstance(name, str) and _PRODUCT.fullmatch(name) is not None


class ProductShapes:
    """Finds the shapes of products among the operators of a rank."""

    def __init__(self, strings: StringPool) -> None:
        self._strings = strings
        self._known: dict[object, bool] = {}

    def ids_of(self, events: list[Event]) -> list[int]:
        """Text id of the shapes of each event, -1 where it is no product or states none."""
        found = []
        for event in events:
            product = self._known.get(event.name)
            if product is None:
                product = self._known[event.name] = is_product(event.name)
            text = bytes(event.args.input_dims) if product and event.args is not None else b""
            usable = 0 < len(text) <= LONGEST and text.isascii()  # shapes are numbers
            found.append(self._strings.id_of(text.decode()) if usable else MISSING)
        return found
