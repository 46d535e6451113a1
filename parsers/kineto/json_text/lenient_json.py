"""JSON that strict decoders refuse: NaN, trailing commas, broken UTF-8, lone surrogates."""

from __future__ import annotations

import json
import re
from typing import Any

from ccltui.parsers.kineto.json_text.json_tokens import drop_trailing_commas

_SURROGATE = re.compile("[\ud800-\udfff]")
_REPLACEMENT = "\ufffd"


def lenient_json(text: bytes) -> Any:
    """Value of ``text``, floats, NaN and endless integers as their text.

    What is no character becomes U+FFFD.
    Raises ``ValueError`` or ``RecursionError`` where nothing can be made of it.
    """
    decoded = drop_trailing_commas(text).decode("utf-8", "replace")
    value = json.loads(
        decoded, strict=False, parse_float=str, parse_int=_integer, parse_constant=str
    )
    return _mended(value)


def _integer(text: str) -> int | str:
    """An integer; its text where it has more digits than Python converts."""
    try:
        return int(text)
    except ValueError:
        return text


def _mended(value: Any) -> Any:
    """``value`` with every string encodable: halves of surrogate pairs are replaced."""
    if isinstance(value, str):
        return _SURROGATE.sub(_REPLACEMENT, value)
    if isinstance(value, list):
        return [_mended(item) for item in value]
    if isinstance(value, dict):
        return {_mended(key): _mended(item) for key, item in value.items()}
    return value
