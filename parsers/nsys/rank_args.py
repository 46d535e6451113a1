"""Which call of NCCL each of a rank's ranges is, and which call made each of its kernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from parsers.columns import I32, I64, MISSING
from parsers.nsys.communicators import Communicators
from parsers.nsys.nccl import ArgsTable, Call, Issue, assign, issues_of
from parsers.nsys.rows import Owner, TableRows

_PIECE_ROWS: Final = 1 << 18
_RANGE_COLUMNS: Final = ("start_ns", "dur_ns", "name", "payload", "track")

Columns = Mapping[str, npt.NDArray[Any]]


@dataclass(frozen=True, slots=True)
class RankTables:
    """The tables of a file, and whose rows are a rank's (None: all of them)."""

    ranges: TableRows
    calls: TableRows
    kernels: TableRows
    threads: set[Owner] | None
    streams: set[Owner] | None


@dataclass(slots=True)
class RankArgs:
    """The arguments of a rank's calls: rows of ``table`` for its ranges and its kernels.

    In the order of the tables; None where there are none.
    """

    table: ArgsTable
    ranges: I32 | None = None
    kernels: I32 | None = None

    @classmethod
    def of(cls, found: Communicators, rank: RankTables) -> RankArgs:
        """The arguments that the ranges of NCCL state."""
        args = cls(ArgsTable(found.num_ranks))
        is_nccl = found.names.is_nccl()
        if not is_nccl.any():
            return args
        names = rank.ranges.column("name", rank.threads)
        rows = np.flatnonzero(is_nccl[names])
        if not len(rows):
            return args
        columns = {name: rank.ranges.column(name, rank.threads)[rows] for name in _RANGE_COLUMNS}
        keys = list(zip(columns["name"].tolist(), columns["payload"].tolist(), strict=True))
        calls = {key: found.call(key) for key in dict.fromkeys(keys)}
        known = {key: args.table.of_call(call) for key, call in calls.items() if call is not None}
        args.ranges = np.full(len(names), MISSING, np.int32)
        args.ranges[rows] = [known.get(key, MISSING) for key in keys]
        texts = [found.names.ranges[name].text for name, _ in keys]
        issues = _issues(columns, texts, [calls[key] for key in keys])
        args.kernels = _args_of_kernels(args.table, issues, rank)
        return args


def _issues(
    columns: Columns, texts: Sequence[str], calls: Sequence[Call | None]
) -> dict[int, list[Issue]]:
    """When each thread (a track of the ranges) issued which calls of NCCL."""
    start, end = columns["start_ns"], columns["start_ns"] + columns["dur_ns"]
    by_track: dict[int, list[tuple[int, int, str, Call | None]]] = {}
    for row in np.lexsort((-end, start)).tolist():
        entry = (int(start[row]), int(end[row]), texts[row], calls[row])
        by_track.setdefault(int(columns["track"][row]), []).append(entry)
    return {track: issues_of(entries) for track, entries in by_track.items()}


def _args_of_kernels(
    table: ArgsTable, issues: Mapping[int, list[Issue]], rank: RankTables
) -> I32 | None:
    """Arguments of NCCL's kernels, told by where and when they were launched."""
    by_library = np.array(["nccl" in text.lower() for text in rank.kernels.texts] or [False])
    if not by_library.any() or not issues:
        return None
    correlation = rank.kernels.column("correlation", rank.streams)
    is_library = by_library[rank.kernels.column("name", rank.streams)]
    rows = np.flatnonzero(is_library & (correlation >= 0))
    args = np.full(len(correlation), MISSING, np.int32)
    work = _processes(rank.kernels)[rank.kernels.column("track", rank.streams)[rows]]
    track = rank.calls.column("track", rank.threads)
    calls = _processes(rank.calls), track, rank.calls.column("correlation", rank.threads)
    launched = _launches((work, correlation[rows]), calls)
    rows, launched = rows[launched >= 0], launched[launched >= 0]
    start = rank.calls.column("start_ns", rank.threads)[launched]
    end = start + rank.calls.column("dur_ns", rank.threads)[launched]
    for number, issued in issues.items():
        thread = rank.ranges.tracks[number]
        same = np.array([key == thread for key in rank.calls.tracks], np.bool_)
        mine = np.flatnonzero(same[track[launched]])
        args[rows[mine]] = assign(issued, start[mine], end[mine], table)
    return args


def _processes(table: TableRows) -> I64:
    """The process of each track of a table."""
    return np.array([key[1] for key in table.tracks], np.int64)


def _launches(work: tuple[I64, I64], calls: tuple[I64, I32, I64]) -> I64:
    """Row of the API call of each piece of work, by (process, correlation), -1 where none.

    ``work`` is process and correlation; ``calls`` the process of each track, the track and the
    correlation of each call. The correlation alone repeats between processes. Calls are many,
    so they are looked through piece by piece.
    """
    wanted = _pair(*work)
    known, index = np.unique(wanted, return_inverse=True)
    found = np.full(len(known), MISSING, np.int64)
    of_track, track, correlation = calls
    for begin in range(0, len(track), _PIECE_ROWS):
        piece = slice(begin, begin + _PIECE_ROWS)
        keys = _pair(of_track[track[piece]], correlation[piece])
        at = np.minimum(np.searchsorted(known, keys), len(known) - 1)
        rows = np.flatnonzero((known[at] == keys) & (correlation[piece] >= 0) & (found[at] < 0))
        found[at[rows][::-1]] = begin + rows[::-1]  # of several the first
    return found[index]


def _pair(process: I64, correlation: I64) -> I64:
    return process << 40 | correlation & ((1 << 40) - 1)
