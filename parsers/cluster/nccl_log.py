"""Log of NCCL: version, networks, channels, the transport of every link, and warnings.

One file may hold many processes, several communicators and a whole job's other output.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ccltui.parsers.columns import Note
from ccltui.parsers.names import printable
from ccltui.parsers.text.bounded_text import read_bounded
from ccltui.parsers.text.file_sample import ANSI

_LINE: Final = re.compile(
    r"(?:(?P<host>[\w.\-]{1,253}):(?P<pid>\d{1,10}):(?P<tid>\d{1,10})\s+)?"
    r"(?:\[(?P<device>-?\d{1,4})\]\s+)?(?:\S{1,80}\s){0,2}"
    r"NCCL (?P<level>INFO|WARN|TRACE)\s?(?P<text>[^\n]{0,2000})"
)
_VERSION: Final = re.compile(r"(?:NCCL|RCCL) version\s*:?\s*(\d[\w.\-]*)(?:\+(?P<cuda>\w[\w.]*))?")
_INIT: Final = re.compile(
    r"comm (?P<comm>0x[0-9a-fA-F]+) rank (?P<rank>\d+) n[Rr]anks (?P<ranks>\d+)"
    r"(?:.*?\bcommId (?P<id>0x[0-9a-fA-F]+))?.*?Init (?P<what>START|COMPLETE)"
)
_INIT_OLD: Final = re.compile(
    r"comm (?P<comm>0x[0-9a-fA-F]+) rank (?P<rank>\d+) n[Rr]anks (?P<ranks>\d+) cudaDev"
)
_NETWORK: Final = re.compile(r"Using (?:network|non-device net plugin version)\s+(?P<name>\S.*)")
_CARDS: Final = re.compile(r"NET/(?P<kind>IB|Socket|OFI|UCX|\w+)\s*:\s*Using (?P<rest>.*)")
_CARD: Final = re.compile(r"\[(\d+)\]\s*([\w.\-]+)(?::(\d+))?(?:/(\w+))?")
_CHANNELS: Final = re.compile(
    r"(\d+) coll channels?, (?:(\d+) (?:collnet|nvls) channels, )*.*?(\d+) p2p channels"
)
_RING: Final = re.compile(r"Channel (\d+)(?:/(\d+))?\s*:\s+((?:\d+\s+){2,}\d+|\d+\s+\d+)\s*$")
_TREES: Final = re.compile(r"Trees? ((?:\[\d+\].*)|\d+ : .*)")
_LINK: Final = re.compile(
    r"Channel (?P<channel>\d+)(?:/\d+)?\s*:\s*(?P<src>\d+)\[\w+\] -> (?P<dst>\d+)\[\w+\]"
    r"(?: \[(?:send|receive)\])?\s+via (?P<via>\S+)"
)
_ENV: Final = re.compile(r"(?P<name>NCCL_\w+) set by environment to (?P<value>\S.*)")
_DISTINCT: Final = 1000
_END_BYTES: Final = 8_000_000  # of the beginning, where all is set up, and of the end


@dataclass(frozen=True)
class Warn:
    """A warning without its numbers, how often it occurred and where first."""

    text: str
    count: int
    line: int
    host: str = ""


@dataclass(frozen=True)
class NcclLog:
    """One file. ``transports`` counts links between ranks by family (P2P, SHM, NET/IB, …)."""

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
    notes: tuple[Note, ...] = ()


def read_nccl_log(path: Path, *, shown: str) -> NcclLog:
    """The log, of a long one its beginning and its end. Raises TraceError where it is no text."""
    text = read_bounded(path, shown=shown, head_bytes=_END_BYTES, tail_bytes=_END_BYTES)
    reading = _Reading()
    number = 1
    for part in text.parts:
        plain = ANSI.sub("", part) if "\x1b" in part else part
        number = reading.take(plain, number)
    return reading.log(text.notes)


class _Reading:
    def __init__(self) -> None:
        self.lines = 0
        self.version = self.cuda = ""
        self.hosts: dict[str, None] = {}
        self.ranks: set[int] = set()
        self.world: int | None = None
        self.comms: set[str] = set()
        self.done: set[tuple[str, str]] = set()
        self.networks: dict[str, None] = {}
        self.cards: dict[str, None] = {}
        self.channels: tuple[int, int] | None = None
        self.rings: set[str] = set()
        self.trees: set[str] = set()
        self.links: dict[tuple[str, str, str], None] = {}
        self.environment: dict[str, str] = {}
        self.warned: dict[str, Warn] = {}

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
                self._take_line(match["text"])
        return number + text.count("\n", at)

    def _warn(self, text: str, line: int, host: str) -> None:
        words = re.sub(r"0x[0-9a-fA-F]+|\d+", "#", text.strip())[:300]
        old = self.warned.get(words)
        if old is not None:
            self.warned[words] = Warn(old.text, old.count + 1, old.line, old.host)
        elif len(self.warned) < _DISTINCT:
            self.warned[words] = Warn(printable(text.strip()[:300]), 1, line, host)

    def _take_line(self, text: str) -> None:
        if " via " in text:
            link = _LINK.search(text)
            if link:
                self.links[link["src"], link["dst"], _family(link["via"])] = None
            return
        if "Init " in text or "cudaDev" in text:
            self._take_init(text)
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

    def _take_init(self, text: str) -> None:
        init = _INIT.search(text) or _INIT_OLD.search(text)
        if init is None:
            return
        self.ranks.add(int(init["rank"]))
        self.world = max(self.world or 0, int(init["ranks"]))
        groups = init.groupdict()
        self.comms.add(groups.get("id") or f"of {init['ranks']}")
        if groups.get("what") == "COMPLETE":
            self.done.add((init["comm"], init["rank"]))

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
            notes=notes,
        )


def _family(via: str) -> str:
    """P2P/direct pointer/read is P2P; NET/IB/0/GDRDMA is NET/IB/GDRDMA."""
    parts = via.split("/")
    if parts[0] != "NET":
        return parts[0]
    kind = parts[1] if len(parts) > 1 else ""
    return "/".join(part for part in ("NET", kind, "GDRDMA" if "GDRDMA" in parts else "") if part)
