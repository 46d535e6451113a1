"""Dumps of PyTorch's flight recorder, pickled or JSON: the last collectives of each process."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from ccltui.parsers.errors import TraceError
from ccltui.parsers.format import Format, Match, Priority, Rule
from ccltui.parsers.text.file_sample import is_pickle

if TYPE_CHECKING:
    from ccltui.parsers.text.file_sample import FileSample

_SNIFFED: Final = 1 << 12
"""Bytes of a pickle in which its first keys are found: a thousand groups are longer."""
_VERSION: Final = re.compile(r"\d{1,3}\.\d{1,3}")


def is_dump(value: Any) -> bool:
    """Whether the value of a pickle or of JSON, or the beginning of one, is a dump.

    A dictionary with a version, as text, and groups or entries; in PyTorch 2.2 a list of entries.
    """
    if isinstance(value, list):
        first = value[0] if value else None
        return isinstance(first, Mapping) and "profiling_name" in first
    if not isinstance(value, Mapping):
        return False
    version = value.get("version")
    if isinstance(version, str) and _VERSION.fullmatch(version):
        return "pg_config" in value or "entries" in value
    return version is None and is_dump(value.get("entries"))


def _pickled(sample: FileSample) -> Match | None:
    if not is_pickle(sample.data):
        return None
    from ccltui.parsers.text.plain_pickle import read_plain_pickle  # noqa: PLC0415  (few files need it)

    for size in (_SNIFFED, len(sample.data)):  # the first entry of old versions may be longer
        try:
            begun = read_plain_pickle(sample.data[:size], shown=sample.path)
        except TraceError:
            return None
        if is_dump(begun.value):
            return Match()
        if not begun.cut:
            return None
    return None


def _json(sample: FileSample) -> Match | None:
    """The keys are sorted: entries, of any number, come before the groups."""
    document = sample.json
    if document is None or not document.is_plain_object:
        return None
    keys = document.object_keys
    is_whole = {"version", "pg_config"} <= keys
    is_begun = "entries" in keys and b'"profiling_name"' in sample.data
    return Match() if is_whole or is_begun else None


FLIGHT_RECORD: Final = Format(
    kind="flight_record",
    description="a dump of PyTorch's flight recorder: the last collectives of one process",
    sniff=(Rule(Priority.BINARY, _pickled), Rule(Priority.JSON_KEYS, _json)),
    rank_in_name=True,
    has_own_metrics=True,
)
