"""NCCL's XML of a host: devices, NVLinks, PCIe and network cards.

The file may come from anywhere: a document type, and with it every entity, is refused, and
size, depth and the number of elements are bounded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn
from xml.parsers import expat

from ccltui.parsers.errors import TraceError
from ccltui.parsers.names import printable
from ccltui.parsers.text.json_fields import finite

MAX_BYTES: Final = 1 << 24
MAX_ELEMENTS: Final = 200_000
MAX_DEPTH: Final = 64


@dataclass(frozen=True, slots=True)
class Gpu:
    """A device: ``nvlinks`` counts links by the PCI address of the other end."""

    device: int | None
    bus: str
    rank: int | None
    compute_capability: str
    numa: str
    gpu_direct: bool | None
    nvlinks: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Nic:
    """A port of a network card; ``speed_gbps`` in Gbit/s."""

    name: str
    port: str
    speed_gbps: float | None
    numa: str
    gpu_direct: bool | None


@dataclass(frozen=True)
class NcclTopology:
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
            links[target] = links.get(target, 0) + (_count(attributes.get("count")) or 0)
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
                device=_count(attributes.get("dev")),
                bus=bus,
                rank=_count(attributes.get("rank")),
                compute_capability=printable(attributes.get("sm", "")[:10]),
                numa=numa,
                gpu_direct=_flag(attributes.get("gdr")),
                nvlinks=self._links.get(number, {}),
            )
            for number, (attributes, bus, numa) in enumerate(self._gpus)
        )
        return NcclTopology(self._version or "", self._cpus, gpus, tuple(self._nics))


def _count(text: str | None) -> int | None:
    number = finite(text)
    return int(number) if number is not None and number >= 0 and number.is_integer() else None


def _flag(text: str | None) -> bool | None:
    return {"0": False, "1": True}.get(text or "")
