"""Write a comparison of two runs as text, csv and json."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from decimal import ROUND_HALF_UP, Decimal
from typing import TYPE_CHECKING, Any, Final

from ccltui.metrics.compare.comparable import Check, Comparability
from ccltui.metrics.compare.compare_runs import Comparison, Row
from ccltui.parsers.numbers import decimal_size
from ccltui.parsers.safe_text import safe_text
from ccltui.report.csv_text import csv_text
from ccltui.report.printable_json import json_bytes
from ccltui.report.result_rows import cell_text
from ccltui.report.text_layout import escaped, markdown_table, table, text_bytes

if TYPE_CHECKING:
    from ccltui.schemas.comparisons import ComparedField, RunComparability, RunRow

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
