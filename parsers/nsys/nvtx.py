"""Read NVTX ranges: annotations of the program and its libraries, and the calls of NCCL.

Payloads are JSON text written by nsys, or the bytes of the program. The bytes begin with four
64-bit numbers, little-endian: domain, schema, size of the payload, size of everything. The schema,
which the file has too, gives the offset and type of each member. nsys writes the bytes only with
``export --include-blobs=true``. Texts of names are looked up only for string ids that events use.

A call is an NVTX range of the domain NCCL on a thread. Its kernel is launched inside that range,
or, between ``ncclGroupStart`` and ``ncclGroupEnd``, inside the ``ncclGroupEnd`` of the outermost
group.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec
import numpy as np
from msgspec import Struct, field

from ccltui.parsers.array_types import I32, I64, Bool
from ccltui.parsers.columns import MISSING, CollectiveArgs, Strings
from ccltui.parsers.nsys.sqlite.database import Database
from ccltui.parsers.nsys.sqlite.export_schema import DOMAIN_CREATED, NVTX, RANGES
from ccltui.parsers.nsys.sqlite.table_rows import (
    Pairs,
    Scratch,
    Spill,
    TableRows,
    ThreadIds,
    process_of,
)
from ccltui.parsers.nsys.sqlite.table_scans import Numbers, Texts, new_numbers, new_texts
from ccltui.parsers.window import MOST_RANKS

CALLS: Final = {
    "ncclAllReduce": "ncclAllReduce",
    "ncclAllGather": "ncclAllGather",
    "ncclReduceScatter": "ncclReduceScatter",
    "ncclBroadcast": "ncclBroadcast",
    "ncclBcast": "ncclBroadcast",
    "ncclReduce": "ncclReduce",
    "ncclAlltoAll": "ncclAlltoAll",
    "ncclAllToAll": "ncclAlltoAll",
    "ncclGather": "ncclGather",
    "ncclScatter": "ncclScatter",
    "ncclSend": "ncclSend",
    "ncclRecv": "ncclRecv",
}
"""Names of ranges that are calls, and the operation of each."""
_TRANSFERS: Final = ("ncclSend", "ncclRecv")
_COMMUNICATOR: Final = "NCCL communicator ID"
_SIZE: Final = "Message size [bytes]"
_NUM_RANKS: Final = "No. of ranks"
_RANK: Final = "Rank"
_DEVICE: Final = "CUDA device"
_PEERS: Final = ("Peer rank", "Peer", "peer")
_MAX_BYTES: Final = 1 << 60


class Member(Struct, frozen=True):
    """Membership of a process in a communicator, from the payload of its creation."""

    process: int
    device: int
    communicator: int
    num_ranks: int
    rank: int


class Call(Struct, frozen=True):
    """Arguments of a call: size of its count in bytes; -1, and communicator 0, if not stated."""

    op: str
    communicator: int
    size_bytes: int
    peer: int


def member_of(process: int, payload: Mapping[str, Any]) -> Member | None:
    """Return the membership in a payload, None for any other payload."""
    communicator = _number(payload.get(_COMMUNICATOR), 1 << 64)
    count, rank = (
        _number(payload.get(_NUM_RANKS), MOST_RANKS),
        _number(payload.get(_RANK), MOST_RANKS),
    )
    if communicator < 0 or count <= 0 or not 0 <= rank < count:
        return None
    return Member(process, _number(payload.get(_DEVICE), 1 << 16), communicator, count, rank)


def call_of(name: str, payload: Mapping[str, Any]) -> Call | None:
    """Return the call of an NCCL range, None if it is no call."""
    op = CALLS.get(name)
    if op is None:
        return None
    peer = next((payload[key] for key in _PEERS if key in payload), None)
    return Call(
        op,
        max(_number(payload.get(_COMMUNICATOR), 1 << 64), 0),
        _number(payload.get(_SIZE), _MAX_BYTES),
        _number(peer, MOST_RANKS),
    )


def _number(value: object, below: int) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < below:
        return value
    return MISSING


def sizes(op: str, size_bytes: int, num_ranks: int) -> tuple[int, int]:
    """Return bytes in and out of a call, -1 where unknown.

    The count of an all-gather is what a rank sends, of a reduce-scatter and a scatter what it
    receives, of an all-to-all what it sends to each peer.

    Source: NCCL API reference.
    """
    if size_bytes < 0:
        return MISSING, MISSING
    whole = size_bytes * num_ranks if num_ranks > 0 else MISSING
    if op in ("ncclAllGather", "ncclGather"):
        return size_bytes, whole if op == "ncclAllGather" else MISSING
    if op in ("ncclReduceScatter", "ncclScatter"):
        return whole if op == "ncclReduceScatter" else MISSING, size_bytes
    if op == "ncclAlltoAll":
        return whole, whole
    if op == "ncclSend":
        return size_bytes, MISSING
    return (MISSING, size_bytes) if op == "ncclRecv" else (size_bytes, size_bytes)


class ArgsTable(Struct):
    """Distinct arguments of collectives, one row each; texts get ids in `finish`."""

    num_ranks: Mapping[int, int]
    _rows: dict[tuple[str, int, int, int, int], int] = field(default_factory=dict)

    def of_call(self, call: Call) -> int:
        """Return the row of one call."""
        in_bytes, out_bytes = sizes(
            call.op, call.size_bytes, self.num_ranks.get(call.communicator, MISSING)
        )
        return self._row(call.op, call.communicator, in_bytes, out_bytes, call.peer)

    def of_calls(self, calls: Sequence[Call], num_kernels: int) -> int:
        """Return the row of calls issued in one group; arguments that differ are missing.

        If one kernel executes all of them, its bytes are the sum of theirs.
        """
        if len(calls) == 1:
            return self.of_call(calls[0])
        ops = {call.op for call in calls}
        communicators = {call.communicator for call in calls}
        op = ops.pop() if len(ops) == 1 else ""
        communicator = communicators.pop() if len(communicators) == 1 else 0
        if not op and not communicator:
            return MISSING
        in_bytes = out_bytes = MISSING
        if num_kernels == 1 and communicator and (op or ops <= set(_TRANSFERS)):
            count = self.num_ranks.get(communicator, MISSING)
            both = [sizes(call.op, call.size_bytes, count) for call in calls]
            if all(max(pair) >= 0 for pair in both):
                in_bytes = _sum([given for given, _ in both])
                out_bytes = _sum([got for _, got in both])
        return self._row(op, communicator, in_bytes, out_bytes, MISSING)

    def _row(self, op: str, communicator: int, in_bytes: int, out_bytes: int, peer: int) -> int:
        key = (op, communicator, in_bytes, out_bytes, peer)
        return self._rows.setdefault(key, len(self._rows))

    def __len__(self) -> int:
        return len(self._rows)

    def finish(
        self, ids: Mapping[str, int], groups: Mapping[int, int], ranks: Mapping[int, Sequence[int]]
    ) -> CollectiveArgs:
        """Return the columns.

        Args:
            ids: String id of each text.
            groups: Process group of each communicator.
            ranks: Global ranks of each communicator, in its order.
        """
        rows: dict[str, list[int]] = {name: [] for name, _ in CollectiveArgs.COLUMNS}
        for op, communicator, in_bytes, out_bytes, peer in self._rows:
            known = ranks.get(communicator, ())
            partner = known[peer] if 0 <= peer < len(known) else MISSING
            sized = in_bytes >= 0 or out_bytes >= 0
            row = {
                "op": ids[op] if op else MISSING,
                "in_elems": in_bytes,
                "out_elems": out_bytes,
                "dtype": ids[UNTYPED] if sized else MISSING,
                "group": groups.get(communicator, MISSING),
                "group_size": self.num_ranks.get(communicator, MISSING),
                "comms_id": communicator,
                "src": partner if op == "ncclRecv" else MISSING,
                "dst": partner if op == "ncclSend" else MISSING,
            }
            for name, column in rows.items():
                column.append(row.get(name, MISSING))
        columns: dict[str, Any] = {n: np.array(rows[n], t) for n, t in CollectiveArgs.COLUMNS}
        return CollectiveArgs(**columns)


UNTYPED: Final = "bytes"
"""Element type of calls whose size is stated in bytes; the real type is not recorded."""


def _sum(parts: Sequence[int]) -> int:
    known = [part for part in parts if part >= 0]
    return sum(known) if known else MISSING


GROUPS: Final = ("ncclGroupStart", "ncclGroupEnd")


class Issued(Struct, frozen=True):
    """Calls issued by one thread, by start: launches in [start, end] belong to ``calls[which]``.

    int64 columns of one length; ``calls`` has each combination of grouped calls once.
    """

    start_ns: I64
    end_ns: I64
    which: I64
    calls: Sequence[tuple[Call, ...]]


def issued_of(ranges: Sequence[tuple[int, int, str, Call | None]]) -> Issued:
    """Return the calls of one thread from its NCCL ranges (start, end, name, call) by start."""
    issues: list[tuple[int, int, int]] = []
    numbers: dict[tuple[Call, ...], int] = {}
    pending: list[Call] = []
    depth = 0
    for start, end, name, call in ranges:
        if name == "ncclGroupStart":
            depth += 1
        elif name == "ncclGroupEnd":
            depth = max(depth - 1, 0)
            if depth == 0 and pending:
                issues.append((start, end, numbers.setdefault(tuple(pending), len(numbers))))
                pending = []
        elif call is not None and depth > 0:
            pending.append(call)
        elif call is not None:
            issues.append((start, end, numbers.setdefault((call,), len(numbers))))
    rows = np.array(issues, np.int64).reshape(-1, 3)
    return Issued(rows[:, 0], rows[:, 1], rows[:, 2], list(numbers))


def assign(issued: Issued, launched_ns: I64, ended_ns: I64, table: ArgsTable) -> I32:
    """Return the row of arguments of each launch of one thread, int32, -1 outside any call."""
    rows = np.full(len(launched_ns), MISSING, np.int32)
    if not len(issued.which) or not len(launched_ns):
        return rows
    at = np.searchsorted(issued.start_ns, launched_ns, side="right") - 1
    inside = (at >= 0) & (ended_ns <= issued.end_ns[at])
    counts = np.bincount(at[inside], minlength=len(issued.which))
    # Arguments depend on the number of kernels only by whether it is one.
    found, case = np.unique(issued.which * 2 + (counts == 1), return_inverse=True)
    used = np.unique(case[counts > 0]).tolist()
    of_case = np.full(len(found), MISSING, np.int32)
    for number in used:
        which, alone = divmod(int(found[number]), 2)
        of_case[number] = table.of_calls(issued.calls[which], 1 if alone else 2)
    rows[inside] = of_case[case[at[inside]]]
    return rows


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
        except (msgspec.DecodeError, UnicodeError, RecursionError):
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


_COLUMNS: Final = (
    *("start", "end", "eventType", "globalTid", "domainId", "textId", "jsonTextId"),
    *("text", "jsonText", "binaryData"),
)
_PROFILER_IDS: Final = (", op_id = ", ", seq = ")
_MARKS: Final = (b", op_id = ", b", seq = ")
_SPILLED: Final = {
    **{"start_ns": np.int64, "dur_ns": np.int64, "name": np.int32, "track": np.int32},
    "payload": np.int32,
}
NCCL: Final = "NCCL"


class Ranges(Struct):
    """Every closed range of a file.

    Attributes:
        rows: Their rows.
        domains: Name of each domain, or its string id, by process and number.
        payloads: Distinct payloads.
        stated: Distinct pairs of name and payload numbers, in order of appearance.
    """

    rows: TableRows
    domains: dict[tuple[int, int], str | int] = field(default_factory=dict)
    payloads: list[Content] = field(default_factory=list)
    stated: list[tuple[int, int]] = field(default_factory=list)


class _Choice:
    """Numbering of values that are either a text or the id of a string."""

    def __init__(self, texts: Texts) -> None:
        self._texts = texts
        self._strings: Numbers = new_numbers()
        self._either = Pairs()

    def of(self, text: I64, string_id: I64) -> I32:
        """Return the number of each row: of its ``text`` if it has one (not -1), else of its id."""
        is_string = text == MISSING
        numbers = np.where(is_string, self._strings.of(string_id), text).astype(np.int32)
        return self._either.of(is_string.astype(np.int32), numbers)

    def values(self) -> list[tuple[str | int, bool]]:
        """Return values by number, and whether a text was cut; id -1 for rows without either."""
        texts = [(t.decode("utf-8", "replace"), was_cut) for t, was_cut in self._texts.values()]
        strings = self._strings.values().tolist()
        return [(strings[n], False) if kind else texts[n] for kind, n in self._either.values()]


class _Contents:
    """Numbering of payloads: a text, the id of a string, or bytes."""

    def __init__(self) -> None:
        self.json, self.blobs = new_texts(), new_texts(blobs=True)
        self._strings: Numbers = new_numbers()
        self._any = Pairs()

    def of(self, json: I64, string_id: I64, blob: I64) -> I32:
        """Return the number of each row's payload, -1 without one."""
        kinds = np.select([json >= 0, string_id >= 0, blob >= 0], [_JSON, _STRING, _BLOB], MISSING)
        numbers = np.select(
            [kinds == _JSON, kinds == _STRING], [json, self._strings.of(string_id)], blob
        )
        found = np.full(len(json), MISSING, np.int32)
        rows = kinds >= 0
        found[rows] = self._any.of(kinds[rows].astype(np.int32), numbers[rows].astype(np.int32))
        return found

    def values(self) -> list[Content]:
        """Return the payloads by number."""
        json = [text.decode("utf-8", "replace") for text, _ in self.json.values()]
        strings = self._strings.values().tolist()
        known = {_JSON: json, _STRING: strings, _BLOB: [blob for blob, _ in self.blobs.values()]}
        return [known[kind][number] for kind, number in self._any.values()]


_JSON, _STRING, _BLOB = range(3)


def read_ranges(database: Database, scratch: Scratch, progress: Callable[[int], None]) -> Ranges:
    """Read all ranges; ``progress`` is called with the number of rows of each block."""
    ranges = Ranges(TableRows(Spill(scratch, _SPILLED)))
    contents = _Contents()
    texts = {"text": new_texts(_MARKS), "jsonText": contents.json, "binaryData": contents.blobs}
    titles = _Choice(texts["text"])
    threads, places, names, stated = ThreadIds(), _Places(), Pairs(), Pairs()
    only = ("eventType", (*RANGES, DOMAIN_CREATED))
    created: dict[tuple[int, int], int] = {}
    for numbers in database.numbers(NVTX, _COLUMNS, texts, only):
        start, end, event, thread, domain, text_id, json_id, text, json, blob = numbers
        track, owner = threads.of(thread)
        title = titles.of(text, text_id)
        name = names.of(places.of(owner, domain), title)
        payload = contents.of(json, json_id, blob)
        found = np.flatnonzero(event == DOMAIN_CREATED)
        for row in found.tolist():
            key = (int(process_of(thread[row : row + 1])[0]), int(domain[row]))
            created[key] = int(title[row])
        rows = event != DOMAIN_CREATED if len(found) else slice(None)
        has_content = payload >= 0
        stated.of(name[has_content], payload[has_content])
        ranges.rows.append(
            start[rows], end[rows], owner[rows], name=name[rows], track=track[rows],
            payload=payload[rows],
        )  # fmt: skip
        progress(len(start))
    known = titles.values()
    owners, domains = threads.owners(), places.domains()
    of_place = [(owners[owner][0], domains[number]) for owner, number in places.values()]
    ranges.rows.names = [(*of_place[place], *known[title]) for place, title in names.values()]
    ranges.rows.tracks, ranges.rows.owners = threads.tracks(), owners
    ranges.domains = {key: known[title][0] for key, title in created.items()}
    ranges.payloads = contents.values()
    ranges.stated = stated.values()
    return ranges


class _Places:
    """Numbering of pairs of process and domain."""

    def __init__(self) -> None:
        self._domains, self._pairs = new_numbers(), Pairs()

    def of(self, process: I32, domain: I64) -> I32:
        return self._pairs.of(process, self._domains.of(domain))

    def values(self) -> list[tuple[int, int]]:
        """Return the numbers of process and domain of each pair."""
        return self._pairs.values()

    def domains(self) -> list[int]:
        found: list[int] = self._domains.values().tolist()
        return found


def cut(text: str) -> tuple[str, bool]:
    """Return a range's name without the ids that PyTorch's ``emit_nvtx`` appends.

    Returns:
        The name, and whether it had ids.
    """
    ends = [at for mark in _PROFILER_IDS if (at := text.find(mark)) >= 0]
    return (text[: min(ends)], True) if ends else (text, False)


class RangeName(Struct, frozen=True):
    """Full name of a range; the default domain is ""."""

    domain: str
    text: str
    is_operator: bool

    @property
    def shown(self) -> str:
        """``domain:text``, or the text alone in the default domain, as nsys shows it."""
        return f"{self.domain}:{self.text}" if self.domain else self.text.removeprefix(":")


def range_name(key: tuple[Any, ...], ranges: Ranges, texts: dict[int, str]) -> RangeName:
    """Return the name of a range's key, with the strings of the file."""
    process, number, title, was_cut = key
    name, has_ids = cut(texts.get(title, "")) if isinstance(title, int) else (title, was_cut)
    known = ranges.domains.get((process, number), "")
    domain = texts.get(known, "") if isinstance(known, int) else known
    # Ranges of a communication backend are no operators: they repeat the operator around them.
    return RangeName(domain, name, has_ids and not name.startswith(("nccl:", "gloo:")))


class FileNames:
    """Names and payloads of ranges by number, and the final ids of all texts of the file."""

    def __init__(self, ranges: list[RangeName], payloads: list[Mapping[str, Any]]) -> None:
        self.ranges = ranges
        self.payloads = payloads
        self.ids: dict[str, int] = {}

    @classmethod
    def of(cls, database: Database, tables: Sequence[TableRows], ranges: Ranges) -> FileNames:
        """Look up every text that the tables refer to; set their ``texts``."""
        wanted = [key[1] for table in tables for key in table.names if key[0] == "id"]
        wanted += [key[2] for key in ranges.rows.names if isinstance(key[2], int)]
        wanted += [name for name in ranges.domains.values() if isinstance(name, int)]
        wanted += [content for content in ranges.payloads if isinstance(content, int)]
        found = database.texts([number for number in wanted if number != MISSING])
        for table in tables:
            table.texts = [
                key[1] if key[0] == "text" else found.get(key[1], "") for key in table.names
            ]
        named = [range_name(key, ranges, found) for key in ranges.rows.names]
        ranges.rows.texts = [name.shown for name in named]
        schemas = PayloadSchemas.of(database)
        return cls(named, [schemas.members(content, found) for content in ranges.payloads])

    def is_operator(self) -> Bool:
        """Return which names of ranges are those of operators, bool."""
        return np.array([name.is_operator for name in self.ranges] or [False], np.bool_)

    def is_nccl(self) -> Bool:
        """Return which names of ranges are of NCCL's domain, bool."""
        return np.array([name.domain == NCCL for name in self.ranges] or [False], np.bool_)

    def finish(self, tables: Sequence[TableRows], further: Iterable[str]) -> Strings:
        """Return all texts, sorted; set the final ids of the tables' names."""
        ordered = sorted({*further, *(text for table in tables for text in table.texts)})
        self.ids = {text: index for index, text in enumerate(ordered)}
        for table in tables:
            # The text of an unknown string id is empty; a missing id has no text.
            ids = [
                MISSING if key == ("id", MISSING) else self.ids[text]
                for key, text in zip(table.names, table.texts, strict=True)
            ]
            table.final = np.array(ids, np.int32)
        return Strings.of(ordered)
