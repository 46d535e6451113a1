"""Decode JSON that strict decoders reject: NaN, trailing commas, bad UTF-8, lone surrogates."""

from __future__ import annotations

import json
import re
from typing import Any

from ccltui.parsers.kineto.json_text.json_tokens import drop_trailing_commas

_SURROGATE = re.compile("[\ud800-\udfff]")
_REPLACEMENT = "\ufffd"


def lenient_json(text: bytes) -> Any:
    """Decode ``text``; floats, NaN and integers too long for Python are returned as text.

    Bytes that are not UTF-8 and lone surrogates become U+FFFD.

    Raises:
        ValueError: The text cannot be decoded.
        RecursionError: The text is nested too deeply.
    """
    decoded = drop_trailing_commas(text).decode("utf-8", "replace")
    value = json.loads(
        decoded, strict=False, parse_float=str, parse_int=_integer, parse_constant=str
    )
    return _with_valid_text(value)


def _integer(text: str) -> int | str:
    """Return an integer, or its text where it has more digits than Python converts."""
    try:
        return int(text)
    except ValueError:
        return text


def _with_valid_text(value: Any) -> Any:
    """Return ``value`` with lone surrogates replaced, so that every string can be encoded."""
    if isinstance(value, str):
        return _SURROGATE.sub(_REPLACEMENT, value)
    if isinstance(value, list):
        return [_with_valid_text(item) for item in value]
    if isinstance(value, dict):
        return {_with_valid_text(key): _with_valid_text(item) for key, item in value.items()}
    return value
