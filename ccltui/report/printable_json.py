"""Encode JSON that is safe to print and parses to the same names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import orjson

from ccltui.parsers.safe_text import safe_text

# C0 is always escaped inside strings; line feeds between them are formatting. Both are compiled at
# first use, which takes 3 ms: most documents are ASCII.
_BEYOND: Final = "[\x7f-\U0010ffff]+"
_SURROGATES: Final = "[\ud800-\udfff]"
_INT64_MIN: Final = -(1 << 63)
_UINT64_MAX: Final = (1 << 64) - 1
_OPTIONS: Final = orjson.OPT_NON_STR_KEYS | orjson.OPT_SERIALIZE_NUMPY


def json_bytes(value: Any, *, indent: bool = False) -> bytes:
    """Encode ``value`` as JSON and a line feed, safe to print; strings parse to themselves.

    Only lone surrogates, which are not Unicode text, are escaped in the string itself.
    """
    options = _OPTIONS | (orjson.OPT_INDENT_2 if indent else 0)
    try:
        data = orjson.dumps(value, option=options, default=str)
    except orjson.JSONEncodeError:  # a name that is not valid UTF-8, an integer beyond 64 bits
        data = orjson.dumps(_valid(value), option=options, default=str)
    return printable_json(data.decode()).encode() + b"\n"


def printable_json(text: str) -> str:
    r"""Return a JSON text with each unsafe character as ``\uXXXX``; it parses to the same value.

    Outside of strings JSON is ASCII, so only strings change.
    """
    if text.isascii() and "\x7f" not in text:
        return text
    return re.sub(_BEYOND, lambda match: safe_text(match[0], _escape), text)


def _escape(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    pairs = zip(units[::2], units[1::2], strict=True)
    return "".join(f"\\u{high:02x}{low:02x}" for high, low in pairs)


def _valid(value: Any) -> Any:
    if isinstance(value, str):
        return re.sub(_SURROGATES, lambda match: safe_text(match[0]), value)
    if isinstance(value, int) and not _INT64_MIN <= value <= _UINT64_MAX:
        return orjson.Fragment(str(value).encode())
    if isinstance(value, Mapping):
        return {_valid_key(key): _valid(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_valid(item) for item in value]
    return value


def _valid_key(key: Any) -> Any:
    return str(key) if isinstance(key, int) and not isinstance(key, bool) else _valid(key)
