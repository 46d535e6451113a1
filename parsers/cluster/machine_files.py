"""Files about machines: benchmarks as YAML, and how a host is connected.

Benchmarks are values by category, and the versioned block that newer files hold. Connections are
those of ``nvidia-smi topo -m``, ``ibstat`` and NCCL's XML of its topology. The XML may come from
anywhere: a document type, and with it every entity, is refused, and size, depth and the number of
elements are bounded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NoReturn
from xml.parsers import expat

from msgspec import Struct, field
from msgspec.structs import replace

from ccltui.parsers.columns import Note
from ccltui.parsers.errors import CardError, TraceError
from ccltui.parsers.safe_text import printable
from ccltui.parsers.text import yaml_tree
from ccltui.parsers.text.file_sample import read_bounded
from ccltui.parsers.text.json_fields import finite, whole
from ccltui.parsers.text.yaml_tree import (
    Limits,
    Node,
    Pair,
    Scalar,
    Sequence,
    load_yaml,
    read_bytes,
)

SCHEMA: Final = "ccltui.cluster_benchmark"
SCHEMA_VERSION: Final = 1
_LIMITS: Final = Limits("cluster benchmark", 1 << 24, 1_000_000)
_VALUE: Final = re.compile(
    r"\s*([-+]?\d[\d,]*(?:\.\d+)?(?:[eE][-+]?\d+)?)\s*(\S.*?)?\s*(?:\[([\w, -]+)\]\s*)?"
)
_NOT_MEASURED: Final = "not measured: "
_DEVICES: Final = re.compile(r"\b(\d{1,7}) (?:GPUs|ranks|devices|processes)\)")
_GPU: Final = re.compile(r"(?:(?P<host>.+?)\s+)?(?:GPU|Device) (?P<index>\d{1,4})")
_BYTE_UNITS: Final = {"GB/s": 1 << 30, "MB/s": 1 << 20}
"""Divisors by which the first writers of these files converted bytes."""

_IDS: Final[tuple[tuple[str, str, str], ...]] = (
    # category, test, id: patterns on lower-cased names, the first that fits
    (r"(?:inter-node )?network", r"latency", "network_latency"),
    (r"(?:inter-node )?network", r"all-to-all", "network_alltoall"),
    (r"(?:inter-node )?network", r"bandwidth", "network_bandwidth"),
    (r"inter-gpu", r"all-reduce", "allreduce"),
    (r"inter-gpu", r"all-to-all", "alltoall"),
    (r"(?:.+ )?(?:gpu|device) \d", r"memory bandwidth", "gpu_memory_bandwidth"),
    (r"(?:.+ )?(?:gpu|device) \d", r".*\bbf16\b", "matmul_bf16"),
    (r"(?:.+ )?(?:gpu|device) \d", r".*\btf32\b", "matmul_tf32"),
    (r"(?:.+ )?(?:gpu|device) \d", r".*(?:fp32|compute)", "matmul_fp32"),
    (r"storage.*aggregate", r"write", "storage_aggregate_write"),
    (r"storage.*aggregate", r"read", "storage_aggregate_read"),
    (r"storage", r"sequential write", "storage_sequential_write"),
    (r"storage", r"sequential read", "storage_sequential_read"),
    (r"storage", r"parallel write", "storage_parallel_write"),
    (r"storage", r"parallel read", "storage_parallel_read"),
    (r"storage", r"random iops", "storage_random_iops"),
    (r"cpu", r"multi-core", "cpu_stress"),
    (r"cpu", r"matrix", "cpu_matmul"),
    (r"cpu", r"compression", "cpu_compression"),
    (r"cpu", r"sorting", "cpu_sorting"),
    (r"memory", r"bandwidth", "memory_bandwidth"),
    (r"memory", r"alloc", "memory_allocation"),
)
_COMPILED: Final = tuple((re.compile(c), re.compile(t), name) for c, t, name in _IDS)


class Measurement(Struct, frozen=True):
    """One value of a benchmark; ``value`` None where it was not measured, ``reason`` says why.

    ``unit_bytes``: bytes that one of the unit counts, None for units that count none.
    ``line`` is 1-based.
    """

    id: str  # "" for a test that is not known
    category: str
    test: str
    value: float | None
    unit: str
    line: int
    unit_bytes: int | None = None
    host: str = ""
    device: int | None = None
    ranks: int | None = None
    method: str = ""
    samples: tuple[float, ...] = ()
    marks: tuple[str, ...] = ()
    reason: str = ""

    @property
    def decimal_gbps(self) -> float | None:
        """A bandwidth in 10^9 bytes a second, None for other quantities."""
        if self.value is None or self.unit_bytes is None:
            return None
        return self.value * self.unit_bytes / 1e9


class ClusterBenchmark(Struct, frozen=True):
    """One file. ``versioned``: its values come from the versioned block, as they were measured."""

    path: str
    measurements: tuple[Measurement, ...]
    timestamp: str = ""
    hostname: str = ""
    total_time_s: float | None = None
    versioned: bool = False
    gpu_name: str = ""
    device: str = ""  # cuda, cpu, or "" where it is not stated
    backend: str = ""
    world_size: int | None = None
    nodes: int | None = None
    hosts: tuple[str, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[Note, ...] = ()


def read_cluster_benchmark(path: Path, *, shown_path: str) -> ClusterBenchmark:
    """The file. Raises CardError with line and column where it is no such YAML."""
    root = load_yaml(read_bytes(path, shown_path, _LIMITS), shown_path, _LIMITS)
    if not isinstance(root, yaml_tree.Mapping):
        raise CardError("no cluster benchmark: it has no keys", path=shown_path, line=1)
    results = _mapping(root, "results")
    if results is None:
        raise CardError("no cluster benchmark: `results:` holds nothing", path=shown_path, line=1)
    notes: list[Note] = []
    of_results: list[Note] = []
    listed = tuple(_listed(results, of_results))
    benchmark = ClusterBenchmark(
        path=shown_path,
        measurements=listed,
        timestamp=_text(root, "timestamp"),
        hostname=_text(root, "hostname"),
        total_time_s=_seconds(_text(root, "total_time")),
    )
    found = _with_block(benchmark, root, notes)
    # Values printed next to a versioned block are for people only.
    return replace(found, notes=tuple(notes if found.versioned else [*of_results, *notes]))


def _listed(results: yaml_tree.Mapping, notes: list[Note]) -> Iterator[Measurement]:
    """Yield the measurements that `results:` lists: "number unit" by category and test."""
    for category in results.pairs:
        if not isinstance(category.node, yaml_tree.Mapping):
            message = f"line {category.mark.line}: {printable(category.key[:60])} holds no tests"
            notes.append(Note("bad_value", message))
            continue
        for test in category.node.pairs:
            yield _measurement(category.key, test, notes)


def _measurement(category: str, test: Pair, notes: list[Note]) -> Measurement:
    text = test.node.text if isinstance(test.node, Scalar) else ""
    name = _id(category, test.key)
    place = _GPU.fullmatch(category)
    ranks = _DEVICES.search(test.key)
    match = _VALUE.fullmatch(text)
    value = None if match is None else finite(match[1].replace(",", ""))
    unit = "" if match is None or match[2] is None else match[2]
    reason = text.removeprefix(_NOT_MEASURED)
    if value is None and name and reason == text:
        where = f"line {test.mark.line}: {printable(test.key[:60])}"
        notes.append(
            Note("bad_value", f"{where} is {printable(text[:40])!r}, not a number and a unit")
        )
    return Measurement(
        id=name,
        category=category,
        test=test.key,
        value=value,
        unit=unit,
        line=test.mark.line,
        unit_bytes=_BYTE_UNITS.get(unit),
        host="" if place is None else place["host"] or "",
        device=None if place is None else int(place["index"]),
        ranks=None if ranks is None else int(ranks[1]),
        marks=() if match is None else _marks(match[3]),
        reason=reason if value is None else "",
    )


def _marks(text: str | None) -> tuple[str, ...]:
    return tuple(mark.strip() for mark in (text or "").split(",") if mark.strip())


def _id(category: str, test: str) -> str:
    where, what = category.lower(), test.lower()
    fitting = (name for c, t, name in _COMPILED if c.match(where) and t.match(what))
    return next(fitting, "")


def _with_block(
    benchmark: ClusterBenchmark, root: yaml_tree.Mapping, notes: list[Note]
) -> ClusterBenchmark:
    """The benchmark with the values of its versioned block, where that can be used."""
    block = _mapping(root, "machine_readable")
    if block is None:
        return benchmark
    version = finite(_text(block, "schema_version"))
    if _text(block, "schema") != SCHEMA or version is None:
        notes.append(Note("bad_block", "its machine_readable block is of another schema"))
        return benchmark
    if version > SCHEMA_VERSION:
        message = f"block of version {version:g}: read like {SCHEMA_VERSION}, the newest known"
        notes.append(Note("newer_block", message))
    values = _child(block, "values")
    rows = values.items if isinstance(values, Sequence) else ()
    found = [_block_value(row, notes) for row in rows]
    hosts = _child(block, "hosts")
    return replace(
        benchmark,
        measurements=tuple(one for one in found if one is not None) or benchmark.measurements,
        versioned=bool(rows),
        gpu_name=_text(block, "gpu_name"),
        device=_text(block, "device"),
        backend=_text(block, "backend"),
        world_size=_count(block, "world_size"),
        nodes=_count(block, "nodes"),
        hosts=_texts(hosts),
        versions=_versions(block),
    )


def _block_value(row: Node, notes: list[Note]) -> Measurement | None:
    if not isinstance(row, yaml_tree.Mapping) or not _text(row, "id"):
        notes.append(Note("bad_value", f"line {row.mark.line}: a value without an id"))
        return None
    value = finite(_text(row, "value"))
    unit_bytes = _count(row, "unit_bytes")
    return Measurement(
        id=_text(row, "id"),
        category=_text(row, "category"),
        test=_text(row, "test"),
        value=value,
        unit=_text(row, "unit"),
        line=row.mark.line,
        unit_bytes=_BYTE_UNITS.get(_text(row, "unit")) if unit_bytes is None else unit_bytes,
        host=_text(row, "host"),
        device=_count(row, "device"),
        ranks=_count(row, "ranks"),
        method=_text(row, "method"),
        samples=tuple(n for text in _texts(_child(row, "samples")) if (n := finite(text))),
        marks=_texts(_child(row, "marks")),
        reason=_text(row, "reason") or ("" if value is not None else "no reason is given"),
    )


def _child(mapping: yaml_tree.Mapping, key: str) -> Node | None:
    return next((pair.node for pair in mapping.pairs if pair.key == key), None)


def _mapping(mapping: yaml_tree.Mapping, key: str) -> yaml_tree.Mapping | None:
    node = _child(mapping, key)
    return node if isinstance(node, yaml_tree.Mapping) else None


def _text(mapping: yaml_tree.Mapping, key: str) -> str:
    node = _child(mapping, key)
    return "" if not isinstance(node, Scalar) or node.value is None else node.text


def _texts(node: Node | None) -> tuple[str, ...]:
    if not isinstance(node, Sequence):
        return ()
    return tuple(item.text for item in node.items if isinstance(item, Scalar))


def _count(mapping: yaml_tree.Mapping, key: str) -> int | None:
    return whole(_text(mapping, key))


def _versions(block: yaml_tree.Mapping) -> dict[str, str]:
    versions = _mapping(block, "versions")
    if versions is None:
        return {}
    return {pair.key: _text(versions, pair.key) for pair in versions.pairs}


def _seconds(text: str) -> float | None:
    match = _VALUE.fullmatch(text)
    return None if match is None else finite(match[1].replace(",", ""))


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


def _matrix(columns: list[str], lines: list[str], text: str) -> GpuTopology:
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
