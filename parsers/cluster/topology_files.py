"""Read how a host is connected: ``nvidia-smi topo -m``, ``ibstat`` and NCCL's XML of its topology.

The XML may come from anywhere: a document type, and with it every entity, is refused, and
size, depth and the number of elements are bounded.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NoReturn
from xml.parsers import expat

from msgspec import Struct, field

from ccltui.parsers.errors import TraceError
from ccltui.parsers.safe_text import printable
from ccltui.parsers.text.bounded_text import read_bounded
from ccltui.parsers.text.json_fields import finite, whole

LINKS: Final = ("X", "SYS", "NODE", "PHB", "PXB", "PIX")
"""Kinds of connection besides NV#, the worst first."""

_BYTES: Final = 1 << 22
_NODE: Final = re.compile(r"GPU\d+|NIC\d+|(?:mlx|bnxt|hfi|efa|irdma|cxi)\w*|mlx\d+_\d+")
_LINK: Final = re.compile(r"X|SYS|NODE|PHB|PXB|PIX|PCIe|SOC|NV\d{1,3}|N/A|\?")
_ALIAS: Final = re.compile(r"^\s*(NIC\d+):\s*(\S+)\s*$", re.MULTILINE)


class GpuTopology(Struct, frozen=True):
    """The matrix: ``links[row][column]`` is the connection as printed (X, NV2, PIX, SYS, …).

    ``aliases`` name what NIC0 and so on are.
    """

    nodes: tuple[str, ...]
    links: Mapping[str, Mapping[str, str]]
    aliases: Mapping[str, str] = field(default_factory=dict)

    @property
    def gpus(self) -> tuple[str, ...]:
        """The devices."""
        return tuple(node for node in self.nodes if node.startswith("GPU"))

    def nearest_nics(self, gpu: str) -> tuple[tuple[str, str], ...]:
        """Network cards with the best connection to a device, and that connection."""
        row = self.links.get(gpu, {})
        cards = {node: row[node] for node in self.nodes if node in row and node not in self.gpus}
        known = {node: LINKS.index(link) for node, link in cards.items() if link in LINKS}
        best = max(known.values(), default=None)
        return tuple(
            (self.aliases.get(node, node), cards[node])
            for node, rank in known.items()
            if rank == best
        )


def read_gpu_topology(path: Path, *, shown: str) -> GpuTopology:
    """The matrix. Raises TraceError for a file that cannot be read or holds none."""
    text = read_bounded(path, shown=shown, head_bytes=_BYTES, tail_bytes=0).plain_head
    lines = text.split("\n")
    for number, line in enumerate(lines):
        columns = _columns(line)
        if columns:
            return _matrix(columns, lines[number + 1 :], text)
    raise TraceError("no matrix of nvidia-smi topo -m in it", path=shown, line=1)


def _columns(line: str) -> list[str]:
    """The heading: GPU0 first, and what has a column of links; affinities are none."""
    cells = line.split()
    if not cells or cells[0] != "GPU0" or (len(cells) > 1 and _LINK.fullmatch(cells[1])):
        return []
    return [cell for cell in cells if _NODE.fullmatch(cell)]


def _matrix(columns: Sequence[str], lines: Sequence[str], text: str) -> GpuTopology:
    links: dict[str, dict[str, str]] = {}
    for line in lines:
        cells = line.split()
        if not cells or not _NODE.fullmatch(cells[0]):
            if links:
                break
            continue
        row = cells[1 : 1 + len(columns)]
        links[printable(cells[0])] = {
            printable(column): printable(cell[:12])
            for column, cell in zip(columns, row, strict=False)
            if _LINK.fullmatch(cell)
        }
    aliases = {match[1]: printable(match[2][:40]) for match in _ALIAS.finditer(text)}
    return GpuTopology(tuple(map(printable, columns)), links, aliases)


_CARD: Final = re.compile(r"^CA '([^'\n]{1,80})'", re.MULTILINE)
_PORT: Final = re.compile(r"^\s*Port (\d{1,3}):\s*$", re.MULTILINE)
_FIELD: Final = re.compile(r"^\s*([A-Z][\w ]{0,40}):[ \t]*([^\n]{0,120})$", re.MULTILINE)


class IbPort(Struct, frozen=True):
    """One port; ``rate_gbps`` is its rate in Gbit/s, as negotiated."""

    card: str
    card_type: str
    firmware: str
    port: int
    state: str
    physical_state: str
    rate_gbps: float | None
    link_layer: str

    @property
    def is_up(self) -> bool:
        """Whether data can flow."""
        return self.state.lower() == "active" and self.physical_state.lower() == "linkup"


def read_ib_status(path: Path, *, shown: str) -> tuple[IbPort, ...]:
    """Every port. Raises TraceError for a file that cannot be read or names no card."""
    text = read_bounded(path, shown=shown, head_bytes=_BYTES, tail_bytes=0).plain_head
    cards = list(_CARD.finditer(text))
    if not cards:
        raise TraceError("names no card: this is no output of ibstat", path=shown, line=1)
    ports: list[IbPort] = []
    for number, card in enumerate(cards):
        end = cards[number + 1].start() if number + 1 < len(cards) else len(text)
        ports += _ports(card[1], text[card.end() : end])
    return tuple(ports)


def _ports(card: str, text: str) -> list[IbPort]:
    begins = list(_PORT.finditer(text))
    of_card = _fields(text[: begins[0].start()] if begins else text)
    found = []
    for number, begin in enumerate(begins):
        end = begins[number + 1].start() if number + 1 < len(begins) else len(text)
        fields = _fields(text[begin.end() : end])
        found.append(
            IbPort(
                card=printable(card),
                card_type=of_card.get("CA type", ""),
                firmware=of_card.get("Firmware version", ""),
                port=int(begin[1]),
                state=fields.get("State", ""),
                physical_state=fields.get("Physical state", ""),
                rate_gbps=finite((fields.get("Rate", "").split() or [""])[0]),
                link_layer=fields.get("Link layer", ""),
            )
        )
    return found


def _fields(text: str) -> dict[str, str]:
    return {match[1]: printable(match[2].strip()) for match in _FIELD.finditer(text)}


MAX_BYTES: Final = 1 << 24
MAX_ELEMENTS: Final = 200_000
MAX_DEPTH: Final = 64


class Gpu(Struct, frozen=True):
    """A device: ``nvlinks`` counts links by the PCI address of the other end."""

    device: int | None
    bus: str
    rank: int | None
    compute_capability: str
    numa: str
    gpu_direct: bool | None
    nvlinks: Mapping[str, int]


class Nic(Struct, frozen=True):
    """A port of a network card; ``speed_gbps`` in Gbit/s."""

    name: str
    port: str
    speed_gbps: float | None
    numa: str
    gpu_direct: bool | None


class NcclTopology(Struct, frozen=True):
    """The host as NCCL detected it."""

    version: str
    cpus: int
    gpus: tuple[Gpu, ...]
    nics: tuple[Nic, ...]


def read_nccl_topology(path: Path, *, shown: str) -> NcclTopology:
    """The XML. Raises TraceError with its line where it is none, or is not safe to read."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise TraceError(f"cannot be read: {error.strerror}", path=shown) from error
    if len(data) > MAX_BYTES:
        raise TraceError(f"larger than {MAX_BYTES:,} bytes: no topology of NCCL", path=shown)
    reading = _Reading(shown)
    try:
        reading.parser.Parse(data, True)
    except expat.ExpatError as error:
        message = f"not valid XML: {expat.errors.messages[error.code]}"
        raise TraceError(message, path=shown, line=error.lineno, column=error.offset + 1) from None
    except (ValueError, LookupError) as error:
        if isinstance(error, TraceError):
            raise
        raise TraceError("not valid XML: its encoding is not known", path=shown) from None
    return reading.topology()


class _Reading:
    def __init__(self, path: str) -> None:
        self._path = path
        self.parser = expat.ParserCreate()
        self.parser.StartDoctypeDeclHandler = self._refuse_type
        self.parser.EntityDeclHandler = self._refuse_type
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self._open: list[tuple[str, dict[str, str]]] = []
        self._elements = 0
        self._version: str | None = None
        self._cpus = 0
        self._gpus: list[tuple[dict[str, str], str, str]] = []
        self._links: dict[int, dict[str, int]] = {}
        self._nics: list[Nic] = []

    def _refuse_type(self, *_: object) -> None:
        self._fail("declares a document type, which could hold anything: not read")

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self._elements += 1
        if self._elements > MAX_ELEMENTS or len(self._open) >= MAX_DEPTH:
            self._fail(f"more than {MAX_ELEMENTS:,} elements, or nested too deeply")
        if not self._open:
            if name != "system":
                self._fail(f"its outermost element is {printable(name[:40])}, not system")
            self._version = attributes.get("version", "")
        self._open.append((name, attributes))
        if name == "cpu":
            self._cpus += 1
        elif name == "gpu":
            self._gpus.append((attributes, self._nearest("pci", "busid"), self._numa()))
        elif name == "nvlink" and self._gpus:
            links = self._links.setdefault(len(self._gpus) - 1, {})
            target = printable(attributes.get("target", "?")[:40])
            links[target] = links.get(target, 0) + (whole(attributes.get("count")) or 0)
        elif name == "net":
            self._nics.append(self._nic(attributes))

    def _end(self, _: str) -> None:
        self._open.pop()

    def _nic(self, attributes: Mapping[str, str]) -> Nic:
        speed = finite(attributes.get("speed"))
        return Nic(
            name=printable(attributes.get("name", "?")[:80]),
            port=printable(attributes.get("port", "")[:20]),
            speed_gbps=None if speed is None or speed <= 0 else speed / 1000,
            numa=self._numa(),
            gpu_direct=_flag(attributes.get("gdr")),
        )

    def _nearest(self, element: str, attribute: str) -> str:
        inside = (a for name, a in reversed(self._open) if name == element)
        return printable(next(inside, {}).get(attribute, "")[:40])

    def _numa(self) -> str:
        return self._nearest("cpu", "numaid")

    def _fail(self, message: str) -> NoReturn:
        raise TraceError(message, path=self._path, line=self.parser.CurrentLineNumber)

    def topology(self) -> NcclTopology:
        gpus = tuple(
            Gpu(
                device=whole(attributes.get("dev")),
                bus=bus,
                rank=whole(attributes.get("rank")),
                compute_capability=printable(attributes.get("sm", "")[:10]),
                numa=numa,
                gpu_direct=_flag(attributes.get("gdr")),
                nvlinks=self._links.get(number, {}),
            )
            for number, (attributes, bus, numa) in enumerate(self._gpus)
        )
        return NcclTopology(self._version or "", self._cpus, gpus, tuple(self._nics))


def _flag(text: str | None) -> bool | None:
    return {"0": False, "1": True}.get(text or "")
