"""Count the events of a profiler plug-in of NCCL: by category, and collectives by operation.

The plug-in of NCCL's examples writes a list with an event a line, and ends it with an empty one;
some of its values are no JSON (``"Stream": 0x1f``, ``"datatype": ncclFloat32``) and are taken as
texts. Others write an object a line. A line that cannot be read is counted, and those around it are
read.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

from ccltui.parsers.errors import TraceError
from ccltui.parsers.safe_text import printable
from ccltui.parsers.text.compression import TextChunks

_LONGEST_LINE: Final = 1 << 20
"""Bytes; an event has fewer than a thousand. A longer one is no event."""
_MOST_NAMES: Final = 1000
"""Distinct categories, operations, ranks or communicators; those beyond are counted as "other"."""
_BEGINS: Final = frozenset({"b", "B", "X", "i", "I", "n"})
"""Phases that begin an event or are all of one; the others end one."""
_PREFIX: Final = "ncclProfile"
_OTHER: Final = "other"


class ProfilerEvents(Struct, frozen=True):
    """What one file holds.

    Attributes:
        path: For messages.
        counts: Number of events by category: "COLL", "GPU"; of JSON lines by type: "Coll".
        operations: Number of collectives by operation: "AllReduce"; each rank counts its own.
        ranks: Ranks inside their communicators, as far as events state them.
        communicators: Hashes of communicators.
        unread: Number of lines that are no JSON object.
    """

    path: str
    counts: Mapping[str, int]
    operations: Mapping[str, int]
    ranks: frozenset[int]
    communicators: frozenset[str]
    unread: int


def count_events(path: Path, *, shown: str) -> ProfilerEvents:
    """Return the counts of a file, which is streamed.

    Raises:
        TraceError: It cannot be read, or no event is in it.
    """
    counting = _Counting()
    for line in _lines(path):
        counting.take(line)
    if not counting.counts:
        raise TraceError("no event of a profiler plug-in in it", path=shown)
    return ProfilerEvents(
        shown,
        dict(counting.counts.most_common()),
        dict(counting.operations.most_common()),
        frozenset(counting.ranks),
        frozenset(counting.communicators),
        counting.unread,
    )


def _lines(path: Path) -> Iterator[bytes]:
    """Yield lines; of one beyond the limit its beginning, which is no JSON."""
    held = b""
    for chunk in TextChunks(path):
        pieces = (held + chunk).split(b"\n")
        held = pieces.pop()
        yield from pieces
        if len(held) > _LONGEST_LINE:
            yield held[:_LONGEST_LINE]
            held = b""
    yield held


class _Counting:
    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.operations: Counter[str] = Counter()
        self.ranks: set[int] = set()
        self.communicators: set[str] = set()
        self.unread = 0

    def take(self, line: bytes) -> None:
        text = line.strip().lstrip(b"[").rstrip(b",]").strip()
        if not text:
            return
        event = _decoded(text) or _decoded(_BARE.sub(rb': "\1"', text))
        if not isinstance(event, dict):
            self.unread += 1
        elif "recordType" in event or "type" in event:
            self._of_lines(event)
        elif event.get("ph", "b") in _BEGINS and isinstance(event.get("cat"), str):
            self._of_example(event)

    def _of_example(self, event: Mapping[str, Any]) -> None:
        kind = event["cat"]
        _add(self.counts, kind)
        args = event.get("args")
        if isinstance(args, dict):
            self._member(args.get("Rank"), args.get("CommHash"))
        if kind in ("COLL", "CE_COLL"):
            _add(self.operations, event.get("name"))

    def _of_lines(self, event: Mapping[str, Any]) -> None:
        kind = event.get("type", event.get("recordType"))
        name = kind.removeprefix(_PREFIX) if isinstance(kind, str) else _OTHER
        _add(self.counts, name)
        self._member(event.get("rank"), event.get("commId"))
        details = event.get("details")
        if name == "Coll" and isinstance(details, dict):
            _add(self.operations, details.get("func"))

    def _member(self, rank: object, communicator: object) -> None:
        if type(rank) is int and len(self.ranks) < _MOST_NAMES:
            self.ranks.add(rank)
        if isinstance(communicator, (int, str)) and len(self.communicators) < _MOST_NAMES:
            self.communicators.add(str(communicator)[:80])


_BARE: Final = re.compile(rb": {0,4}(0x[0-9a-fA-F]{1,16}|nccl\w{1,40})(?=[,}\s])")


def _decoded(text: bytes) -> object:
    """Return the value of a text, None where it is no JSON."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _add(counts: Counter[str], name: object) -> None:
    known = printable(name[:80]) if isinstance(name, str) else _OTHER
    counts[known if known in counts or len(counts) < _MOST_NAMES else _OTHER] += 1
