"""Tables of times by name that ``rocprof --stats``, ``rocprofv3 --stats`` and ``nvprof`` print.

A file of rocprof has kernels or calls of one interface; which of them, its names say. nvprof prints
work of devices, copies among it, and calls of the host, of each process that it profiled.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Literal

from msgspec import Struct

from ccltui.parsers.errors import TraceError
from ccltui.parsers.side import NVPROF_HEADER
from ccltui.parsers.text.bounded_text import read_bounded

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
    return (_rows("rocprof", what, rows),)


def _ns(text: str | None) -> int | None:
    number = _decimal(text)
    return int(number) if text and 0 <= number < _LARGEST else None


def _decimal(text: str | None) -> float:
    return float(text) if text and _NUMBER.fullmatch(text) else 0.0


_NUMBER: Final = re.compile(r"\d{1,19}(?:\.\d{1,40})?(?:e[+-]?\d{1,3})?")
_UNITS: Final = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9}
_TIME: Final = r"(?P<time>\d{1,12}(?:\.\d{1,9})?)(?P<unit>ns|us|ms|s)"
_TYPE: Final = r"(?P<type>GPU activities|API calls|OpenACC \(excl\)):"
_PRINTED: Final = re.compile(
    rf"^[ \t]*(?:{_TYPE}[ \t]+)?\d{{1,3}}\.\d{{1,4}}%[ \t]+{_TIME}[ \t]+(?P<calls>\d{{1,12}})"
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
            row[0] += round(float(match["time"]) * _UNITS[match["unit"]])
            row[1] += int(match["calls"])
    for what, found in by_kind.items():
        rows = [(name, total, calls, 0.0) for name, (total, calls) in found.items()]
        yield _rows("nvprof", what, rows)


def _rows(tool: Tool, what: What, rows: list[tuple[str, int, int, float]]) -> SummedRows:
    names, total, calls, shares = zip(*rows, strict=True)
    return SummedRows(tool, what, names, total, calls, sum(shares))
