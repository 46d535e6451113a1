"""Write a comparison of two profiles, of texts of nsys stats, as text, csv and json."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal

from ccltui.metrics.compare.compare_profiles import Calls, Profile, ProfileComparison, ProfileRow
from ccltui.parsers.safe_text import safe_text
from ccltui.report.csv_text import csv_text
from ccltui.report.printable_json import json_bytes
from ccltui.report.result_rows import cell_text
from ccltui.report.text_layout import escaped, markdown_table, table, text_bytes

if TYPE_CHECKING:
    from ccltui.schemas import comparisons

SCHEMA_VERSION: Final = 1
_NAME_WIDTH: Final = 60
_HEADER: Final = (
    "",
    "A %",
    "B %",
    "A calls",
    "B calls",
    "A us/call",
    "B us/call",
    "change",
    "verdict",
)
_ALIGN: Final[tuple[Literal["left", "right"], ...]] = (
    *("left", "right", "right", "right", "right"),
    *("right", "right", "right", "left"),
)
_CSV_HEADER: Final = (
    *("part", "name", "share_a_pct", "share_b_pct", "calls_a", "calls_b"),
    *("mean_us_a", "mean_us_b", "change_pct", "verdict"),
)
_TITLES: Final = {"range": "ranges of NVTX", "kernel": "kernels"}


Writer = Callable[[ProfileComparison], bytes]


def write_table(found: ProfileComparison) -> bytes:
    """The bottleneck of each side, the rows by part, calls per backward, what the texts lack."""
    lines = [f"A  {safe_text(found.a.name)}: {safe_text(found.a.bottleneck)}"]
    lines += [f"B  {safe_text(found.b.name)}: {safe_text(found.b.bottleneck)}"]
    for part, title in _TITLES.items():
        rows = [_cells(row) for row in found.rows if row.part == part]
        if rows:
            lines += ["", *table((title, *_HEADER[1:]), rows, align=_ALIGN)]
    calls = list(_per_backward(found))
    if calls:
        rows_of_calls = [(name, _text(a), _text(b)) for name, a, b in calls]
        header = ("calls per backward pass", "A", "B")
        lines += ["", *table(header, rows_of_calls, align=("left", "right", "right"))]
    lines += ["", f"Verdicts: {found.remark}."]
    lines += ["", "Not in these texts:", *(f"- {safe_text(text)}" for text in found.unknown)]
    return text_bytes(line.rstrip() for line in lines)


def write_csv(found: ProfileComparison) -> bytes:
    """Csv with a line per range and kernel, unrounded; an absent value is an empty cell."""
    rows: list[tuple[str, ...]] = [_CSV_HEADER]
    for row in found.rows:
        numbers = (
            *(_of(row.a, "share"), _of(row.b, "share"), _of(row.a, "count"), _of(row.b, "count")),
            *(_mean_us(row.a), _mean_us(row.b), row.change_pct),
        )
        rows.append((row.part, row.name, *map(cell_text, numbers), row.verdict))
    return csv_text(rows).encode()


def write_markdown(found: ProfileComparison) -> bytes:
    """The bottleneck of each side, the rows by part, and what the texts lack, in markdown."""
    sides = (("A", found.a), ("B", found.b))
    lines = [f"- {side}: {escaped(f'{one.name}: {one.bottleneck}')}" for side, one in sides]
    for part, title in _TITLES.items():
        rows = [_cells(row) for row in found.rows if row.part == part]
        if rows:
            lines += ["", *markdown_table((title, *_HEADER[1:]), rows, _ALIGN)]
    lines += ["", f"Verdicts: {escaped(found.remark)}."]
    lines += ["", "Not in these texts:", "", *(f"- {escaped(text)}" for text in found.unknown)]
    return text_bytes(lines)


def gate_values(found: ProfileComparison) -> dict[str, Any]:
    """Return the values that conditions test: "range" and "kernel", each by name."""
    values: dict[str, Any] = {"range": {}, "kernel": {}}
    for row in found.rows:
        values[row.part][row.name] = {
            "change_pct": row.change_pct,
            "a": _record(row.a),
            "b": _record(row.b),
        }
    return values


def write_json(found: ProfileComparison) -> bytes:
    """One document, indented by 2."""
    document: comparisons.DiffProfiles = {
        "schema_version": SCHEMA_VERSION,
        "a": _side(found.a),
        "b": _side(found.b),
        "rows": [
            {
                "part": row.part,
                "name": row.name,
                "a": _record(row.a),
                "b": _record(row.b),
                "change_pct": row.change_pct,
                "verdict": row.verdict or None,
            }
            for row in found.rows
        ],
        "calls_per_backward": {name: {"a": a, "b": b} for name, a, b in _per_backward(found)},
        "verdict": None,
        "why": found.remark,
        "runs_vary_pct": found.runs_vary_pct,
        "unknown": list(found.unknown),
    }
    return json_bytes(document, indent=True)


PROFILE_WRITERS: Final[Mapping[str, Writer]] = {
    "table": write_table,
    "csv": write_csv,
    "json": write_json,
    "md": write_markdown,
}


def _cells(row: ProfileRow) -> tuple[str, ...]:
    name = safe_text(row.name)
    short = name if len(name) <= _NAME_WIDTH else f"{name[: _NAME_WIDTH - 1]}…"
    sides = (row.a, row.b)
    change = "" if row.change_pct is None else f"{row.change_pct:+.1f} %"
    return (
        short,
        *("" if one is None else f"{one.share:.1f}" for one in sides),
        *("" if one is None else f"{one.count:,}" for one in sides),
        *("" if one is None else f"{one.mean_ns / 1e3:,.1f}" for one in sides),
        change,
        row.verdict or _why_none(row),
    )


def _why_none(row: ProfileRow) -> str:
    if row.a is None or row.b is None:
        return f"only in {'B' if row.a is None else 'A'}"
    return "the name is cut"


def _per_backward(found: ProfileComparison) -> Iterator[tuple[str, float | None, float | None]]:
    sides = (found.a.nccl, found.b.nccl)
    names = {name for side in sides if side is not None for name in side.instances}
    for name in sorted(names):
        a, b = (None if side is None else side.per_backward(name) for side in sides)
        yield name, a, b


def _text(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _of(calls: Calls | None, name: str) -> float | int | None:
    value: float | int | None = None if calls is None else getattr(calls, name)
    return value


def _mean_us(calls: Calls | None) -> float | None:
    return None if calls is None else calls.mean_ns / 1e3


def _record(calls: Calls | None) -> comparisons.ProfileTimes | None:
    if calls is None:
        return None
    return {
        "share_pct": calls.share,
        "calls": calls.count,
        "total_ns": calls.total_ns,
        "mean_us": calls.mean_ns / 1e3,
        "std_us": None if calls.std_ns is None else calls.std_ns / 1e3,
    }


def _side(profile: Profile) -> comparisons.ProfileSide:
    return {
        "name": profile.name,
        "texts": list(profile.texts),
        "bottleneck": profile.bottleneck,
        "collective_share_of_kernels_pct": profile.collective_share,
    }
