"""Compute message sizes and bus bandwidth by the conventions of nccl-tests (PERFORMANCE.md).

algbw = S / t, busbw = algbw * f(n), bytes on the wire per rank = S * f(n), where S is the message
size, t the time and n the number of ranks of the process group, not of the world. One byte per
nanosecond is one decimal GB/s.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from ccltui.metrics.arrays.reductions import distinct_values, row_max, row_min
from ccltui.metrics.model.classify import TYPES
from ccltui.parsers.array_types import F64, I64
from ccltui.parsers.columns import MISSING

_FROM_INPUT = ("AllReduce", "ReduceScatter", "AllToAll", "Send")
_FROM_OUTPUT = ("AllGather", "Recv")
_EQUAL_SIDES = ("AllReduce", "Send", "Recv")
_WHOLE_RING = ("AllReduce", "Barrier")
_HALF_RING = ("ReduceScatter", "AllGather", "AllToAll", "Gather", "Scatter")
_ONE_WAY = ("Broadcast", "Reduce", "Send", "Recv")


@cache
def _is_one_of(names: tuple[str, ...]) -> npt.NDArray[np.bool_]:
    return np.array([name in names for name in TYPES])


def message_bytes(
    kind: npt.ArrayLike,
    in_bytes: npt.ArrayLike,
    out_bytes: npt.ArrayLike,
    group_size: npt.ArrayLike = MISSING,
) -> I64:
    """Return the message size S of each call, int64 bytes, -1 where it is unknown.

    S is the input of AllReduce, ReduceScatter and AllToAll, the output of AllGather, and the larger
    side of Broadcast, Reduce and ambiguous types. Where ``group_size`` is known, AllGather and
    ReduceScatter without the full side are computed from the part of one rank, and S of Gather and
    Scatter is the total over ranks.

    Args:
        kind: index into TYPES of each call.
        in_bytes: size of the input, -1 where absent.
        out_bytes: size of the output, -1 where absent.
        group_size: ranks of the process group, -1 where unknown.
    """
    kinds = np.asarray(kind, np.int64)
    inputs = np.asarray(in_bytes, np.int64)
    outputs = np.asarray(out_bytes, np.int64)
    size = np.asarray(group_size, np.int64)
    larger = np.maximum(inputs, outputs)
    chosen = np.where(_is_one_of(_FROM_INPUT)[kinds], inputs, larger)
    chosen = np.where(_is_one_of(_FROM_OUTPUT)[kinds], outputs, chosen)
    chosen = np.where(_is_one_of(_EQUAL_SIDES)[kinds] & (chosen < 0), larger, chosen)
    present = distinct_values(kinds).tolist()
    for name, part, always in (
        ("AllGather", inputs, False),
        ("ReduceScatter", outputs, False),
        ("Gather", inputs, True),
        ("Scatter", outputs, True),
    ):
        if TYPES.index(name) not in present:
            continue
        known = (kinds == TYPES.index(name)) & (part >= 0) & (size > 0)
        chosen = np.where(known & (always | (chosen < 0)), part * size, chosen)
    return np.asarray(chosen, np.int64)


def wire_factor(kind: npt.ArrayLike, group_size: npt.ArrayLike) -> F64:
    """Return f(n) of each call, float64; NaN for a type without one or an unknown group size.

    f is 2 (n - 1) / n for AllReduce and Barrier, (n - 1) / n for ReduceScatter, AllGather,
    AllToAll, Gather and Scatter, and 1 for Broadcast, Reduce, Send and Recv.
    """
    kinds = np.asarray(kind, np.int64)
    size = np.asarray(group_size, np.float64)
    part = (size - 1) / np.where(size > 0, size, np.nan)
    factor = np.where(_is_one_of(_WHOLE_RING)[kinds], 2 * part, np.nan)
    factor = np.where(_is_one_of(_HALF_RING)[kinds], part, factor)
    return np.where(_is_one_of(_ONE_WAY)[kinds], 1.0, factor)


class Bandwidth(Struct, frozen=True):
    """Bandwidth of matched collectives, one row per instance; NaN or -1 where unknown."""

    message_bytes: I64
    time_ns: I64
    algbw_gbps: F64  # decimal GB/s
    busbw_gbps: F64


def matched_bandwidth(
    kind: npt.ArrayLike, size_bytes: I64, dur_ns: I64, group_size: npt.ArrayLike
) -> Bandwidth:
    """Return the bandwidth of n matched collectives of m members.

    The time is the minimum duration over ranks, because the last to arrive does not wait. With
    one rank only (m = 1) it includes waiting, and the result is a lower bound. The message is the
    largest that any member states.

    Args:
        kind: index into TYPES of each collective.
        size_bytes: int64 [n, m], -1 for an absent member.
        dur_ns: int64 [n, m], -1 for an absent member.
        group_size: ranks of the process group of each collective.
    """
    size = row_max(size_bytes, MISSING)
    present = np.where(dur_ns >= 0, dur_ns, np.iinfo(np.int64).max)
    time = row_min(present, np.iinfo(np.int64).max)
    time = np.where(time == np.iinfo(np.int64).max, MISSING, time)
    measured = (time > 0) & (size >= 0)
    algbw = np.where(measured, size, np.nan) / np.where(measured, time, 1)
    return Bandwidth(size, time, algbw, algbw * wire_factor(kind, group_size))
