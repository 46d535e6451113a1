"""The summary of communication that DeepSpeed logs: tables of operations and message sizes.

Columns are found by the names in the header. With the effect of stragglers DeepSpeed prints a
second table: how long an operation waited for the last rank, and how long it then took.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ccltui.parsers.names import printable
from ccltui.parsers.text.bounded_text import BoundedText, read_bounded

HEADER: Final = re.compile(r"\bComm\. Op\s{2,}Message Size\s{2,}Count\b")
_GAP: Final = re.compile(r"\s{2,}")
_BETWEEN: Final = re.compile(r"\s{2,}|(?<=\))\s(?=[A-Z])")
"""Names of columns: where one fills its width, a single blank is left before the next."""
_SIZE: Final = re.compile(r"\d[\d.,]*\s?(?:B|[KMGTP]i?B)")
_OPERATION: Final = re.compile(r"[A-Za-z_][\w. -]{1,60}")
_WAITED: Final = "Total straggler(ms)"
_MOST_ROWS: Final = 100_000


@dataclass(frozen=True, slots=True)
class CommsRow:
    """One operation of one message size; NaN where the table does not state a value.

    ``total_ms`` is the latency of all calls, waiting included; ``waited_ms`` the waiting for the
    last rank alone. Rates are as DeepSpeed prints them, in Gbit/s.
    """

    operation: str
    size: str
    count: int
    total_ms: float
    waited_ms: float
    rate_gbps: float
    busbw_gbps: float


def read_comms_summary(path: Path, *, shown: str) -> tuple[CommsRow, ...]:
    """Return the rows of the last summary of a log, () without one. Raises TraceError."""
    return comms_summary_of(read_bounded(path, shown=shown))


def comms_summary_of(text: BoundedText) -> tuple[CommsRow, ...]:
    """Return the rows of the last summary of a text."""
    rows: dict[tuple[str, str], dict[str, str]] = {}
    header: list[str] = []
    operation = ""
    for _, line in text.lines():
        found = HEADER.search(line)
        if found is not None:
            header = _BETWEEN.split(line[found.start() :].strip())
            if _WAITED not in header:
                rows = {}  # a later summary counts from the beginning
            operation = ""
        elif header and line.strip():
            cells = _GAP.split(line.strip())
            if _SIZE.fullmatch(cells[0]) and operation and len(cells) == len(header) - 1:
                values = dict(zip(header[1:], cells, strict=True))
                if len(rows) < _MOST_ROWS:
                    rows.setdefault((operation, cells[0]), {}).update(values)
            elif len(cells) == 1 and _OPERATION.fullmatch(cells[0]):
                operation = printable(cells[0])
            elif set(line.strip()) <= set("-_=") or line.startswith("Breakdown"):
                operation = ""
            else:
                header = []
    return tuple(_row(operation, size, values) for (operation, size), values in rows.items())


def _row(operation: str, size: str, values: Mapping[str, str]) -> CommsRow:
    waited = _number(values, _WAITED)
    total = _number(values, "Total Latency(ms)")
    if math.isnan(total):
        total = _number(values, "Total comm lat(ms)") + waited
    count = _number(values, "Count")
    return CommsRow(
        operation=operation,
        size=printable(size),
        count=0 if math.isnan(count) else int(count),
        total_ms=total,
        waited_ms=waited,
        rate_gbps=_number(values, "tput_avg (Gbps)"),
        busbw_gbps=_number(values, "busbw_avg (Gbps)"),
    )


def _number(values: Mapping[str, str], name: str) -> float:
    try:
        number = float(values.get(name, "").replace(",", ""))
    except ValueError:
        return math.nan
    return number if 0 <= number < 2.0**53 else math.nan
