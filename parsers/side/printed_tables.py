"""Tables of times by name that profilers print: ``prof.key_averages().table()``, rocprof, nvprof.

Columns of PyTorch's are found by their titles, which differ between releases and devices. Rows are
operators, ranges and, where devices were recorded, kernels; long names are cut.

A file of rocprof has kernels or calls of one interface; which of them, its names say. nvprof prints
work of devices, copies among it, and calls of the host, of each process that it profiled.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, Literal

from msgspec import Struct

from ccltui.parsers.errors import TraceError
from ccltui.parsers.side import NVPROF_HEADER
from ccltui.parsers.text.bounded_text import BoundedText, read_bounded

MARK: Final = "Self CPU"
"""Each table has it in its header."""
_HEADER: Final = re.compile(r"^ *Name {2,}[^\n]*\bSelf CPU\b[^\n]*$", re.MULTILINE)
_GAP: Final = re.compile(r" {2,}")
_RULE: Final = re.compile(r"[- ]+")
_TIME: Final = re.compile(r"(-?\d{1,15}(?:\.\d{1,6})?)(us|ms|s)")
_TOTAL: Final = re.compile(
    r"Self (?P<device>\w{1,20}) time total: (?P<time>[\d.]{1,20}(?:us|ms|s))"
)
_DEVICE: Final = re.compile(r"Self (?!CPU\b)(\w{1,20})")
_UNITS: Final = {"us": 1.0, "ms": 1e3, "s": 1e6}
_PERCENT: Final = re.compile(r"(\d{1,3}(?:\.\d{1,4})?)%")
_ALL_ROWS: Final = 0.98
"""Sum of printed shares from which no row is taken to be missing: each is rounded to 0.01 %, and
those of many small rows are printed as 0.00."""
_MOST_ROWS: Final = 20_000
_MOST_TABLES: Final = 64
_AFTER: Final = 400
"""Characters behind a table in which its totals are."""


class TableRow(Struct, frozen=True):
    """Times in us of one name, summed over its calls; ``device_us`` None without a device.

    Shares are those of its own times, as printed; 0.0 where a column of shares is missing.
    """

    name: str
    cpu_us: float
    cpu_total_us: float
    device_us: float | None
    calls: int
    cpu_share: float = 0.0
    device_share: float = 0.0

    @property
    def is_kernel(self) -> bool:
        """Whether it is work of a device alone: kernels have arguments, or are copies.

        Ranges on devices have no time on the host either, but names that somebody chose.
        """
        if self.cpu_us or not self.device_us or _RANGE.match(self.name):
            return False
        bare = self.name.lower()
        return "(" in bare or "<" in bare or "kernel" in bare or bare.startswith(_KERNELS)


_RANGE: Final = re.compile(r"\w+:[^:]|ProfilerStep")
"""Ranges on devices, such as nccl:all_reduce: the kernels in them have rows of their own."""
_KERNELS: Final = ("nccl", "rccl", "memcpy", "memset", "triton_", "_z", "cutlass", "ampere_", "sm")


class ProfilerTable(Struct, frozen=True):
    """One table. ``device`` is its kind, "" without; totals in us as printed, or of the rows."""

    device: str
    rows: tuple[TableRow, ...]
    cpu_us: float
    device_us: float | None

    @property
    def has_kernels(self) -> bool:
        """Whether work of the device has rows of its own; if not, operators state it."""
        return any(row.is_kernel for row in self.rows)

    @property
    def device_rows(self) -> list[TableRow]:
        """The rows whose own times on the device add up to its work."""
        return _device_rows(self.rows)


def _device_rows(rows: Sequence[TableRow]) -> list[TableRow]:
    kernels = [row for row in rows if row.is_kernel]
    return kernels or [row for row in rows if row.device_us and row.cpu_us]


def read_tables(text: BoundedText) -> list[ProfilerTable]:
    """Return the tables in a text."""
    return [table for part in text.plain_parts if MARK in part for table in tables_in(part)]


def tables_in(text: str) -> list[ProfilerTable]:
    """Return the tables in a piece of text."""
    found = []
    for header in list(_HEADER.finditer(text))[:_MOST_TABLES]:
        titles = _GAP.split(header[0].strip())
        lines, end = _rows(text, header.end(), len(titles))
        rows = [row for cells in lines if (row := _row(titles, cells)) is not None]
        if rows:
            found.append(_table(titles, rows, text[end : end + _AFTER]))
    return found


def _rows(text: str, begin: int, width: int) -> tuple[list[list[str]], int]:
    """Return the cells of the rows behind a header, and where the table ends."""
    rows: list[list[str]] = []
    at = begin + 1
    while at < len(text) and len(rows) < _MOST_ROWS:
        end = text.find("\n", at)
        end = len(text) if end < 0 else end
        line = text[at:end].strip()
        if _RULE.fullmatch(line) is None:
            cells = _GAP.split(line)
            if len(cells) != width:
                break
            rows.append(cells)
        elif rows:
            break
        at = end + 1
    return rows, at


def _row(titles: Sequence[str], cells: Sequence[str]) -> TableRow | None:
    by_title = dict(zip(titles, cells, strict=True))
    cpu = _first(by_title, ("Self CPU", "Self CPU total"))
    if cpu is None:
        return None
    device = next((title for title in titles if _DEVICE.fullmatch(title)), "")
    calls = by_title.get("# of Calls") or by_title.get("Number of Calls") or ""
    return TableRow(
        by_title["Name"],
        cpu,
        _first(by_title, ("CPU total",)) or cpu,
        _first(by_title, (device,)) if device else None,
        int(calls) if calls.isdecimal() else 0,
        _share(by_title.get("Self CPU %") or by_title.get("Self CPU total %") or ""),
        _share(by_title.get(f"{device} %", "")),
    )


def _first(by_title: dict[str, str], titles: Sequence[str]) -> float | None:
    for title in titles:
        if title in by_title:
            return _us(by_title[title])
    return None


def _us(text: str) -> float | None:
    match = _TIME.fullmatch(text.strip())
    return None if match is None else float(match[1]) * _UNITS[match[2]]


def _share(text: str) -> float:
    match = _PERCENT.fullmatch(text.strip())
    return 0.0 if match is None else float(match[1]) / 100


def _table(titles: Sequence[str], rows: list[TableRow], after: str) -> ProfilerTable:
    device = next((match[1] for title in titles if (match := _DEVICE.fullmatch(title))), "")
    totals = {match["device"]: _us(match["time"]) for match in _TOTAL.finditer(after)}
    of_cpu = _whole((row.cpu_us, row.cpu_share) for row in rows)
    of_device = _whole((row.device_us or 0.0, row.device_share) for row in _device_rows(rows))
    return ProfilerTable(
        device,
        tuple(rows),
        totals.get("CPU") or of_cpu,
        (totals.get(device) or of_device) if device else None,
    )


def _whole(times: Iterable[tuple[float, float]]) -> float:
    """Return the time of which the printed shares are: more than the rows of a table that was cut.

    Times are printed with more digits than shares, so that those of a whole table are added up.
    """
    listed = list(times)
    time, share = sum(time for time, _ in listed), sum(share for _, share in listed)
    return time / share if 0.0 < share < _ALL_ROWS else time


Tool = Literal["rocprof", "nvprof"]
What = Literal["kernels", "calls", "ranges"]


class SummedRows(Struct, frozen=True):
    """Rows of one kind: names, times in ns and numbers of calls, and the sum of printed shares.

    ``share`` is 0.0 where none is printed.
    """

    tool: Tool
    what: What
    names: tuple[str, ...]
    total_ns: tuple[int, ...]
    calls: tuple[int, ...]
    share: float = 0.0


_CALLS: Final = re.compile(r"(?:__)?hip[A-Z]|hsa_|(?:nccl|rccl)(?!Dev|Kernel)[A-Z]\w*$")
_NO_WORK: Final = re.compile(r"[A-Z][A-Z0-9_]+$")
"""Domains, and the directions of copies, which have tables of their own."""
_LARGEST: Final = 1 << 62


def read_summed(path: Path, *, shown: str) -> tuple[SummedRows, ...]:
    """Return the tables of a file. Raises TraceError where it has none that can be read."""
    text = "\n".join(read_bounded(path, shown=shown).plain_parts)
    found = tuple(_of_nvprof(text)) if NVPROF_HEADER.search(text) else _of_rocprof(text, shown)
    if not found:
        raise TraceError("no row of it has a name and a time", path=shown)
    return found


def _of_rocprof(text: str, shown: str) -> tuple[SummedRows, ...]:
    rows: list[tuple[str, int, int, float]] = []
    try:
        for row in csv.DictReader(text.lstrip("\n").splitlines()):
            name, total = (row.get("Name") or "").strip(), _ns(row.get("TotalDurationNs"))
            is_cut = None in row.values()  # the last row of a file that was cut off
            if name and total is not None and not is_cut:
                share = _decimal(row.get("Percentage")) / 100
                rows.append((name.removesuffix(".kd"), total, _ns(row.get("Calls")) or 0, share))
    except csv.Error as error:
        raise TraceError(f"not valid csv: {error}", path=shown) from error
    rows = [row for row in rows if not _NO_WORK.match(row[0])]
    if not rows:
        return ()
    calls = sum(total for name, total, _, _ in rows if _CALLS.match(name))
    what: What = "calls" if 2 * calls > sum(row[1] for row in rows) else "kernels"
    if "marker_api" in shown.rpartition("/")[2]:
        what = "ranges"
    return (_summed_rows("rocprof", what, rows),)


def _ns(text: str | None) -> int | None:
    number = _decimal(text)
    return int(number) if text and 0 <= number < _LARGEST else None


def _decimal(text: str | None) -> float:
    return float(text) if text and _NUMBER.fullmatch(text) else 0.0


_NUMBER: Final = re.compile(r"\d{1,19}(?:\.\d{1,40})?(?:e[+-]?\d{1,3})?")
_NS_OF_UNIT: Final = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9}
_AMOUNT: Final = r"(?P<time>\d{1,12}(?:\.\d{1,9})?)(?P<unit>ns|us|ms|s)"
_TYPE: Final = r"(?P<type>GPU activities|API calls|OpenACC \(excl\)):"
_PRINTED: Final = re.compile(
    rf"^[ \t]*(?:{_TYPE}[ \t]+)?\d{{1,3}}\.\d{{1,4}}%[ \t]+{_AMOUNT}[ \t]+(?P<calls>\d{{1,12}})"
    rf"(?:[ \t]+[\d.]{{1,16}}(?:ns|us|ms|s)){{3}}[ \t]+(?P<name>\S[^\n]{{0,4000}})$",
    re.MULTILINE,
)
_SECTION: Final = re.compile(r"^(?:==\d+== )?(?P<what>Profiling result|API calls):", re.MULTILINE)
_KINDS: Final[dict[str, What]] = {
    "GPU activities": "kernels",
    "API calls": "calls",
    "Profiling result": "kernels",  # to CUDA 8, calls had a table of their own
}


def _of_nvprof(text: str) -> Iterator[SummedRows]:
    by_kind: dict[What, dict[str, list[int]]] = {}
    kind: What | None = "kernels"
    marks = {match.start(): match for pattern in (_SECTION, _PRINTED)
             for match in pattern.finditer(text)}  # fmt: skip
    for _, match in sorted(marks.items()):
        if match.re is _SECTION:
            kind = _KINDS[match["what"]]
            continue
        kind = _KINDS.get(match["type"]) if match["type"] else kind
        if kind is not None:
            row = by_kind.setdefault(kind, {}).setdefault(match["name"].strip(), [0, 0])
            row[0] += round(float(match["time"]) * _NS_OF_UNIT[match["unit"]])
            row[1] += int(match["calls"])
    for what, found in by_kind.items():
        rows = [(name, total, calls, 0.0) for name, (total, calls) in found.items()]
        yield _summed_rows("nvprof", what, rows)


def _summed_rows(tool: Tool, what: What, rows: list[tuple[str, int, int, float]]) -> SummedRows:
    names, total, calls, shares = zip(*rows, strict=True)
    return SummedRows(tool, what, names, total, calls, sum(shares))
