"""Memory snapshots of PyTorch's caching allocator: what one process holds, and its last events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ccltui.parsers.errors import TraceError
from ccltui.parsers.format import Format, Match, Priority, Rule
from ccltui.parsers.text.file_sample import is_pickle

if TYPE_CHECKING:
    from ccltui.parsers.text.file_sample import FileSample

_SNIFFED: Final = 1 << 12
_KEYS: Final = (b"segments", b"device_traces", b"segment_type", b"allocated_size")


def _pickled(sample: FileSample) -> Match | None:
    is_named = "snapshot" in sample.lower_name
    is_held = any(key in sample.data for key in _KEYS)
    if not is_pickle(sample.data) or not (is_held or is_named):
        return None
    from ccltui.parsers.text.plain_pickle import read_plain_pickle  # noqa: PLC0415  (few files need it)

    try:
        read_plain_pickle(sample.data[:_SNIFFED], shown="")
    except TraceError as error:
        why = f"at byte {error.offset or 0:,}: {error.message}"
        return Match(
            f"not a memory snapshot of plain values ({why}): never loaded, it could run code"
        )
    return Match()


MEMORY_SNAPSHOT: Final = Format(
    kind="memory_snapshot",
    description="a memory snapshot of PyTorch: what one process holds on its devices",
    sniff=(Rule(Priority.BINARY, _pickled),),
    rank_in_name=True,
    has_own_metrics=True,
)
