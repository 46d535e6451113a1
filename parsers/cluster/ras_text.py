"""The text that NCCL's RAS client prints: communicators, and ranks that are not where others are.

Of ranks that differ RAS lists the smaller part by number, whether it is ahead or behind; the larger
part is only counted. A file may hold several reports, one after the other.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ccltui.parsers.errors import TraceError
from ccltui.parsers.names import printable
from ccltui.parsers.text.bounded_text import read_bounded

_NEW: Final = re.compile(r"NCCL version (\d[\w.+-]*) compiled with|^Job summary\s*$")
_COMM: Final = re.compile(
    r"#(?P<number>\d{1,7}-\d{1,7}) \((?P<hash>[0-9a-fA-F]{1,16})\) (?P<error>[A-Z]+)"
)
_DIFFERENT: Final = re.compile(
    r"Communicator ranks have different "
    r"(?:collective operation|(?P<operation>\w+) operation|status)"
)
_COUNT: Final = re.compile(
    r"(?P<ranks>\d{1,9}) ranks have launched up to operation (?P<count>\d{1,18})"
)
_NONE: Final = re.compile(r"(?P<ranks>\d{1,9}) ranks have not launched any operations?")
_ONE: Final = re.compile(
    r"Rank (?P<rank>\d{1,9}) has (?:launched up to operation (?P<count>\d{1,18})|not launched any)"
)
_STATUS: Final = re.compile(
    r"(?:(?P<ranks>\d{1,9}) ranks have|Rank (?P<rank>\d{1,9}) has) status (?P<status>\w+)"
)
_REPORTED: Final = re.compile(
    r"(?:(?P<ranks>\d{1,9}) ranks|Rank (?P<rank>\d{1,9})) reported "
    r"(?P<error>[\w ]{1,60}?)(?: --|\s*$)"
)
_RANK: Final = re.compile(r"Rank (?P<rank>\d{1,9}) -- (?P<place>\S.{0,160})")
_PLACE: Final = re.compile(r" -- (?P<place>GPUs? \S.{0,160})")
_MISSING: Final = re.compile(
    r"Missing communicator data from (?P<count>\d{1,9}) (?P<what>job process|rank)"
)
_DEAD: Final = re.compile(r"(?P<count>\d{1,9}) job process(?:es)? (?:is|are) considered dead")
_PROCESS: Final = re.compile(r"Process (?P<place>\d{1,10} on node \S.{0,160})")
_GROUP_HEADER: Final = re.compile(r"^Group\s+\w.*\bStatus\b")
_TIMEOUTS: Final = re.compile(r"Encountered (\d{1,9}) communication timeout")
_SIZE: Final = "Ranks per comm"
_MOST: Final = 100_000


@dataclass(frozen=True, slots=True)
class RasPart:
    """Ranks of a communicator that are alike: their count, and those that RAS lists.

    ``launched`` operations of the type, None where the ranks differ in ``status`` instead.
    """

    ranks: int
    launched: int | None = None
    status: str = ""
    listed: tuple[int, ...] = ()
    places: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RasDifference:
    """One thing in which the ranks of a communicator differ; ``operation`` "" is any collective."""

    operation: str
    parts: tuple[RasPart, ...]


@dataclass(frozen=True, slots=True)
class RasCommunicator:
    """A communicator of which RAS states more than a line; ``errors`` are ranks by error."""

    number: str
    hash: str
    size: int | None = None
    differences: tuple[RasDifference, ...] = ()
    missing: int = 0
    missing_ranks: tuple[int, ...] = ()
    places: tuple[str, ...] = ()
    errors: tuple[tuple[str, tuple[int, ...], int], ...] = ()


@dataclass(frozen=True, slots=True)
class RasReport:
    """One report. ``groups`` are the rows of its table of communicators."""

    nccl_version: str = ""
    groups: tuple[tuple[str, ...], ...] = ()
    communicators: tuple[RasCommunicator, ...] = ()
    missing_processes: tuple[str, ...] = ()
    num_missing: int = 0
    dead_processes: tuple[str, ...] = ()
    num_dead: int = 0
    timeouts: int = 0

    @property
    def statuses(self) -> tuple[str, ...]:
        """Status and errors of each group of communicators."""
        return tuple(" ".join(row[-2:]) for row in self.groups)


@dataclass(slots=True)
class _Part:
    ranks: int
    launched: int | None = None
    status: str = ""
    listed: list[int] = field(default_factory=list)
    places: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _Comm:
    number: str
    hash: str
    differences: list[tuple[str, list[_Part]]] = field(default_factory=list)
    missing: int = 0
    missing_ranks: list[int] = field(default_factory=list)
    places: list[str] = field(default_factory=list)
    errors: list[tuple[str, list[int], int]] = field(default_factory=list)


def read_ras_text(path: Path, *, shown: str) -> tuple[RasReport, ...]:
    """Return every report of a file. Raises TraceError where it cannot be read or holds none."""
    text = read_bounded(path, shown=shown)
    found = tuple(_reports(line for _, line in text.lines()))
    if not found:
        raise TraceError("no report of RAS in it", path=shown)
    return found


def _reports(lines: Iterator[str]) -> Iterator[RasReport]:
    reading = _Reading()
    for long_line in lines:
        line = long_line[:400].rstrip()
        if _NEW.search(line) and reading.has_table:
            yield reading.report()
            reading = _Reading()
        reading.take(line)
    if reading.has_table or reading.comms or reading.num_dead or reading.num_missing:
        yield reading.report()


class _Reading:
    def __init__(self) -> None:
        self.version = ""
        self.groups: list[tuple[str, ...]] = []
        self.comms: dict[str, _Comm] = {}
        self.comm: _Comm | None = None
        self.place: tuple[list[int], list[str]] | None = None  # where listed ranks go
        self.processes: list[str] | None = None
        self.missing: list[str] = []
        self.dead: list[str] = []
        self.num_missing = self.num_dead = self.timeouts = 0
        self._in_table = False
        self._names: list[str] = []  # of the columns, which have two lines

    @property
    def has_table(self) -> bool:
        return bool(self.groups)

    def take(self, line: str) -> None:
        if (version := _NEW.search(line)) and version[1]:
            self.version = version[1]
        elif _GROUP_HEADER.match(line.strip()):
            self._in_table, self._names = True, re.split(r"\s{2,}", line.strip())
        elif self._in_table and self._row(line):
            pass
        elif (comm := _COMM.search(line)) is not None:
            self.comm = self.comms.setdefault(
                comm["hash"] + comm["number"], _Comm(comm["number"], comm["hash"])
            )
            self.place = self.processes = None
        elif not self._processes(line) and self.comm is not None:
            self._of_comm(self.comm, line)

    def _row(self, line: str) -> bool:
        """A row of the table of communicators; the second line of its header is one of words."""
        cells = line.split()
        if cells and cells[0].isdecimal() and len(cells) >= 4:
            self.groups.append(tuple(printable(cell[:40]) for cell in cells[:12]))
            return True
        self._in_table = bool(cells) and not self.groups
        if self._in_table:
            below = re.split(r"\s{2,}", line.strip())
            below += [""] * (len(self._names) - len(below))
            self._names = [
                f"{name} {under}".strip() for name, under in zip(self._names, below, strict=False)
            ]
        return self._in_table

    def _processes(self, line: str) -> bool:
        missing, dead = _MISSING.search(line), _DEAD.search(line)
        if missing is not None and missing["what"] == "job process":
            self.num_missing, self.processes = int(missing["count"]), self.missing
        elif dead is not None:
            self.num_dead, self.processes = int(dead["count"]), self.dead
        elif (process := _PROCESS.search(line)) is not None and self.processes is not None:
            if len(self.processes) < _MOST:
                self.processes.append(f"process {printable(process['place'])}")
        elif (timeouts := _TIMEOUTS.search(line)) is not None:
            self.timeouts = int(timeouts[1])
        else:
            return False
        return True

    def _of_comm(self, comm: _Comm, line: str) -> None:
        missing, different = _MISSING.search(line), _DIFFERENT.search(line)
        if missing is not None:
            comm.missing = int(missing["count"])
            self.place = (comm.missing_ranks, comm.places)
        elif different is not None:
            comm.differences.append((different["operation"] or "", []))
            self.place = None
        elif (reported := _REPORTED.search(line)) is not None:
            ranks = [] if reported["rank"] is None else [int(reported["rank"])]
            count = int(reported["ranks"] or 1)
            comm.errors.append((printable(reported["error"].strip()), ranks, count))
            self.place = (ranks, comm.places)
        elif (part := _part(line)) is not None and comm.differences:
            comm.differences[-1][1].append(part)
            self.place = (part.listed, part.places)
        elif (rank := _RANK.search(line)) is not None and self.place is not None:
            ranks, places = self.place
            ranks += [int(rank["rank"])][: _MOST - len(ranks)]
            places += [printable(rank["place"])][: _MOST - len(places)]

    def report(self) -> RasReport:
        place = self._names.index(_SIZE) if _SIZE in self._names else 4
        sizes = {row[0]: row[place] for row in self.groups if len(row) > place}
        return RasReport(
            nccl_version=self.version,
            groups=tuple(self.groups),
            communicators=tuple(_made(comm, sizes) for comm in self.comms.values()),
            missing_processes=tuple(self.missing),
            num_missing=self.num_missing,
            dead_processes=tuple(self.dead),
            num_dead=self.num_dead,
            timeouts=self.timeouts,
        )


def _part(line: str) -> _Part | None:
    for pattern in (_COUNT, _NONE, _ONE, _STATUS):
        match = pattern.search(line)
        if match is None:
            continue
        found = match.groupdict()
        place = _PLACE.search(line)
        is_status = pattern is _STATUS
        part = _Part(
            ranks=int(found.get("ranks") or 1),
            launched=None if is_status else int(found.get("count") or 0),
            status=printable(found.get("status") or ""),
        )
        if found.get("rank"):
            part.listed.append(int(found["rank"]))
            part.places.append(printable(place["place"]) if place else "")
        return part
    return None


def _made(comm: _Comm, sizes: dict[str, str]) -> RasCommunicator:
    differences = tuple(
        RasDifference(
            operation,
            tuple(
                RasPart(one.ranks, one.launched, one.status, tuple(one.listed), tuple(one.places))
                for one in parts
            ),
        )
        for operation, parts in comm.differences
    )
    size = sizes.get(comm.number.partition("-")[0], "")
    return RasCommunicator(
        number=comm.number,
        hash=comm.hash,
        size=int(size) if size.isdecimal() else None,
        differences=differences,
        missing=comm.missing,
        missing_ranks=tuple(comm.missing_ranks),
        places=tuple(comm.places),
        errors=tuple((error, tuple(ranks), count) for error, ranks, count in comm.errors),
    )
