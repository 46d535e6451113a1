"""Find where device work without a launch record was launched, from the launched work around it.

A profiler lacks the launch of some work: Triton kernels that `cuLaunchKernel` starts, copies of
ROCm, work queued before the recording began.
"""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from ccltui.parsers.array_types import I32, I64, Bool

FIRST_MARKER = 1
"""Place of the first marker (`marker_places`)."""


class LikelyPlaces(Struct, frozen=True):
    """Place of the likeliest launch of each event, and a mask of those that are only guessed."""

    place: I64
    guessed: Bool


def marker_places(starts_ns: I64, ends_ns: I64, times_ns: I64) -> I64:
    """Return where each time lies among markers: 2i + 1 in marker i, 2i before it, int64.

    Args:
        starts_ns: start of each marker, ascending.
        ends_ns: end of each marker.
        times_ns: the times.
    """
    index = np.searchsorted(starts_ns, times_ns, side="right") - 1
    after = (index >= 0) & (times_ns >= ends_ns.take(index))
    return np.asarray(np.where(index >= 0, 2 * index + 1 + after, 0))


def likely_places(
    track: I32, launched_at: I64, started_at: I64, unlaunched: Bool, last_place: int
) -> LikelyPlaces:
    """Return the place of the launch of each event without a launch record.

    A stream runs its work in the order of the launches, so that the launched work before and after
    an event on its stream, or on the device where its stream lacks such, bounds its place. Inside
    these bounds it is the marker in which the event starts, moved back by as many markers as begin
    between the launch and the start of the launched work before it. It is a guess where the bounds
    differ and the device lags so or no marker holds the start.

    Args:
        track: stream of each event of the device, by start.
        launched_at: place of each launch (`marker_places`), of any value where ``unlaunched``.
        started_at: place of each start.
        unlaunched: mask of the events without a launch record.
        last_place: the place after the last marker.
    """
    rows = np.flatnonzero(unlaunched)
    before, after = (
        np.where(stream >= 0, stream, device)[rows]
        for stream, device in zip(
            _launched_around(track, ~unlaunched),
            _launched_around(np.zeros_like(track), ~unlaunched),
            strict=True,
        )
    )
    start = started_at[rows]
    earliest = np.where(before >= 0, launched_at[before], 0)
    # Nothing tells work of the first step from work that was launched before the recording.
    earliest = np.maximum(earliest, np.minimum(start, FIRST_MARKER))
    latest = np.where(after >= 0, launched_at[after], last_place)
    # After the last marker no marker tells by how many steps work is late.
    has_lag = (before >= 0) & (start < last_place)
    begun = (started_at[before] + 1) // 2 - (launched_at[before] + 1) // 2
    lag = np.where(has_lag, np.maximum(begun, 0), 0)
    place = np.minimum(np.maximum(start - 2 * lag, earliest), latest)
    is_told = (earliest >= latest) | (start == 0) | ((place == start) & (place % 2 == 1))
    return LikelyPlaces(place, ~is_told)


def _launched_around(track: I32, launched: Bool) -> tuple[I64, I64]:
    """Return the nearest launched rows of one track before and after each row, -1 for none."""
    order = np.argsort(track, kind="stable")
    first = np.searchsorted(track[order], track[order], side="left")
    end = np.searchsorted(track[order], track[order], side="right")
    at = np.arange(len(track))
    known = launched[order]
    before = np.maximum.accumulate(np.where(known, at, -1))
    after = np.minimum.accumulate(np.where(known, at, len(at))[::-1])[::-1]
    found = np.full((2, len(track)), -1, np.int64)
    found[0, order] = np.where(before >= first, order[before], -1)
    found[1, order] = np.where(after < end, order[np.minimum(after, len(at) - 1)], -1)
    return found[0], found[1]
