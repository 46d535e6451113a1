"""JSON that strict decoders refuse: NaN, trailing commas, broken UTF-8, lone surrogates."""

from __future__ import annotations

import json
import re
from typing import Any

from parsers.kineto.tokens import drop_trailing_commas

_SURROGATE = re.compile("[\ud800-\udfff]")
_REPLACEMENT = "\ufffd"


def lenient_json(text: bytes) -> Any:
    """Value of ``text``, floats and NaN as their text; what is no character becomes U+FFFD.

    Raises ``ValueError`` or ``RecursionError`` where nothing can be made of it.
    """
    decoded = drop_trailing_commas(text).decode("utf-8", "replace")
    return _mended(json.loads(decoded, strict=False, parse_float=str, parse_constant=str))


def _mended(value: Any) -> Any:
    """``value`` with every string encodable: halves of surrogate pairs are replaced."""
    if isinstance(value, str):
        return _SURROGATE.sub(_REPLACEMENT, value)
    if isinstance(value, list):
        return [_mended(item) for item in value]
    if isinstance(value, dict):
        return {_mended(key): _mended(item) for key, item in value.items()}
    return value
