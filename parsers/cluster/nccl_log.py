"""What NCCL prints: the lines of its log, and the reports of its RAS client.

A log states version, networks, channels, the transport of every link, and warnings. One file may
hold many processes, several communicators and a whole job's other output.

RAS reports communicators, and ranks that are not where others are. Of ranks that differ it lists
the smaller part by number, whether it is ahead or behind; the larger part is only counted. A file
may hold several reports, one after the other.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct, convert, field

from ccltui.parsers.columns import Note
from ccltui.parsers.errors import TraceError
from ccltui.parsers.safe_text import printable
from ccltui.parsers.text.file_sample import read_bounded

_LINE: Final = re.compile(
    r"(?:(?P<host>[\w.\-]{1,253}):(?P<pid>\d{1,10}):(?P<tid>\d{1,10})\s+)?"
    r"(?:\[(?P<device>-?\d{1,4})\]\s+)?(?:\S{1,80}\s){0,2}"
    r"NCCL (?P<level>INFO|WARN|TRACE)\s?(?P<text>[^\n]{0,2000})"
)
_VERSION: Final = re.compile(r"(?:NCCL|RCCL) version\s*:?\s*(\d[\w.\-]*)(?:\+(?P<cuda>\w[\w.]*))?")
# Logs that are shown to others have words in place of addresses: comm <PTR>.
_INIT: Final = re.compile(
    r"comm (?P<comm>\S{1,80}) rank (?P<rank>\d+) n[Rr]anks (?P<ranks>\d+)"
    r"(?:.*?\bcommId (?P<id>\S{1,80}))?.*?Init (?P<what>START|COMPLETE)"
)
_INIT_OLD: Final = re.compile(
    r"comm (?P<comm>\S{1,80}) rank (?P<rank>\d+) n[Rr]anks (?P<ranks>\d+) cudaDev"
)
_BUS: Final = re.compile(r"\bbusId (?:0x)?([0-9a-fA-F]{1,16})\b")
_FABRIC: Final = re.compile(
    r"MNNVL busId (?:0x)?(?P<bus>[0-9a-fA-F]{1,16}) fabric UUID (?P<high>[0-9a-fA-F]{1,16})\."
    r"(?P<low>[0-9a-fA-F]{1,16}) cliqueId (?:0x)?(?P<clique>[0-9a-fA-F]{1,8})\b"
)
"""A device outside of an NVLink domain of several hosts has the UUID 0.0."""
_NETWORK: Final = re.compile(r"Using (?:network|non-device net plugin version)\s+(?P<name>\S.*)")
_CARDS: Final = re.compile(r"NET/(?P<kind>IB|Socket|OFI|UCX|\w+)\s*:\s*Using (?P<rest>.*)")
_CARD: Final = re.compile(r"\[(\d+)\]\s*([\w.\-]+)(?::(\d+))?(?:/(\w+))?")
_CHANNELS: Final = re.compile(
    r"(\d+) coll channels?, (?:(\d+) (?:collnet|nvls) channels, )*.*?(\d+) p2p channels"
)
_RING: Final = re.compile(r"Channel (\d+)(?:/(\d+))?\s*:\s+((?:\d+\s+){2,}\d+|\d+\s+\d+)\s*$")
_LINK: Final = re.compile(
    r"Channel (?P<channel>\d+)(?:/\d+)?\s*:\s*(?P<src>\d+)\[\w+\] -> (?P<dst>\d+)\[\w+\]"
    r"(?: \[(?:send|receive)\])?\s+via (?P<via>\S+)"
)
_ENV: Final = re.compile(r"(?P<name>NCCL_\w+) set by environment to (?P<value>\S.*)")
_DISTINCT: Final = 1000
_MOST_DEVICES: Final = 1 << 17
_END_BYTES: Final = 8_000_000  # of the beginning, where all is set up, and of the end


class Warn(Struct, frozen=True):
    """A warning without its numbers, how often it occurred and where first."""

    text: str
    count: int
    line: int
    host: str = ""


class FabricPlace(Struct, frozen=True):
    """NVLink domain of a device: ``rank`` in the largest communicator, None where not stated."""

    host: str
    bus: str
    rank: int | None
    domain: str


class NcclLog(Struct, frozen=True):
    """One file. ``transports`` counts links between ranks by family (P2P, SHM, NET/IB, …).

    ``fabric`` are the devices that state an NVLink domain (fabric UUID and clique).
    """

    lines: int  # of NCCL
    version: str = ""
    cuda: str = ""
    hosts: tuple[str, ...] = ()
    ranks: tuple[int, ...] = ()
    world_size: int | None = None
    communicators: int = 0
    initialised: int = 0
    networks: tuple[str, ...] = ()
    cards: tuple[str, ...] = ()
    coll_channels: int | None = None
    p2p_channels: int | None = None
    rings: int = 0
    trees: int = 0
    transports: Mapping[str, int] = field(default_factory=dict)
    gpu_direct: bool | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[Warn, ...] = ()
    fabric: tuple[FabricPlace, ...] = ()
    notes: tuple[Note, ...] = ()


def read_nccl_log(path: Path, *, shown: str) -> NcclLog:
    """The log, of a long one its beginning and its end. Raises TraceError where it is no text."""
    text = read_bounded(path, shown=shown, head_bytes=_END_BYTES, tail_bytes=_END_BYTES)
    reading = _Reading()
    number = 1
    for part in text.plain_of_ansi():
        number = reading.take(part, number)
    return reading.log(text.notes)


class _Reading:
    def __init__(self) -> None:
        self.lines = 0
        self.version = self.cuda = ""
        self.hosts: dict[str, None] = {}
        self.ranks: set[int] = set()
        self.world: int | None = None
        self.comms: set[str] = set()
        self.done: set[tuple[str | None, ...]] = set()
        self.networks: dict[str, None] = {}
        self.cards: dict[str, None] = {}
        self.channels: tuple[int, int] | None = None
        self.rings: set[str] = set()
        self.trees: set[str] = set()
        self.links: dict[tuple[str, str, str], None] = {}
        self.environment: dict[str, str] = {}
        self.warned: dict[str, Warn] = {}
        self.fabric: dict[tuple[str, str], str] = {}  # domain by host and bus
        self.places: dict[tuple[str, str], tuple[int, int]] = {}  # size and rank likewise

    def take(self, text: str, first_line: int) -> int:
        """Read a part whose first line has that number; the number of the line after it."""
        at, number = 0, first_line
        for match in _LINE.finditer(text):
            self.lines += 1
            if match["host"] and len(self.hosts) < _DISTINCT:
                self.hosts[match["host"]] = None
            if match["level"] == "WARN":
                number += text.count("\n", at, match.start())
                at = match.start()
                self._warn(match["text"], number, match["host"] or "")
            else:
                self._take_line(match["text"], match["host"] or "")
        return number + text.count("\n", at)

    def _warn(self, text: str, line: int, host: str) -> None:
        words = re.sub(r"0x[0-9a-fA-F]+|\d+", "#", text.strip())[:300]
        old = self.warned.get(words)
        if old is not None:
            self.warned[words] = Warn(old.text, old.count + 1, old.line, old.host)
        elif len(self.warned) < _DISTINCT:
            self.warned[words] = Warn(printable(text.strip()[:300]), 1, line, host)

    def _take_line(self, text: str, host: str) -> None:
        if " via " in text:
            link = _LINK.search(text)
            if link:
                self.links[link["src"], link["dst"], _family(link["via"])] = None
            return
        if "Init " in text or "cudaDev" in text:
            self._take_init(text, host)
        elif text.startswith("MNNVL busId"):
            self._take_fabric(text, host)
        if "ersion" in text:
            version = _VERSION.search(text)
            if version and not self.version:
                self.version, self.cuda = version[1], version["cuda"] or ""
        if "Using" in text:
            self._take_network(text)
        elif "hannel" in text:
            self._take_channels(text)
        elif text.startswith("Tree"):
            self.trees.update(re.findall(r"\[(\d+)\]", text) or re.findall(r"Tree (\d+)", text))
        elif "set by environment" in text:
            env = _ENV.search(text)
            if env and len(self.environment) < _DISTINCT:
                self.environment[env["name"]] = env["value"].strip()[:200]

    def _take_fabric(self, text: str, host: str) -> None:
        found = _FABRIC.search(text)
        if found is None or len(self.fabric) >= _MOST_DEVICES:
            return
        if int(found["high"], 16) or int(found["low"], 16):
            domain = f"{found['high'].lower()}.{found['low'].lower()}/{found['clique'].lower()}"
            self.fabric[host, found["bus"].lower()] = domain

    def _take_init(self, text: str, host: str) -> None:
        init = _INIT.search(text) or _INIT_OLD.search(text)
        if init is None:
            return
        self.ranks.add(int(init["rank"]))
        self.world = max(self.world or 0, int(init["ranks"]))
        bus = _BUS.search(text)
        if bus is not None and len(self.places) < _MOST_DEVICES:
            device, place = (host, bus[1].lower()), (int(init["ranks"]), int(init["rank"]))
            self.places[device] = max(self.places.get(device, place), place)
        groups = init.groupdict()
        self.comms.add(groups.get("id") or f"of {init['ranks']}")
        if groups.get("what") == "COMPLETE":
            # logs that show words in place of addresses name all communicators alike
            self.done.add((groups.get("id"), init["ranks"], init["comm"], init["rank"]))

    def _take_network(self, text: str) -> None:
        network = _NETWORK.search(text)
        if network:
            self.networks[network["name"].split(" ;")[0].strip()[:40]] = None
        cards = _CARDS.search(text)
        if cards:
            for card in _CARD.finditer(cards["rest"].split(";")[0]):
                port = f":{card[3]}" if card[3] else ""
                self.cards[f"{card[2]}{port}{'/' + card[4] if card[4] else ''}"] = None

    def _take_channels(self, text: str) -> None:
        channels = _CHANNELS.search(text)
        if channels:
            self.channels = int(channels[1]), int(channels[3])
        ring = _RING.search(text)
        if ring:
            self.rings.add(ring[1])

    def log(self, notes: tuple[Note, ...]) -> NcclLog:
        families = Counter(family for _, _, family in self.links)
        direct = [family.endswith("/GDRDMA") for family in families if family.startswith("NET/")]
        return NcclLog(
            lines=self.lines,
            version=self.version,
            cuda=self.cuda,
            hosts=tuple(self.hosts),
            ranks=tuple(sorted(self.ranks)),
            world_size=self.world,
            communicators=len(self.comms),
            initialised=len(self.done),
            networks=tuple(self.networks),
            cards=tuple(self.cards),
            coll_channels=None if self.channels is None else self.channels[0],
            p2p_channels=None if self.channels is None else self.channels[1],
            rings=len(self.rings),
            trees=len(self.trees),
            transports=dict(sorted(families.items(), key=lambda item: (-item[1], item[0]))),
            gpu_direct=all(direct) if direct else None,
            environment=self.environment,
            warnings=tuple(self.warned.values()),
            fabric=tuple(self._fabric()),
            notes=notes,
        )

    def _fabric(self) -> Iterator[FabricPlace]:
        for device, domain in self.fabric.items():
            size, rank = self.places.get(device, (0, -1))
            is_known = size > 0 and size == self.world
            yield FabricPlace(*device, rank if is_known else None, domain)


def _family(via: str) -> str:
    """P2P/direct pointer/read is P2P; NET/IB/0/GDRDMA is NET/IB/GDRDMA."""
    parts = via.split("/")
    if parts[0] != "NET":
        return parts[0]
    kind = parts[1] if len(parts) > 1 else ""
    return "/".join(part for part in ("NET", kind, "GDRDMA" if "GDRDMA" in parts else "") if part)


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


class RasPart(Struct, frozen=True):
    """Ranks of a communicator that are alike: their count, and those that RAS lists.

    ``launched`` operations of the type, None where the ranks differ in ``status`` instead.
    """

    ranks: int
    launched: int | None = None
    status: str = ""
    listed: tuple[int, ...] = ()
    places: tuple[str, ...] = ()


class RasDifference(Struct, frozen=True):
    """One thing in which the ranks of a communicator differ; ``operation`` "" is any collective."""

    operation: str
    parts: tuple[RasPart, ...]


class RasRank(Struct, frozen=True):
    """A rank of a communicator, by its number there, with its process and device.

    ``launched`` operations of all ranks by type, {} where it does not answer; ``num_p2p`` are its
    own sends and receives.
    """

    rank: int
    host: str
    pid: int
    device: int
    launched: Mapping[str, int] = field(default_factory=dict)
    num_p2p: int = 0
    is_missing: bool = False

    @property
    def process(self) -> tuple[str, int, int]:
        """Host, process and device: the same in every communicator."""
        return self.host, self.pid, self.device


class RasCommunicator(Struct, frozen=True):
    """A communicator of which RAS states more than a line; ``errors`` are ranks by error.

    ``ranks`` are all of its ranks that a report in JSON states, () in text.
    """

    number: str
    hash: str
    size: int | None = None
    differences: tuple[RasDifference, ...] = ()
    missing: int = 0
    missing_ranks: tuple[int, ...] = ()
    places: tuple[str, ...] = ()
    errors: tuple[tuple[str, tuple[int, ...], int], ...] = ()
    ranks: tuple[RasRank, ...] = ()


class RasReport(Struct, frozen=True):
    """One report. ``groups`` are the rows of its table of communicators.

    ``timestamp`` is as printed, "" in text. ``is_of_monitor``: events of lost processes alone.
    """

    nccl_version: str = ""
    groups: tuple[tuple[str, ...], ...] = ()
    communicators: tuple[RasCommunicator, ...] = ()
    missing_processes: tuple[str, ...] = ()
    num_missing: int = 0
    dead_processes: tuple[str, ...] = ()
    num_dead: int = 0
    timeouts: int = 0
    timestamp: str = ""
    is_of_monitor: bool = False

    @property
    def statuses(self) -> tuple[str, ...]:
        """Status and errors of each group of communicators."""
        return tuple(" ".join(row[-2:]) for row in self.groups)


class _Part(Struct):
    ranks: int
    launched: int | None = None
    status: str = ""
    listed: list[int] = field(default_factory=list)
    places: list[str] = field(default_factory=list)


class _Difference(Struct):
    operation: str
    parts: list[_Part] = field(default_factory=list)


class _Comm(Struct):
    number: str
    hash: str
    size: int | None = None
    differences: list[_Difference] = field(default_factory=list)
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
    reading = _ReportReading()
    for long_line in lines:
        line = long_line[:400].rstrip()
        if _NEW.search(line) and reading.has_table:
            yield reading.report()
            reading = _ReportReading()
        reading.take(line)
    if reading.has_table or reading.comms or reading.num_dead or reading.num_missing:
        yield reading.report()


class _ReportReading:
    def __init__(self) -> None:
        self.nccl_version = ""
        self.groups: list[tuple[str, ...]] = []
        self.comms: dict[str, _Comm] = {}
        self.comm: _Comm | None = None
        self.place: tuple[list[int], list[str]] | None = None  # where listed ranks go
        self.processes: list[str] | None = None
        self.missing_processes: list[str] = []
        self.dead_processes: list[str] = []
        self.num_missing = self.num_dead = self.timeouts = 0
        self._in_table = False
        self._names: list[str] = []  # of the columns, which have two lines

    @property
    def has_table(self) -> bool:
        return bool(self.groups)

    def take(self, line: str) -> None:
        if (version := _NEW.search(line)) and version[1]:
            self.nccl_version = version[1]
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
            self.num_missing, self.processes = int(missing["count"]), self.missing_processes
        elif dead is not None:
            self.num_dead, self.processes = int(dead["count"]), self.dead_processes
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
            comm.differences.append(_Difference(different["operation"] or ""))
            self.place = None
        elif (reported := _REPORTED.search(line)) is not None:
            ranks = [] if reported["rank"] is None else [int(reported["rank"])]
            count = int(reported["ranks"] or 1)
            comm.errors.append((printable(reported["error"].strip()), ranks, count))
            self.place = (ranks, comm.places)
        elif (part := _part(line)) is not None and comm.differences:
            comm.differences[-1].parts.append(part)
            self.place = (part.listed, part.places)
        elif (rank := _RANK.search(line)) is not None and self.place is not None:
            ranks, places = self.place
            ranks += [int(rank["rank"])][: _MOST - len(ranks)]
            places += [printable(rank["place"])][: _MOST - len(places)]

    @property
    def communicators(self) -> list[_Comm]:
        place = self._names.index(_SIZE) if _SIZE in self._names else 4
        sizes = {row[0]: row[place] for row in self.groups if len(row) > place}
        for comm in self.comms.values():
            size = sizes.get(comm.number.partition("-")[0], "")
            comm.size = int(size) if size.isdecimal() else None
        return list(self.comms.values())

    def report(self) -> RasReport:
        return convert(self, RasReport, from_attributes=True)


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
