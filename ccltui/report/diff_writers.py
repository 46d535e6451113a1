"""Write a comparison of two runs, or of two texts of nsys stats, as text, csv and json."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from decimal import ROUND_HALF_UP, Decimal
from typing import TYPE_CHECKING, Any, Final, Literal

from ccltui.metrics.compare.comparable import Check, Comparability
from ccltui.metrics.compare.compare_runs import Comparison, Row
from ccltui.parsers.numbers import decimal_size
from ccltui.parsers.safe_text import safe_text
from ccltui.report.printable_json import json_bytes
from ccltui.report.result_rows import cell_text, csv_text
from ccltui.report.text_layout import escaped, markdown_table, table, text_bytes

if TYPE_CHECKING:
    from ccltui.metrics.compare.compare_profiles import (
        Calls,
        Profile,
        ProfileComparison,
        ProfileRow,
    )
    from ccltui.report import compared_documents
    from ccltui.report.compared_documents import ComparedField, RunComparability, RunRow

    ProfileWriter = Callable[[ProfileComparison], bytes]

SCHEMA_VERSION: Final = 1
HEADER: Final = ("number", "unit", "A", "B", "B - A", "percent", "verdict", "why")
_CSV_HEADER: Final = ("number", "unit", "a", "b", "delta", "delta_pct", "verdict", "note")
CHECK_HEADER: Final = ("must be equal", "A", "B", "standing")


Writer = Callable[[Comparison], bytes]


def write_table(found: Comparison) -> bytes:
    """Comparability first, then the numbers, then the verdict in one line."""
    checks = [_check_row(check) for check in found.comparability.checks if check.required]
    lines = [f"A  {_names(found.a)}", f"B  {_names(found.b)}", ""]
    lines += table(CHECK_HEADER, checks)
    lines += [f"{check.name}: {check.sentence}" for check in found.comparability.reported]
    lines += ["", *table(HEADER, [_row(row) for row in found.rows], align=_ALIGN), ""]
    lines.append(headline(found))
    return text_bytes(line.rstrip() for line in lines)


def write_csv(found: Comparison) -> bytes:
    """Csv with a line per number, unrounded; an absent value is an empty cell."""
    rows: list[tuple[str, ...]] = [_CSV_HEADER]
    for row in found.rows:
        numbers = (row.a, row.b, row.delta, row.delta_pct)
        rows.append((row.name, row.unit, *map(cell_text, numbers), row.verdict, row.note))
    return csv_text(rows).encode()


def write_markdown(found: Comparison) -> bytes:
    """The verdict, comparability and the numbers in markdown."""
    checks = [_check_row(check) for check in found.comparability.checks if check.required]
    lines = [f"# {escaped(headline(found))}", ""]
    lines += [
        f"- {side}: {escaped(_names(names))}" for side, names in (("A", found.a), ("B", found.b))
    ]
    lines += ["", *markdown_table(CHECK_HEADER, checks)]
    lines += ["", *markdown_table(HEADER, [_row(row) for row in found.rows], _ALIGN)]
    return text_bytes(lines)


def write_json(found: Comparison) -> bytes:
    """One document, indented by 2."""
    return json_bytes(document(found), indent=True)


WRITERS: Final[Mapping[str, Writer]] = {
    "table": write_table,
    "csv": write_csv,
    "json": write_json,
    "md": write_markdown,
}


def gate_values(found: Comparison) -> dict[str, Any]:
    """Return the values that conditions test, by name with underscores for blanks."""
    return {row.name.replace(" ", "_"): _record(row) for row in found.rows}


def document(found: Comparison) -> dict[str, Any]:
    """The JSON document, ``schema_version`` 1."""
    return {
        "schema_version": SCHEMA_VERSION,
        "a": list(found.a),
        "b": list(found.b),
        "comparability": _comparability(found.comparability),
        "rows": [_record(row) for row in found.rows],
        "verdict": found.verdict,
        "why": found.why,
        "runs_vary_pct": found.runs_vary_pct,
    }


def headline(found: Comparison) -> str:
    """The verdict in one line, with the leading change and the reason."""
    change = ""
    if found.verdict != "not comparable":
        first = found.leading
        change = _counted(found) if first is None else f", {first.name} {_percent(first)} %"
    why = f" ({found.why})" if found.why else ""
    return safe_text(f"{found.verdict_text}{change}{why}")


def _counted(found: Comparison) -> str:
    counts = Counter(row.verdict for row in found.rows)
    return f": {counts['worse']} worse and {counts['better']} better of {len(found.rows)} values"


def _comparability(found: Comparability) -> RunComparability:
    return {
        "verdict": found.verdict,
        "differences": [check.sentence for check in found.differences],
        "stated": [check.sentence for check in found.reported],
        "unknown": [check.name for check in found.unknown],
        "checks": check_records(found),
    }


def check_records(found: Comparability) -> list[ComparedField]:
    """Return each property of both sides, as JSON documents have it."""
    return [
        {
            "name": check.name,
            "a": check.a or None,
            "b": check.b or None,
            "required": check.required,
            "standing": check.standing,
        }
        for check in found.checks
    ]


def _record(row: Row) -> RunRow:
    return {
        "number": row.name,
        "unit": row.unit,
        "a": row.a,
        "b": row.b,
        "delta": row.delta,
        "delta_pct": row.delta_pct,
        "half_width": row.half_width,
        "spread": row.spread or None,
        "higher_is_better": row.higher_is_better,
        "verdict": row.verdict,
        "note": row.note,
    }


_ALIGN: Final = ("left", "left", "right", "right", "right", "right", "left", "left")


def _row(row: Row) -> tuple[str, ...]:
    spread = f"{row.note}; {row.spread}" if row.spread else row.note
    delta = "" if row.delta is None else _amount(row.delta, row.unit, sign="+")
    return (
        row.name,
        row.unit,
        *("" if value is None else _amount(value, row.unit) for value in (row.a, row.b)),
        delta,
        _percent(row),
        row.verdict,
        spread,
    )


def _amount(value: float, unit: str, sign: str = "") -> str:
    """A number for people: halves are rounded away from zero, 1.625 is 1.63."""
    if unit == "bytes":
        mark = "-" if value < 0 else sign
        return f"{mark}{decimal_size(abs(value))}"
    size = abs(value)
    digits = 2 if size >= 1 else 4
    rounded = Decimal(repr(float(value))).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP)
    return f"{rounded:{sign},}"


def _percent(row: Row) -> str:
    return "" if row.delta_pct is None else f"{row.delta_pct:+,.2f}"


def _names(names: tuple[str, ...]) -> str:
    shown = ", ".join(names)
    return shown if len(names) == 1 else f"{shown} ({len(names)} repetitions)"


def _check_row(check: Check) -> tuple[str, ...]:
    return check.name, check.a, check.b, check.standing


_NAME_WIDTH: Final = 60
_PROFILE_HEADER: Final = (
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
_PROFILE_ALIGN: Final[tuple[Literal["left", "right"], ...]] = (
    *("left", "right", "right", "right", "right"),
    *("right", "right", "right", "left"),
)
_PROFILE_CSV_HEADER: Final = (
    *("part", "name", "share_a_pct", "share_b_pct", "calls_a", "calls_b"),
    *("mean_us_a", "mean_us_b", "change_pct", "verdict"),
)
_TITLES: Final = {"range": "ranges of NVTX", "kernel": "kernels"}


def _profile_table(found: ProfileComparison) -> bytes:
    """The bottleneck of each side, the rows by part, calls per backward, what the texts lack."""
    lines = [f"A  {safe_text(found.a.name)}: {safe_text(found.a.bottleneck)}"]
    lines += [f"B  {safe_text(found.b.name)}: {safe_text(found.b.bottleneck)}"]
    for part, title in _TITLES.items():
        rows = [_profile_cells(row) for row in found.rows if row.part == part]
        if rows:
            lines += ["", *table((title, *_PROFILE_HEADER[1:]), rows, align=_PROFILE_ALIGN)]
    calls = list(_per_backward(found))
    if calls:
        rows_of_calls = [(name, _text(a), _text(b)) for name, a, b in calls]
        header = ("calls per backward pass", "A", "B")
        lines += ["", *table(header, rows_of_calls, align=("left", "right", "right"))]
    lines += ["", f"Verdicts: {found.remark}."]
    lines += ["", "Not in these texts:", *(f"- {safe_text(text)}" for text in found.unknown)]
    return text_bytes(line.rstrip() for line in lines)


def _profile_csv(found: ProfileComparison) -> bytes:
    """Csv with a line per range and kernel, unrounded; an absent value is an empty cell."""
    rows: list[tuple[str, ...]] = [_PROFILE_CSV_HEADER]
    for row in found.rows:
        numbers = (
            *(_of(row.a, "share"), _of(row.b, "share"), _of(row.a, "count"), _of(row.b, "count")),
            *(_mean_us(row.a), _mean_us(row.b), row.change_pct),
        )
        rows.append((row.part, row.name, *map(cell_text, numbers), row.verdict))
    return csv_text(rows).encode()


def _profile_markdown(found: ProfileComparison) -> bytes:
    """The bottleneck of each side, the rows by part, and what the texts lack, in markdown."""
    sides = (("A", found.a), ("B", found.b))
    lines = [f"- {side}: {escaped(f'{one.name}: {one.bottleneck}')}" for side, one in sides]
    for part, title in _TITLES.items():
        rows = [_profile_cells(row) for row in found.rows if row.part == part]
        if rows:
            lines += ["", *markdown_table((title, *_PROFILE_HEADER[1:]), rows, _PROFILE_ALIGN)]
    lines += ["", f"Verdicts: {escaped(found.remark)}."]
    lines += ["", "Not in these texts:", "", *(f"- {escaped(text)}" for text in found.unknown)]
    return text_bytes(lines)


def profile_gate_values(found: ProfileComparison) -> dict[str, Any]:
    """Return the values that conditions test: "range" and "kernel", each by name."""
    values: dict[str, Any] = {"range": {}, "kernel": {}}
    for row in found.rows:
        values[row.part][row.name] = {
            "change_pct": row.change_pct,
            "a": _times(row.a),
            "b": _times(row.b),
        }
    return values


def _profile_json(found: ProfileComparison) -> bytes:
    """One document, indented by 2."""
    document: compared_documents.DiffProfiles = {
        "schema_version": SCHEMA_VERSION,
        "a": _profile_side(found.a),
        "b": _profile_side(found.b),
        "rows": [
            {
                "part": row.part,
                "name": row.name,
                "a": _times(row.a),
                "b": _times(row.b),
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


PROFILE_WRITERS: Final[Mapping[str, ProfileWriter]] = {
    "table": _profile_table,
    "csv": _profile_csv,
    "json": _profile_json,
    "md": _profile_markdown,
}


def _profile_cells(row: ProfileRow) -> tuple[str, ...]:
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


def _times(calls: Calls | None) -> compared_documents.ProfileTimes | None:
    if calls is None:
        return None
    return {
        "share_pct": calls.share,
        "calls": calls.count,
        "total_ns": calls.total_ns,
        "mean_us": calls.mean_ns / 1e3,
        "std_us": None if calls.std_ns is None else calls.std_ns / 1e3,
    }


def _profile_side(profile: Profile) -> compared_documents.ProfileSide:
    return {
        "name": profile.name,
        "texts": list(profile.texts),
        "bottleneck": profile.bottleneck,
        "collective_share_of_kernels_pct": profile.collective_share,
    }
