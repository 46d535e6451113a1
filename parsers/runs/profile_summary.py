"""``profile_summary.json``: the largest ranges of a capture, where the whole text was not saved."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ccltui.parsers.columns import Note
from ccltui.parsers.text.json_fields import Fields, finite, read_object

_GAP: Final = re.compile(r"\s{2,}")
_GROUPED: Final = re.compile(r"\d{1,3}(?:[,'  .]\d{2,3})*|\d+")
_TIME: Final = re.compile(r"(\d{1,24}) ?ns")


@dataclass(frozen=True, slots=True)
class SummaryRange:
    """One range; ``instances`` as its printed row says, None where that is unknown."""

    name: str
    time_pct: float | None
    total_ns: int | None
    instances: int | None


@dataclass(frozen=True, slots=True)
class ProfileSummary:
    """The ranges of NVTX that took longest, and the texts they are from."""

    ranges: tuple[SummaryRange, ...]
    inputs: tuple[str, ...]
    notes: tuple[Note, ...] = ()


def read_profile_summary(path: Path, *, shown: str) -> ProfileSummary:
    """The summary. Raises TraceError where it is no JSON object."""
    fields = Fields(read_object(path, shown_path=shown))
    inputs = fields.raw("inputs")
    names = [str(name) for name in inputs] if isinstance(inputs, list) else []
    return ProfileSummary(tuple(_ranges(fields)), tuple(names), tuple(fields.notes))


def _ranges(fields: Fields) -> Iterator[SummaryRange]:
    rows = fields.raw("nvtx_top5")
    if rows is not None and not isinstance(rows, list):
        fields.note("nvtx_top5 is not a list")
        return
    for row in rows or []:
        if isinstance(row, Mapping) and isinstance(row.get("name"), str):
            time = _TIME.fullmatch(str(row.get("total_time", "")).strip())
            total_ns = None if time is None else int(time[1])
            yield SummaryRange(
                row["name"], finite(row.get("time_percent")), total_ns, _instances(row, total_ns)
            )


def _instances(row: Mapping[str, Any], total_ns: int | None) -> int | None:
    """The third cell of the printed row, if the first two are what the summary says they are."""
    cells = _GAP.split(str(row.get("raw", "")).strip())
    if len(cells) < 4 or not cells[-1].endswith(str(row["name"]).strip()):
        return None
    total, count = (_whole(cell) for cell in cells[1:3])
    return count if count is not None and total is not None and total == total_ns else None


def _whole(cell: str) -> int | None:
    """A whole number, its digits grouped in any way."""
    if not _GROUPED.fullmatch(cell):
        return None
    return int(re.sub(r"\D", "", cell))
