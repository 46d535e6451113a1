"""Decode payloads of NVTX ranges: JSON text written by nsys, or the bytes of the program.

A payload in bytes begins with four 64-bit numbers, little-endian: domain, schema, size of the
payload, size of everything. The schema, which the file has too, gives the offset and type of each
member. nsys writes the bytes only with ``export --include-blobs=true``.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from ccltui.parsers.nsys.sqlite.database import Database

Content = str | int | bytes
"""A text, the id of a string, or bytes."""

SCHEMAS: Final = "NVTX_PAYLOAD_SCHEMA_ENTRIES"
_HEAD: Final = struct.Struct("<4Q")
_FIRST_OWN_TYPE: Final = 1 << 24  # enumerations and nested schemas that a program registers
# Source: entry types of nvToolsExtPayload.h on 64-bit Linux, char to size_t.
_FORMATS: Final = {
    **{3: "h", 4: "H", 5: "i", 6: "I", 7: "q", 8: "Q", 9: "q", 10: "Q"},
    **{11: "b", 12: "B", 13: "h", 14: "H", 15: "i", 16: "I", 17: "q", 18: "Q", 22: "Q"},
}


class PayloadSchemas:
    """Payload schemas of a file: name, offset and type of the integer members."""

    def __init__(self, entries: Mapping[int, Mapping[str, tuple[int, str]]]) -> None:
        self._entries = entries

    @classmethod
    def of(cls, database: Database) -> PayloadSchemas:
        """Read the schemas; processes that register the same schema write equal entries."""
        entries: dict[int, dict[str, tuple[int, str]]] = {}
        columns = ("schemaId", "name", "type", "offset", "arrayOrUnionDetail")
        for schema, name, kind, offset, detail in database.rows(SCHEMAS, columns):
            is_own = isinstance(kind, int) and kind >= _FIRST_OWN_TYPE
            form = "i" if is_own else _FORMATS.get(kind)
            if isinstance(name, str) and isinstance(schema, int) and form and not detail:
                entries.setdefault(schema, {})[name] = (offset or 0, form)
        return cls(entries)

    def members(self, content: Content, texts: Mapping[int, str]) -> Mapping[str, Any]:
        """Return the members of a payload, {} if it has none. ``texts``: strings by id."""
        if isinstance(content, bytes):
            return self._unpacked(content)
        text = texts.get(content, "") if isinstance(content, int) else content
        try:
            found = msgspec.json.decode(text)
        except (msgspec.DecodeError, RecursionError):
            return {}
        return found if isinstance(found, dict) else {}

    def _unpacked(self, content: bytes) -> Mapping[str, int]:
        if len(content) < _HEAD.size:
            return {}
        _, schema, size, whole = _HEAD.unpack_from(content)
        if whole != len(content) or size != whole - _HEAD.size:
            return {}
        found = {}
        for name, (offset, form) in self._entries.get(schema, {}).items():
            if 0 <= offset <= size - struct.calcsize(form):
                (found[name],) = struct.unpack_from(f"<{form}", content, _HEAD.size + offset)
        return found
