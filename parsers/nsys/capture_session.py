"""Identify the ranks of a file, and read its session: start, host, devices.

A file holds the whole environment of the profiled processes. Only the variables of
``export_schema.ENVIRONMENT_KEYS`` are queried, one by one, and only numbers are accepted.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from msgspec import Struct

from ccltui.parsers.columns import MISSING, Device, RankSource
from ccltui.parsers.nsys.nccl_ranges import Member
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

_MAX_RANK: Final = 1 << 20
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
            if isinstance(thread, int) and isinstance(number, int) and 0 <= number < _MAX_RANK:
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
    world = world if world is None or 0 < world <= _MAX_RANK else None
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
            if rank is not None and rank < (world or _MAX_RANK):
                return {parts[0]: Identity(rank, "environment", world)}
        return {}
    node = environment.get("SLURM_NODEID")
    if node is None or (node + 1) * len(parts) > (world or _MAX_RANK):
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
