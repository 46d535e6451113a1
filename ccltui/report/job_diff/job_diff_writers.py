"""Write a comparison of traces as table, markdown, csv and json."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

from ccltui.metrics.compare.compare_jobs import JobComparison
from ccltui.report.csv_text import csv_text
from ccltui.report.job_diff.diff_document import document
from ccltui.report.job_diff.diff_sections import headline, sections
from ccltui.report.markdown_text import escaped, markdown_table
from ccltui.report.printable_json import json_bytes
from ccltui.report.result_rows import cell_text
from ccltui.report.text_layout import table, text_bytes

_CSV_HEADER: Final = (
    *("section", "name", "detail", "a_ms", "b_ms", "delta_ms", "delta_pct", "half_width_ms"),
    *("change", "a_calls", "b_calls"),
)


class Writer(Protocol):
    """One output format."""

    def __call__(self, found: JobComparison) -> bytes:
        """The whole comparison in this format."""


def write_table(found: JobComparison) -> bytes:
    """The verdict in one line, then the tables."""
    lines = [f"A  {found.a.name}", f"B  {found.b.name}", headline(found)]
    for section in sections(found):
        lines += ["", *table(section.header, section.rows, align=section.align)]
        lines += [section.note] if section.note else []
    for side, one in (("A", found.a), ("B", found.b)):
        lines += [f"{side} has no {name}: {reason}" for name, reason in one.missing.items()]
    return text_bytes(line.rstrip() for line in lines)


def write_markdown(found: JobComparison) -> bytes:
    """The same tables in markdown."""
    names = (("A", found.a.name), ("B", found.b.name))
    lines = [f"# {escaped(headline(found))}", ""]
    lines += [f"- {side}: {escaped(name)}" for side, name in names]
    for section in sections(found):
        lines += ["", f"## {section.title}", ""]
        lines += markdown_table(section.header, section.rows, section.align)
        lines += ["", escaped(section.note)] if section.note else []
    return text_bytes(lines)


def write_csv(found: JobComparison) -> bytes:
    """Csv with a line per row of every table, unrounded; an absent value is an empty cell."""
    record = document(found)
    rows: list[tuple[str, ...]] = [_CSV_HEADER]
    rows.append(_csv_row("step", record["step_time"]))
    rows += [_csv_row("kind", row) for row in record["kinds"]]
    rows += [_csv_row("straggler", row) for row in record["stragglers"]]
    for section, second in (("kernel", "class"), ("operator", "shapes")):
        rows += [
            _csv_row(section, row, row[second], [(row[s] or {}).get("calls", 0) for s in "ab"])
            for row in record[f"{section}s"]
        ]
    rows += [
        _csv_row(
            "collective",
            row,
            f"{row['dim']}, {row['group_size']} ranks, {row['message_bytes']} bytes",
            [row["calls"][s] for s in "ab"],
        )
        for row in record["collectives"]
    ]
    for part in record["waterfall"]:
        numbers = (cell_text(part[key]) for key in ("a_ms", "b_ms", "delta_ms"))
        rows.append(("part", part["part"], part["kind"], *numbers, "", "", "", "", ""))
    return csv_text(rows).encode()


def _csv_row(
    section: str, row: Mapping[str, Any], detail: str | None = "", calls: Sequence[float] = ()
) -> tuple[str, ...]:
    keys = ("a_ms", "b_ms", "delta_ms", "delta_pct", "half_width_ms")
    numbers = [cell_text(row[key]) for key in keys]
    change = row.get("status") or row["direction"] or ""
    counted = [cell_text(one) for one in calls] or ["", ""]
    return (section, row["name"] or "", detail or "", *numbers, change, *counted)


def write_json(found: JobComparison) -> bytes:
    """One document, indented by 2."""
    return json_bytes(document(found), indent=True)


JOB_WRITERS: Final[Mapping[str, Writer]] = {
    "table": write_table,
    "csv": write_csv,
    "json": write_json,
    "md": write_markdown,
}
