"""Message sizes and bus bandwidth by the conventions of nccl-tests (PERFORMANCE.md).

algbw = S / t, busbw = algbw * f(n), bytes on the wire per rank = S * f(n). The process group has
n ranks, not the world. One byte a nanosecond is one decimal GB/s.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ccltui.metrics.arrays.reductions import row_max, row_min
from ccltui.metrics.model.classify import TYPES
from ccltui.parsers.array_types import F64, I64
from ccltui.parsers.columns import MISSING

_FROM_INPUT = ("AllReduce", "ReduceScatter", "AllToAll", "Send")
_FROM_OUTPUT = ("AllGather", "Recv")
_EQUAL_SIDES = ("AllReduce", "Send", "Recv")
_WHOLE_RING = ("AllReduce", "Barrier")
_HALF_RING = ("ReduceScatter", "AllGather", "AllToAll", "Gather", "Scatter")
_ONE_WAY = ("Broadcast", "Reduce", "Send", "Recv")


def _is_one_of(names: tuple[str, ...]) -> npt.NDArray[np.bool_]:
    return np.array([name in names for name in TYPES])


def message_bytes(
    kind: npt.ArrayLike,
    in_bytes: npt.ArrayLike,
    out_bytes: npt.ArrayLike,
    group_size: npt.ArrayLike = MISSING,
) -> I64:
    """Message size S of each call, int64 bytes, -1 where the trace does not tell.

    ``kind`` indexes ``TYPES``; -1 in the sizes means absent. AllReduce, ReduceScatter and
    AllToAll take the input, AllGather the output, Broadcast, Reduce and ambiguous types the
    larger side. Where ``group_size`` is known, AllGather and ReduceScatter without the full
    side are told from their part, and Gather and Scatter count the total over ranks.
    """
    kinds = np.asarray(kind, np.int64)
    given = np.asarray(in_bytes, np.int64)
    produced = np.asarray(out_bytes, np.int64)
    size = np.asarray(group_size, np.int64)
    larger = np.maximum(given, produced)
    chosen = np.where(_is_one_of(_FROM_INPUT)[kinds], given, larger)
    chosen = np.where(_is_one_of(_FROM_OUTPUT)[kinds], produced, chosen)
    chosen = np.where(_is_one_of(_EQUAL_SIDES)[kinds] & (chosen < 0), larger, chosen)
    for name, part, always in (
        ("AllGather", given, False),
        ("ReduceScatter", produced, False),
        ("Gather", given, True),
        ("Scatter", produced, True),
    ):
        known = (kinds == TYPES.index(name)) & (part >= 0) & (size > 0)
        chosen = np.where(known & (always | (chosen < 0)), part * size, chosen)
    return np.asarray(chosen, np.int64)


def wire_factor(kind: npt.ArrayLike, group_size: npt.ArrayLike) -> F64:
    """f(n) of each call, float64; NaN for a type without one or an unknown group size."""
    kinds = np.asarray(kind, np.int64)
    size = np.asarray(group_size, np.float64)
    part = (size - 1) / np.where(size > 0, size, np.nan)
    factor = np.where(_is_one_of(_WHOLE_RING)[kinds], 2 * part, np.nan)
    factor = np.where(_is_one_of(_HALF_RING)[kinds], part, factor)
    return np.where(_is_one_of(_ONE_WAY)[kinds], 1.0, factor)


@dataclass(frozen=True, slots=True)
class Bandwidth:
    """Bandwidth of matched collectives, one row an instance; NaN or -1 where unknown."""

    message_bytes: I64
    time_ns: I64
    algbw_gbps: F64  # decimal GB/s
    busbw_gbps: F64


def matched_bandwidth(
    kind: npt.ArrayLike, size_bytes: I64, dur_ns: I64, group_size: npt.ArrayLike
) -> Bandwidth:
    """Bandwidth of instances over their members: ``size_bytes`` and ``dur_ns`` are int64 [n, m].

    The time is the minimum duration over ranks, because the last to arrive does not wait. With
    one rank only (m = 1) it includes waiting, and the result is a lower bound. -1 in either
    array is an absent member; the message is the largest that any member states.
    """
    size = row_max(size_bytes, MISSING)
    present = np.where(dur_ns >= 0, dur_ns, np.iinfo(np.int64).max)
    time = row_min(present, np.iinfo(np.int64).max)
    time = np.where(time == np.iinfo(np.int64).max, MISSING, time)
    measured = (time > 0) & (size >= 0)
    algbw = np.where(measured, size, np.nan) / np.where(measured, time, 1)
    return Bandwidth(size, time, algbw, algbw * wire_factor(kind, group_size))
