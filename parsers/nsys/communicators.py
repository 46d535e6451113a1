"""The communicators of a file, and which call of NCCL made which of its kernels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from parsers.columns import I32, I64, MISSING, CollectiveArgs, ProcessGroup
from parsers.nsys.file_names import FileNames
from parsers.nsys.identity import Identity, Part, part_of
from parsers.nsys.nccl import ArgsTable, Call, Issue, Member, assign, call_of, issues_of, member_of
from parsers.nsys.nvtx import NCCL
from parsers.nsys.rows import Columns, TrackKey

_PIECE_ROWS = 1 << 18


@dataclass(slots=True)
class Communicators:
    """The communicators of a file and the arguments of its calls."""

    parts: Sequence[Part]
    members: list[Member]
    table: ArgsTable

    @classmethod
    def of(
        cls,
        columns: Mapping[str, Columns],
        names: FileNames,
        tracks: Sequence[TrackKey],
        parts: Sequence[Part],
    ) -> Communicators:
        """Read the ranges of NCCL; ``columns`` get ``args`` for ranges and kernels."""
        nvtx = columns["nvtx"]
        is_nccl = np.zeros(len(names.texts) + 1, np.bool_)
        is_nccl[[index for index, name in names.ranges.items() if name.domain == NCCL]] = True
        rows = np.flatnonzero(is_nccl[nvtx["name"]])
        members = []
        calls: dict[tuple[int, int], Call | None] = {}
        for row in rows.tolist():
            payload = _payload(names, int(nvtx["payload"][row]))
            member = member_of(tracks[nvtx["track"][row]][1], payload)
            if member is not None:
                members.append(member)
            key = (int(nvtx["name"][row]), int(nvtx["payload"][row]))
            if key not in calls:
                calls[key] = call_of(names.ranges[key[0]].text, payload)
        sizes = {member.communicator: member.num_ranks for member in members}
        found = cls(parts, members, ArgsTable(sizes))
        nvtx["args"] = found._args_of_ranges(nvtx, rows, calls)
        issues = _issues(nvtx, rows, calls, names)
        columns["gpu"]["args"] = found._args_of_kernels(columns, names, tracks, issues)
        return found

    def _args_of_ranges(
        self,
        nvtx: Columns,
        rows: npt.NDArray[np.intp],
        calls: Mapping[tuple[int, int], Call | None],
    ) -> I32:
        args = np.full(len(nvtx["name"]), MISSING, np.int32)
        known = {k: self.table.of_call(call) for k, call in calls.items() if call is not None}
        pairs = zip(nvtx["name"][rows].tolist(), nvtx["payload"][rows].tolist(), strict=True)
        args[rows] = [known.get(pair, MISSING) for pair in pairs]
        return args

    def _args_of_kernels(
        self,
        columns: Mapping[str, Columns],
        names: FileNames,
        tracks: Sequence[TrackKey],
        issues: Mapping[int, list[Issue]],
    ) -> I32:
        """Arguments of NCCL's kernels, told by where and when they were launched."""
        gpu, runtime = columns["gpu"], columns["runtime"]
        args = np.full(len(gpu["name"]), MISSING, np.int32)
        by_library = np.array(["nccl" in text.lower() for text in names.texts] + [False])
        rows = np.flatnonzero(by_library[gpu["name"]] & (gpu["correlation"] >= 0))
        if not len(rows) or not issues:
            return args
        process = np.array([key[1] for key in tracks], np.int64)
        launched = _launches(
            (process[gpu["track"][rows]], gpu["correlation"][rows]),
            (process, runtime["track"], runtime["correlation"]),
        )
        rows, launched = rows[launched >= 0], launched[launched >= 0]
        start = runtime["start_ns"][launched]
        end = start + runtime["dur_ns"][launched]
        for track, issued in issues.items():
            mine = np.flatnonzero(runtime["track"][launched] == track)
            args[rows[mine]] = assign(issued, start[mine], end[mine], self.table)
        return args

    def finish(
        self, ids: Mapping[str, int], known: Mapping[Part, Identity]
    ) -> tuple[CollectiveArgs, tuple[ProcessGroup, ...]]:
        """The arguments, and the communicators with the global ranks of their members."""
        communicators = dict.fromkeys(
            [*(member.communicator for member in self.members), *self.table.communicators()]
        )
        ranks = {c: self._ranks_of(c, known) for c in communicators}
        groups = tuple(
            ProcessGroup(
                name=f"{c:#x}",
                description="world" if self._is_world(c, known) else "",
                ranks=ranks[c],
                size=self.table.num_ranks.get(c, MISSING),
                backend="nccl",
            )
            for c in communicators
        )
        numbers = {c: index for index, c in enumerate(communicators)}
        return self.table.finish(ids, numbers, ranks), groups

    def _is_world(self, communicator: int, known: Mapping[Part, Identity]) -> bool:
        """Whether every rank of the job is a member: it is as large as the world."""
        size = self.table.num_ranks.get(communicator, MISSING)
        return {size} == {identity.world_size for identity in known.values()}

    def _ranks_of(self, communicator: int, known: Mapping[Part, Identity]) -> tuple[int, ...]:
        """Global ranks in order of the communicator's own, () unless all are certain."""
        size = self.table.num_ranks.get(communicator, MISSING)
        if self._is_world(communicator, known):
            return tuple(range(size))
        of_rank: dict[int, int] = {}
        for member in self.members:
            part = part_of(member, self.parts)
            rank = None if part is None else known[part].rank
            if member.communicator == communicator and rank is not None:
                of_rank[member.rank] = rank
        return tuple(of_rank[rank] for rank in range(size)) if len(of_rank) == size else ()


def _payload(names: FileNames, index: int) -> Mapping[str, Any]:
    return {} if index < 0 else names.payloads[index]


def _issues(
    nvtx: Columns,
    rows: npt.NDArray[np.intp],
    calls: Mapping[tuple[int, int], Call | None],
    names: FileNames,
) -> dict[int, list[Issue]]:
    """When each thread issued which calls of NCCL."""
    by_track: dict[int, list[tuple[int, int, str, Call | None]]] = {}
    for row in rows.tolist():
        name, start = int(nvtx["name"][row]), int(nvtx["start_ns"][row])
        call = calls[name, int(nvtx["payload"][row])]
        entry = (start, start + int(nvtx["dur_ns"][row]), names.ranges[name].text, call)
        by_track.setdefault(int(nvtx["track"][row]), []).append(entry)
    return {track: issues_of(ranges) for track, ranges in by_track.items()}


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
