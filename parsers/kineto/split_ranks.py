"""Divide the columns of a file among its ranks, and give each rank tracks of its own."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from ccltui.parsers.array_types import I32
from ccltui.parsers.columns import MISSING, Events, Group, Track
from ccltui.parsers.kineto.rank_builder import Columns
from ccltui.parsers.kineto.ranks_in_file import RankPart


def with_devices_joined(columns: Columns) -> Columns:
    """Return the columns with one track for each stream, whatever pid its rows have."""
    numbers: dict[Track, int] = {}
    renumbered = np.array(
        [numbers.setdefault(track, len(numbers)) for track in columns.tracks], np.int32
    )
    if len(numbers) == len(columns.tracks):
        return columns
    return _renumbered(columns, tuple(numbers), renumbered)


def split_ranks(columns: Columns, parts: Sequence[RankPart]) -> list[Columns]:
    """Return the columns of each part; ``columns`` loses its rows, so that they are held once.

    Rows of processes that belong to no part are left out.
    """
    owned = [_tracks_of(columns, part) for part in parts]
    events: list[dict[Group, Events]] = [{} for _ in parts]
    for group in list(columns.events):
        rows = columns.events.pop(group)
        for (_, renumbered), mine in zip(owned, events, strict=True):
            own = np.flatnonzero(renumbered[rows.track] != MISSING)
            if len(own):
                taken = rows.take(own)
                mine[group] = dataclasses.replace(taken, track=renumbered[taken.track])
    return [
        columns._replace(events=mine, tracks=tracks)
        for (tracks, _), mine in zip(owned, events, strict=True)
    ]


def _tracks_of(columns: Columns, part: RankPart) -> tuple[tuple[Track, ...], I32]:
    """Return the tracks of a part, and their numbers in it, -1 for tracks of others."""
    renumbered = np.full(len(columns.tracks), MISSING, np.int32)
    numbers: dict[Track, int] = {}
    for index, (track, pid) in enumerate(zip(columns.tracks, columns.processes, strict=True)):
        if (pid in part.hosts) if track.kind == "thread" else ((pid, track.device) in part.devices):
            renumbered[index] = numbers.setdefault(track, len(numbers))
    return tuple(numbers), renumbered


def _renumbered(columns: Columns, tracks: tuple[Track, ...], renumbered: I32) -> Columns:
    events = {
        group: dataclasses.replace(rows, track=renumbered[rows.track])
        for group, rows in columns.events.items()
    }
    return columns._replace(events=events, tracks=tracks)
