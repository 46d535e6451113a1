"""Hand-built collectives for the tests of matching: times in µs, one clock unless shifted."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from ccltui.metrics.collectives.matching.match import MatchInput
from ccltui.metrics.model.calls import DTYPES, CallRows, Calls
from ccltui.metrics.model.classify import TYPES
from ccltui.metrics.model.communicator_groups import CommGroup
from ccltui.parsers.columns import MISSING

EPOCH_NS = 1_707_000_000_000_000_123
"""Real times are this large: float64 would lose up to 253 ns of them."""


class Call(Struct, frozen=True):
    """One collective of one rank."""

    start_us: float
    end_us: float
    kind: str = "AllReduce"
    elems: int = MISSING
    out_elems: int = MISSING
    dtype: str = ""
    group: int = 0
    seq: int = MISSING
    comms_id: int = 0
    step: int = MISSING
    src: int = MISSING
    dst: int = MISSING


def calls(rows: Sequence[Call], *, shift_us: float = 0.0, source: str = "kernel") -> Calls:
    """The rows in order of start, on a clock that is ahead by ``shift_us``."""
    rows = sorted(rows, key=lambda row: row.start_us)

    def column(values: Sequence[float], dtype: type = np.int64) -> np.ndarray:
        return np.array(values, dtype)

    start = column([EPOCH_NS + round((row.start_us + shift_us) * 1000) for row in rows])
    none = np.full(len(rows), MISSING, np.int64)
    return Calls(
        source=source,
        start_ns=start,
        dur_ns=column([round((row.end_us - row.start_us) * 1000) for row in rows]),
        kind=column([TYPES.index(row.kind) for row in rows], np.int8),
        group=column([row.group for row in rows], np.int32),
        message_bytes=none,
        wire_bytes=none,
        in_elems=column([row.elems for row in rows]),
        out_elems=column([row.out_elems for row in rows]),
        dtype=column([DTYPES.index(r.dtype) if r.dtype else MISSING for r in rows], np.int32),
        seq=column([row.seq for row in rows]),
        comms_id=column([row.comms_id for row in rows], np.uint64),
        step=column([row.step for row in rows]),
        src=column([row.src for row in rows]),
        dst=column([row.dst for row in rows]),
        rows=CallRows("gpu", np.arange(len(rows))),
        has_metadata=np.zeros(len(rows), np.bool_),
        library=np.zeros(len(rows), np.int8),
    )


def member(
    rank: int | None,
    rows: Sequence[Call],
    *,
    host: str = "",
    label: str = "",
    shift_us: float = 0.0,
    source: str = "kernel",
) -> MatchInput:
    """One rank's part in the matching."""
    made = calls(rows, shift_us=shift_us, source=source)
    return MatchInput(label or str(rank), rank, host, made)


def group(*ranks: int, name: str = "0") -> CommGroup:
    """A communicator of these ranks."""
    text = ",".join(str(rank) for rank in ranks)
    return CommGroup(ranks, name, "", label=f"group {text}", size=len(ranks))
