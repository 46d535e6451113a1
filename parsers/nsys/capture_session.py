"""The ranks of a file, its session, and its communicators with the kernels of their calls.

A file holds the whole environment of the profiled processes. Only the variables of
``export_schema.ENVIRONMENT_KEYS`` are queried, one by one, and only numbers are accepted.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from ccltui.parsers.array_types import I32, I64, Bool
from ccltui.parsers.columns import MISSING, CollectiveArgs, Device, ProcessGroup, RankSource
from ccltui.parsers.nsys.nvtx import (
    CALLS,
    GROUPS,
    UNTYPED,
    ArgsTable,
    Call,
    FileNames,
    Issued,
    Member,
    Ranges,
    assign,
    call_of,
    issued_of,
    member_of,
)
from ccltui.parsers.nsys.sqlite.database import Database
from ccltui.parsers.nsys.sqlite.export_schema import (
    CAPTURE,
    CUDA_DEVICES,
    ENVIRONMENT_KEYS,
    EXPORT,
    GPUS,
    SESSION,
    SYSTEM,
)
from ccltui.parsers.nsys.sqlite.table_rows import Owner, TableRows
from ccltui.parsers.window import MOST_RANKS

_MAX_EPOCH_NS: Final = 1 << 62
_NUMBER: Final = re.compile(r'"?([0-9]{1,7})"?')
_HOST: Final = re.compile(r"[\w.-]{1,255}")
_RANK_KEYS: Final = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK")


class Part(Struct, frozen=True):
    """Part of a file that is one rank: one process on one device (-1: no device work)."""

    process: int
    device: int


class Identity(Struct, frozen=True):
    """Rank of a part, its source, and the world size; None where unknown."""

    rank: int | None = None
    source: RankSource = "none"
    world_size: int | None = None


class Session(Struct, frozen=True):
    """Start of a recording (UTC in ns, None if not stated), host, and version of nsys."""

    start_ns: int | None
    host: str
    version: str


def session_of(database: Database) -> Session:
    """Return start, host and version of the recording."""
    exported: dict[str, str] = {}
    for table in EXPORT:
        wanted = "name IN ('EXPORT_PRODUCT_VERSION', 'EXPORT_PARAM_TIME_NORMALIZE')"
        for name, value in database.rows(table, ("name", "value"), wanted):
            exported[str(name)] = str(value)
    start = None
    for (value,) in database.rows(SESSION, ("utcEpochNs",)):
        if isinstance(value, int) and 0 <= value < _MAX_EPOCH_NS:
            start = value
    if exported.get("EXPORT_PARAM_TIME_NORMALIZE", "").lower() == "true":
        start = 0  # the times already count from the epoch
    host = ""
    for (value,) in database.rows(SYSTEM, ("value",), "name = 'Hostname'"):
        if isinstance(value, str) and _HOST.fullmatch(value):
            host = value
    version = exported.get("EXPORT_PRODUCT_VERSION", "")
    return Session(start, host, version if re.fullmatch(r"[0-9.]{1,40}", version) else "")


def environment_of(database: Database) -> dict[str, int]:
    """Return the numbers of the permitted environment variables of the launched process.

    A variable on which two launched processes disagree is omitted.
    """
    if not {"name", "value"} <= set(database.tables.get(CAPTURE, ())):
        return {}
    found: dict[str, set[int]] = {}
    for key in ENVIRONMENT_KEYS:
        where = "name GLOB 'PROCESS_*:ENVIRONMENT_VARIABLE' AND substr(value, 1, ?) = ?"
        prefix = f"{key}="
        for (value,) in database.rows(CAPTURE, ("value",), where, (len(prefix), prefix)):
            number = _NUMBER.fullmatch(str(value)[len(prefix) :])
            if number is not None:
                found.setdefault(key, set()).add(int(number.group(1)))
    return {key: next(iter(values)) for key, values in found.items() if len(values) == 1}


def mpi_ranks(database: Database) -> dict[int, int]:
    """Return the MPI rank of each process, from any table that maps threads to ranks."""
    ranks: dict[int, set[int]] = {}
    for table, columns in database.tables.items():
        rank = next((name for name in columns if name.lower() == "rank"), None)
        if not table.startswith("MPI_") or rank is None or "globalTid" not in columns:
            continue
        for thread, number in database.rows(table, ("globalTid", rank)):
            if isinstance(thread, int) and isinstance(number, int) and 0 <= number < MOST_RANKS:
                ranks.setdefault((thread >> 24) & 0xFFFFFF, set()).add(number)
    return {process: next(iter(r)) for process, r in ranks.items() if len(r) == 1}


def identities(
    parts: Sequence[Part],
    members: Iterable[Member],
    environment: Mapping[str, int],
    mpi: Mapping[int, int],
) -> dict[Part, Identity]:
    """Return the rank of every part, from the most reliable source with distinct ranks.

    The sources, most reliable first: NCCL payloads, environment, MPI tables.
    """
    world = environment.get("WORLD_SIZE")
    world = world if world is None or 0 < world <= MOST_RANKS else None
    evidence = (
        _by_nccl(parts, members, world),
        _by_environment(parts, environment, world),
        _by_mpi(parts, mpi, world),
    )
    for found in evidence:
        ranks = [identity.rank for identity in found.values()]
        if found and len(set(ranks)) == len(ranks):
            return {part: found.get(part, Identity(world_size=world)) for part in parts}
    return {part: Identity(world_size=world) for part in parts}


def _by_nccl(
    parts: Sequence[Part], members: Iterable[Member], world: int | None
) -> dict[Part, Identity]:
    """Return ranks in the largest communicator of each part; it must be as large as the world."""
    found: dict[Part, Identity] = {}
    largest: dict[Part, list[Member]] = {}
    for member in members:
        part = part_of(member, parts)
        if part is None:
            continue
        known = largest.setdefault(part, [])
        if not known or member.num_ranks > known[0].num_ranks:
            largest[part] = [member]
        elif member.num_ranks == known[0].num_ranks:
            known.append(member)
    for part, known in largest.items():
        size, ranks = known[0].num_ranks, {member.rank for member in known}
        if len(ranks) == 1 and (world is None or size == world):
            found[part] = Identity(ranks.pop(), "NCCL payload", size)
    return found if len({identity.world_size for identity in found.values()}) == 1 else {}


def part_of(member: Member, parts: Sequence[Part]) -> Part | None:
    """Return the part that a member of a communicator belongs to, None if not in the file."""
    own = [part for part in parts if part.process == member.process]
    if len(own) == 1:
        return own[0]
    return next((part for part in own if part.device == member.device), None)


def _by_environment(
    parts: Sequence[Part], environment: Mapping[str, int], world: int | None
) -> dict[Part, Identity]:
    """Return ranks from the environment of the launched process.

    With one part it is that process's rank. With several parts the launched process is their
    parent: their ranks are computed from the node number and the order of the parts.
    """
    if len(parts) == 1:
        for key in _RANK_KEYS:
            rank = environment.get(key)
            if rank is not None and rank < (world or MOST_RANKS):
                return {parts[0]: Identity(rank, "environment", world)}
        return {}
    node = environment.get("SLURM_NODEID")
    if node is None or (node + 1) * len(parts) > (world or MOST_RANKS):
        return {}
    first = node * len(parts)
    return {p: Identity(first + i, "environment", world) for i, p in enumerate(parts)}


def _by_mpi(
    parts: Sequence[Part], mpi: Mapping[int, int], world: int | None
) -> dict[Part, Identity]:
    return {
        part: Identity(mpi[part.process], "MPI", world) for part in parts if part.process in mpi
    }


def devices_of(database: Database, part: Part) -> tuple[Device, ...]:
    """Return the device of a part, () if the file does not describe it.

    A process numbers the devices that it can see; a table maps these to the machine's numbers.
    """
    if part.device < 0:
        return ()
    number = gpu_of(database, part)
    for row in database.rows(GPUS, ("id", "deviceId", "name", "totalMemory", "smCount")):
        identifier = row[1] if row[0] is None else row[0]
        if identifier == number:
            memory, units = (v if isinstance(v, int) and v >= 0 else MISSING for v in row[3:])
            return (Device(part.device, str(row[2] or ""), memory, units),)
    return ()


def gpu_of(database: Database, part: Part) -> int:
    """Return the machine's number of a part's device, from a table of the process's numbers.

    Without a row in that table both numbers are the same.
    """
    for gpu, cuda, process in database.rows(CUDA_DEVICES, ("gpuId", "cudaId", "pid")):
        if (cuda, process) == (part.device, part.process) and isinstance(gpu, int):
            return gpu
    return part.device


def part_names(parts: Sequence[Part]) -> list[str]:
    """Return a distinct name of each part of a file: its device, or its process and device."""
    devices = Counter(part.device for part in parts)
    return [
        "no device"
        if part.device < 0
        else f"GPU {part.device}"
        if devices[part.device] == 1
        else f"process {part.process} GPU {part.device}"
        for part in parts
    ]


class Communicators(Struct):
    """Communicators of a file, and the calls of its ranges by numbers of name and payload."""

    parts: Sequence[Part]
    members: list[Member]
    calls: dict[tuple[int, int], Call]
    num_ranks: dict[int, int]
    names: FileNames

    @classmethod
    def of(cls, ranges: Ranges, names: FileNames, parts: Sequence[Part]) -> Communicators:
        """Read members and calls from the payloads of NCCL's ranges."""
        is_nccl = names.is_nccl()
        members, calls = [], {}
        for name, payload in ranges.stated:
            if is_nccl[name]:
                stated = names.payloads[payload]
                member = member_of(ranges.rows.names[name][0], stated)
                members += [member] if member is not None else []
                call = call_of(names.ranges[name].text, stated)
                calls.update({(name, payload): call} if call is not None else {})
        sizes = {member.communicator: member.num_ranks for member in members}
        return cls(parts, members, calls, sizes, names)

    def call(self, key: tuple[int, int]) -> Call | None:
        """Return the call of a range with this name and payload, None if it is no call."""
        return self.calls.get(key) or call_of(self.names.ranges[key[0]].text, {})

    def texts(self) -> tuple[str, ...]:
        """Return every text that arguments may refer to."""
        return (*CALLS.values(), UNTYPED) if self.names.is_nccl().any() else ()

    def all(self) -> tuple[int, ...]:
        """Return the communicators of the file, first those whose creation was recorded."""
        called = (call.communicator for call in self.calls.values() if call.communicator)
        return tuple(dict.fromkeys([*(member.communicator for member in self.members), *called]))

    def groups(self, known: Mapping[Part, Identity]) -> tuple[ProcessGroup, ...]:
        """Return the communicators with the global ranks of their members."""
        return tuple(
            ProcessGroup(
                name=f"{communicator:#x}",
                description="world" if self._is_world(communicator, known) else "",
                ranks=self._ranks_of(communicator, known),
                size=self.num_ranks.get(communicator, MISSING),
                backend="nccl",
            )
            for communicator in self.all()
        )

    def finish(self, table: ArgsTable, known: Mapping[Part, Identity]) -> CollectiveArgs:
        """Return the columns of a table of arguments."""
        numbers = {communicator: index for index, communicator in enumerate(self.all())}
        ranks = {communicator: self._ranks_of(communicator, known) for communicator in numbers}
        return table.finish(self.names.ids, numbers, ranks)

    def _is_world(self, communicator: int, known: Mapping[Part, Identity]) -> bool:
        """Return whether every rank of the job is a member: its size is the world size."""
        size = self.num_ranks.get(communicator, MISSING)
        return {size} == {identity.world_size for identity in known.values()}

    def _ranks_of(self, communicator: int, known: Mapping[Part, Identity]) -> tuple[int, ...]:
        """Return global ranks in order of the communicator's ranks, () unless all are known."""
        size = self.num_ranks.get(communicator, MISSING)
        if self._is_world(communicator, known):
            return tuple(range(size))
        of_rank: dict[int, int] = {}
        for member in self.members:
            part = part_of(member, self.parts)
            rank = None if part is None else known[part].rank
            if member.communicator == communicator and rank is not None:
                of_rank[member.rank] = rank
        return tuple(of_rank[rank] for rank in range(size)) if len(of_rank) == size else ()


_PIECE_ROWS: Final = 1 << 18
_SLOTS: Final = 1 << 20
_RANGE_COLUMNS: Final = ("start_ns", "dur_ns", "name", "payload", "track")

Columns = Mapping[str, npt.NDArray[Any]]


class RankTables(Struct, frozen=True):
    """Tables of a file, and the owners whose rows belong to a rank (None: all of them)."""

    ranges: TableRows
    calls: TableRows
    kernels: TableRows
    threads: set[Owner] | None
    streams: set[Owner] | None


class RankArgs(Struct):
    """Arguments of a rank's calls: rows of ``table`` for its ranges and its kernels.

    ``ranges`` and ``kernels`` are int32 in the order of the tables, -1 for rows without
    arguments; None where no row has any.
    """

    table: ArgsTable
    ranges: I32 | None = None
    kernels: I32 | None = None

    @classmethod
    def of(cls, found: Communicators, rank: RankTables) -> RankArgs:
        """Read the arguments from the payloads of NCCL's ranges."""
        args = cls(ArgsTable(found.num_ranks))
        is_nccl = found.names.is_nccl()
        if not is_nccl.any():
            return args
        num_rows, rows, columns = _nccl_ranges(is_nccl, rank)
        if not len(rows):
            return args
        pairs = (columns["name"].astype(np.int64) << 32) + columns["payload"] + 1
        distinct, which = np.unique(pairs, return_inverse=True)
        keys = [(pair >> 32, (pair & 0xFFFF_FFFF) - 1) for pair in distinct.tolist()]
        calls = [found.call(key) for key in keys]
        of_key = [MISSING if call is None else args.table.of_call(call) for call in calls]
        args.ranges = np.full(num_rows, MISSING, np.int32)
        args.ranges[rows] = np.array(of_key, np.int32)[which]
        texts = [found.names.ranges[name].text for name, _ in keys]
        issued = _issued(columns, which, list(zip(texts, calls, strict=True)))
        args.kernels = _args_of_kernels(args.table, issued, rank)
        return args


def _nccl_ranges(is_nccl: Bool, rank: RankTables) -> tuple[int, I64, Columns]:
    """Return the number of ranges of a rank, the rows of NCCL's domain, and their columns."""
    found: dict[str, list[npt.NDArray[Any]]] = {name: [] for name in _RANGE_COLUMNS}
    rows, done = [np.empty(0, np.int64)], 0
    every = (rank.ranges.pieces(name, rank.threads, _PIECE_ROWS) for name in _RANGE_COLUMNS)
    for pieces in zip(*every, strict=True):
        columns = dict(zip(_RANGE_COLUMNS, pieces, strict=True))
        some = np.flatnonzero(is_nccl[columns["name"]])
        rows.append(some + done)
        done += len(columns["name"])
        for name, column in columns.items():
            found[name].append(column[some])
    joined = {name: np.concatenate(parts) for name, parts in found.items()} if done else {}
    return done, np.concatenate(rows), joined


def _issued(
    columns: Columns, which: I64, known: Sequence[tuple[str, Call | None]]
) -> dict[int, Issued]:
    """Return the calls issued by each thread, by its track in the table of ranges.

    ``known[which]`` is the name and call of each row of ``columns``.
    """
    start, end = columns["start_ns"], columns["start_ns"] + columns["dur_ns"]
    is_group = np.array([name in GROUPS for name, _ in known])
    is_call = np.array([call is not None for _, call in known])
    alone = [() if call is None else (call,) for _, call in known]
    order = np.lexsort((-end, start))
    issued = {}
    for track in np.unique(columns["track"]).tolist():
        rows = order[columns["track"][order] == track]
        if is_group[which[rows]].any():
            entries = [(int(start[r]), int(end[r]), *known[which[r]]) for r in rows.tolist()]
            issued[track] = issued_of(entries)
        else:
            rows = rows[is_call[which[rows]]]
            issued[track] = Issued(start[rows], end[rows], which[rows], alone)
    return issued


def _args_of_kernels(
    table: ArgsTable, issued: Mapping[int, Issued], rank: RankTables
) -> I32 | None:
    """Return the arguments of NCCL kernels, by thread and time of their launch."""
    by_library = np.array(["nccl" in text.lower() for text in rank.kernels.texts] or [False])
    if not by_library.any() or not issued:
        return None
    correlation = rank.kernels.column("correlation", rank.streams)
    is_library = by_library[rank.kernels.column("name", rank.streams)]
    rows = np.flatnonzero(is_library & (correlation >= 0))
    args = np.full(len(correlation), MISSING, np.int32)
    work = _processes(rank.kernels)[rank.kernels.column("track", rank.streams)[rows]]
    track, start, end = _launches(_pair(work, correlation[rows]), rank)
    for number, calls in issued.items():
        thread = rank.ranges.tracks[number]
        same = np.array([*(key == thread for key in rank.calls.tracks), False], np.bool_)
        own = np.flatnonzero(same[track])
        args[rows[own]] = assign(calls, start[own], end[own], table)
    return args


def _processes(table: TableRows) -> I64:
    """Return the process of each track of a table."""
    return np.array([key[1] for key in table.tracks], np.int64)


def _launches(work: I64, rank: RankTables) -> tuple[I32, I64, I64]:
    """Return track, start and end of the API call of each piece of work; track -1 for none.

    ``work`` are pairs of process and correlation, because correlations repeat between processes.
    There are many calls, so they are read in pieces.
    """
    known, index = np.unique(work, return_inverse=True)
    tracks = np.full(len(known), MISSING, np.int32)
    starts, ends = np.zeros(len(known), np.int64), np.zeros(len(known), np.int64)
    of_track = _processes(rank.calls)
    is_wanted = np.zeros(_SLOTS, np.bool_)
    is_wanted[work & (_SLOTS - 1)] = True  # a hash filter: only calls that pass are compared
    names = ("correlation", "track", "start_ns", "dur_ns")
    every = (rank.calls.pieces(name, rank.threads, _PIECE_ROWS) for name in names)
    for correlation, track, start, dur in zip(*every, strict=True):
        rows = np.flatnonzero(is_wanted[correlation & (_SLOTS - 1)] & (correlation >= 0))
        keys = _pair(of_track[track[rows]], correlation[rows])
        at = np.minimum(np.searchsorted(known, keys), len(known) - 1)
        fresh = np.flatnonzero((known[at] == keys) & (tracks[at] < 0))[::-1]
        at, rows = (
            at[fresh],
            rows[fresh],
        )  # reversed, so that the first of several calls is written last
        tracks[at], starts[at], ends[at] = track[rows], start[rows], start[rows] + dur[rows]
    return tracks[index], starts[index], ends[index]


def _pair(process: I64, correlation: I64) -> I64:
    return process << 40 | correlation & ((1 << 40) - 1)
