"""Read communicators and calls from the NVTX ranges of NCCL, and assign calls to launches.

A call is an NVTX range of the domain NCCL on a thread. Its kernel is launched inside that range,
or, between ``ncclGroupStart`` and ``ncclGroupEnd``, inside the ``ncclGroupEnd`` of the outermost
group.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from msgspec import Struct, field

from ccltui.parsers.array_types import I32, I64
from ccltui.parsers.columns import MISSING, CollectiveArgs

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
_MAX_RANKS: Final = 1 << 20
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
    count, rank = _number(payload.get(_NUM_RANKS), _MAX_RANKS), _number(payload.get(_RANK), 1 << 20)
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
        _number(peer, _MAX_RANKS),
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
