"""Tables of times by name that profilers print: ``prof.key_averages().table()``, rocprof, nvprof.

Columns of PyTorch's are found by their titles, which differ between releases and devices. Rows are
operators, ranges and, where devices were recorded, kernels; long names are cut.

A file of rocprof has kernels or calls of one interface; which of them, its names say. nvprof prints
work of devices, copies among it, and calls of the host, of each process that it profiled, among
what the program itself prints.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Final, Literal

from msgspec import Struct

from ccltui.parsers.errors import TraceError
from ccltui.parsers.rocm import kernel_name
from ccltui.parsers.side import NVPROF_HEADER, NVPROF_MARK
from ccltui.parsers.text.file_sample import BoundedText, read_bounded

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


class SummedTables(Struct, frozen=True):
    """Tables of one file, () where they list nothing, and a line for what is not counted."""

    tables: tuple[SummedRows, ...] = ()
    notes: tuple[str, ...] = ()


_MOST_NAMES: Final = 20_000
"""Names of one table: a program has thousands. Tables begin with the names of most time."""
_MOST_LINES: Final = 400_000
"""Lines of tables of nvprof that are read, of all processes: a second of work."""
_LONGEST_NAME: Final = 4000
"""Names are cut here: as long ones differ before, and time to take them apart grows with them."""
_LARGEST: Final = 1 << 62
"""Sums are kept in 64 bits; as nanoseconds these are 146 years."""
_Row = tuple[str, int, int, float | None]


def read_rocprof(path: Path, *, shown: str) -> SummedTables:
    """Return the table of a file. Raises TraceError where no row of it can be read.

    Sums of what other tables list by name are left out: domains, and directions of copies.
    """
    text = read_bounded(path, shown=shown)
    notes = [note.message for note in text.notes]
    rows: list[_Row] = []
    listed = 0
    try:
        for row in _csv_rows("\n".join(text.plain_parts)):
            if listed == _MOST_NAMES:
                notes.append(f"only its first {_MOST_NAMES:,} rows are read")
                break
            listed += 1
            total = _ns(row.get("TotalDurationNs"))
            name = kernel_name(row["Name"].strip()[:_LONGEST_NAME])
            if name and total is not None:
                share = _decimal(row.get("Percentage"))
                rows.append((name, total, _ns(row.get("Calls")) or 0, share))
    except csv.Error as error:
        raise TraceError(f"not valid csv: {error}", path=shown) from error
    if listed and not rows:
        raise TraceError("no row of it has a name and a time", path=shown)
    rows = [row for row in rows if not _SUMS_OF_OTHERS.fullmatch(row[0])]
    if not _can_be_true(rows):
        raise TraceError(_TOO_LARGE, path=shown)
    tables = (_summed_rows("rocprof", _what(rows, shown), rows),) if rows else ()
    return SummedTables(tables, tuple(notes))


def _csv_rows(text: str) -> Iterator[dict[str, str]]:
    """Yield the rows of a table by their titles, without one that was cut off."""
    cells = csv.reader(match[0] for match in _LINE.finditer(text))
    titles = next((row for row in cells if row), [])
    if "Name" not in titles:
        return
    for row in cells:
        if len(row) >= len(titles):
            yield dict(zip(titles, row, strict=False))


_LINE: Final = re.compile(r"[^\n]*\n|[^\n]+")
_CALLS: Final = re.compile(r"(?:__)?hip[A-Z]|hsa_|(?:nccl|rccl)(?!Dev|Kernel)[A-Z]\w*$")
_SUMS_OF_OTHERS: Final = re.compile(
    r"(?:HIP|HSA|MARKER|RCCL|ROCDECODE|ROCJPEG)(?:_[A-Z]+){0,3}_API(?:_EXT)?|OMPT"
    r"|KERNEL_DISPATCH|(?:MEMORY_COPY|MEMORY_ALLOCATION|SCRATCH_MEMORY)(?:_[A-Z]+){0,4}"
    r"|(?:HOST|DEVICE)_TO_(?:HOST|DEVICE)|(?:hcMemcpy|Copy)(?:Host|Device)To(?:Host|Device)"
)
"""Domains, and the directions of copies, as rocprofv3 and rocprof name them."""


def _what(rows: list[_Row], shown: str) -> What:
    if "marker_api" in shown.rpartition("/")[2]:
        return "ranges"
    calls = sum(total for name, total, _, _ in rows if _CALLS.match(name))
    return "calls" if 2 * calls > sum(row[1] for row in rows) else "kernels"


def _ns(text: str | None) -> int | None:
    number = _decimal(text)
    return int(number) if number is not None and number < _LARGEST else None


def _decimal(text: str | None) -> float | None:
    """Return the number that a text is, None where it is none."""
    return float(text) if text and _NUMBER.fullmatch(text.strip()) else None


_NUMBER: Final = re.compile(r"\d{1,19}(?:\.\d{1,40})?(?:[eE][+-]?\d{1,3})?", re.ASCII)
_NS_OF_UNIT: Final = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9}
_AMOUNT: Final = r"(?P<time>\d{1,12}(?:\.\d{1,9})?)(?P<unit>ns|us|ms|s)"
_TYPE: Final = r"(?P<type>GPU activities|API calls|OpenACC \(excl\)):"
_PRINTED: Final = re.compile(
    rf"^(?:[ \t]*+(?:{_TYPE}[ \t]+)?\d{{1,3}}\.\d{{1,4}}%[ \t]+{_AMOUNT}[ \t]+(?P<calls>\d{{1,12}})"
    r"(?:[ \t]+[\d.]{1,16}(?:ns|us|ms|s)){3}[ \t]+(?P<name>\S[^\n]*)$"
    r"|(?:==\d{1,10}== )?(?P<section>Profiling result|API calls):)",
    re.MULTILINE | re.ASCII,
)
"""A row, or the line before a table: in one pattern, so that they are met in their order.

``*+`` gives no blank back, so that lines of blanks are passed once.
"""
_KINDS: Final[dict[str, What]] = {
    "GPU activities": "kernels",
    "API calls": "calls",
    "Profiling result": "kernels",  # to CUDA 8, calls had a table of their own
}
_BEFORE: Final = 200
"""Characters before the first header in which the line is that says what the table is of."""


def nvprof_tables(text: BoundedText) -> SummedTables:
    """Return the tables in a text."""
    if not any(NVPROF_MARK in part for part in text.parts):
        return SummedTables()
    plain = "\n".join(text.plain_parts)
    begin = plain.rfind("\n", 0, max(plain.find(NVPROF_MARK) - _BEFORE, 0)) + 1
    if NVPROF_HEADER.search(plain, begin) is None:
        return SummedTables()
    notes = [note.message for note in text.notes]
    tables = []
    for what, found in _by_kind(plain, begin, notes).items():
        rows: list[_Row] = [(name, ns, calls, None) for name, (ns, calls) in found.items()]
        if _can_be_true(rows):
            tables.append(_summed_rows("nvprof", what, rows))
        else:
            notes.append(f"{_TOO_LARGE}: its {what} are not counted")
    return SummedTables(tuple(tables), tuple(notes))


def _by_kind(text: str, begin: int, notes: list[str]) -> dict[What, dict[str, list[int]]]:
    """Return time in ns and calls by kind and name, summed over processes."""
    by_kind: dict[What, dict[str, list[int]]] = {}
    kind: What | None = "kernels"
    left_out = 0
    matches = _PRINTED.finditer(text, begin)
    for match in islice(matches, _MOST_LINES):
        if match["section"]:
            kind = _KINDS[match["section"]]
            continue
        kind = _KINDS.get(match["type"]) if match["type"] else kind
        if kind is None:
            continue
        rows, name = by_kind.setdefault(kind, {}), match["name"].strip()[:_LONGEST_NAME]
        if name not in rows and len(rows) >= _MOST_NAMES:
            left_out += 1
            continue
        row = rows.setdefault(name, [0, 0])
        row[0] += round(float(match["time"]) * _NS_OF_UNIT[match["unit"]])
        row[1] += int(match["calls"])
    if left_out:
        notes.append(f"only its first {_MOST_NAMES:,} names are counted, {left_out:,} rows are not")
    if next(matches, None) is not None:
        notes.append(f"only the first {_MOST_LINES:,} lines of its tables are read")
    return by_kind


_TOO_LARGE: Final = "sums are too large to be true"


def _can_be_true(rows: list[_Row]) -> bool:
    return max(sum(row[1] for row in rows), sum(row[2] for row in rows)) < _LARGEST


def _summed_rows(tool: Tool, what: What, rows: list[_Row]) -> SummedRows:
    names, total, calls, shares = zip(*rows, strict=True)
    printed = [share for share in shares if share is not None]
    whole = sum(printed) / 100 if len(printed) == len(shares) else 0.0
    return SummedRows(tool, what, names, total, calls, whole)
