"""Comparisons of traces as table, markdown, csv and JSON, whose values gates test."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct, to_builtins

from ccltui.metrics.compare.compare_jobs import REMAINDER, JobComparison
from ccltui.metrics.compare.job_changes import CollectiveChange, TimeChange, WorkChange
from ccltui.metrics.compare.job_side import JobTable
from ccltui.metrics.compare.metric_changes import MetricChange
from ccltui.parsers.numbers import decimal_size
from ccltui.report.diff_writers import check_records
from ccltui.report.overview_text import part_name
from ccltui.report.printable_json import json_bytes
from ccltui.report.result_rows import cell_text, csv_text
from ccltui.report.text_layout import Align, escaped, markdown_table, table, text_bytes

if TYPE_CHECKING:
    from ccltui.metrics.compare.job_side import Work
    from ccltui.report import compared_documents

MOST_ROWS: Final = 20
"""Rows of a table of text; csv and json have all of them."""
_NAME_WIDTH: Final = 60
_KINDS: Final = {
    "exposed": "exposed communication, waiting included",
    "idle": "idle, between steps included",
    "step marker": "step marker, slowest rank",
}
_CHANGE_FIRST: Final = ("B - A ms", "percent", "A ms", "B ms")
_NUMBERS: Final = ("A ms", "B ms", "B - A ms", "percent")


class Section(Struct, frozen=True):
    """One table; ``note`` follows it, "" for none."""

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    align: Sequence[Align]
    note: str = ""


def headline(found: JobComparison) -> str:
    """The verdict in one line: step time, its interval, n, and why it is no verdict."""
    row = found.step_time
    text = f"{found.verdict_text}: {row.name}"
    if row.delta is None:
        return f"{found.verdict_text}: no {row.name} ({found.why_unmeasured})" + _because(found)
    text += f" {row.a:.4g} → {row.b:.4g} ms, {_signed(row.delta)} ms"
    text += "" if row.delta_pct is None else f" ({row.delta_pct:+.2f} %)"
    if row.half_width is not None:
        text += f" ± {row.half_width:.3g} ms (95 %{', within one run' if row.is_one_run else ''})"
    if found.a.runs or found.b.runs:
        text += f", {found.a.num_runs} against {found.b.num_runs} runs"
    elif found.by_step and not found.too_few:
        text += f", n = {found.count[0]} against {found.count[1]} steps"
        if found.blocks != found.count and min(found.count) > 0:
            text += f" in {found.blocks[0]} against {found.blocks[1]} independent blocks"
    if row.direction in ("longer", "shorter") and found.verdict not in ("better", "worse"):
        text += f", {row.direction}"
    return text + _because(found)


def _because(found: JobComparison) -> str:
    why = found.why
    if found.verdict == "unknown" and why:
        return f"; neither better nor worse, because {why}"
    return f"; {why}" if why else ""


def sections(found: JobComparison) -> list[Section]:
    """Return the tables in the order of reading; tables without rows are left out."""
    made = [
        _checks(found),
        _times(found),
        _waterfall(found),
        _dimensions(found),
        _stragglers(found),
        _collectives(found),
        _work_section(found, found.kernels, "kernel"),
        _work_section(found, found.operators, "operator"),
        _metrics(found),
    ]
    return [section for section in made if section.rows]


def _checks(found: JobComparison) -> Section:
    rows = [
        (check.name, check.standing, "yes" if check.required else "no", check.a, check.b)
        for check in found.checks.checks
        if check.required or check.a or check.b
    ]
    header = ("property", "standing", "must be equal", "A", "B")
    return Section("comparability", header, rows, ())


def _times(found: JobComparison) -> Section:
    rows = [
        (_KINDS.get(row.name, row.name), *_numbers(row), _width(row), row.direction)
        for row in (found.step_time, *found.kinds, *([found.markers] if found.markers else []))
    ]
    header = ("time of a step" if found.by_step else "time", *_NUMBERS, "± 95 %", "change")
    notes = [f"No interval: {found.too_few}."] if found.too_few else []
    notes += (
        ["± is the spread within one run: no difference is called a change."]
        if found.is_unjudged
        else []
    )
    note = " ".join(notes)
    return Section("time", header, rows, _align(1, 5), note)


def _waterfall(found: JobComparison) -> Section:
    whole = found.step_time
    rows = [
        (shown_part(row.part), _ms(row.a), _ms(row.b), _signed(row.delta))
        for row in found.waterfall
    ]
    if rows and whole.a is not None and whole.b is not None and whole.delta is not None:
        rows.append((f"= {whole.name}", _ms(whole.a), _ms(whole.b), _signed(whole.delta)))
    return Section("waterfall", ("part", *_NUMBERS[:3]), rows, _align(1, 3))


def _dimensions(found: JobComparison) -> Section:
    rows = [
        (
            row.dim,
            *_numbers(row.exposed)[:3],
            _count(row.calls[0]),
            _count(row.calls[1]),
            _bytes(row.message_bytes[0]),
            _bytes(row.message_bytes[1]),
        )
        for row in found.dimensions
    ]
    header = ("exposed by dimension", *_NUMBERS[:3], "A calls", "B calls", "A bytes", "B bytes")
    return Section("dimensions", header, rows, _align(1, 7))


def _stragglers(found: JobComparison) -> Section:
    rows = [(f"rank {row.name}", *_numbers(row)[:3]) for row in found.stragglers[:MOST_ROWS]]
    return Section("stragglers", ("wait caused by", *_NUMBERS[:3]), rows, _align(1, 3))


def _collectives(found: JobComparison) -> Section:
    rows = [
        (
            *_change_first(row.time),
            row.key.operation,
            row.key.dim,
            str(row.key.group_size) if row.key.group_size > 0 else "",
            decimal_size(row.key.message_bytes) if row.key.message_bytes >= 0 else "",
            _count(row.calls[0]),
            _count(row.calls[1]),
        )
        for row in found.collectives[:MOST_ROWS]
    ]
    header = (*_CHANGE_FIRST, "collective", "dim", "ranks", "size", "A calls", "B calls")
    align = (*_align(0, 4), *_align(2, 4))
    return Section("collectives", header, rows, align, _more(len(found.collectives)))


def _work_section(found: JobComparison, works: Sequence[WorkChange], what: str) -> Section:
    """Rows of device work: the differences first, since names may be wider than a terminal."""
    rows = [
        (
            *_change_first(row.time),
            _short(row.key[0] or f"(no {what})"),
            _short(row.key[1]),
            row.status,
            _width(row.time),
            *(_count(0 if one is None else one.calls) for one in (row.a, row.b)),
            _spread(found, row),
        )
        for row in works[:MOST_ROWS]
    ]
    second = "class" if what == "kernel" else "shapes"
    counts = ("A calls", "B calls", "max/mean")
    header = (*_CHANGE_FIRST, what, second, "change", "± 95 %", *counts)
    basis = "ms of a rank in a step" if found.by_step else "ms, the sum of all ranks"
    note = (
        f"{basis}; max/mean: the longest rank over the mean of ranks. {_more(len(works))}".strip()
    )
    return Section(f"{what}s", header, rows, (*_align(0, 4), *_align(3, 4)), note)


def _metrics(found: JobComparison) -> Section:
    rows = [
        (
            row.name,
            _quantity(row.a),
            _quantity(row.b),
            "" if row.delta is None else f"{row.delta:+.4g}",
            row.unit,
            "" if row.half_width is None else f"{row.half_width:.3g}",
            row.direction,
        )
        for row in found.metrics
    ]
    header = ("metric", "A", "B", "B - A", "unit", "± 95 %", "change")
    align = (*_align(1, 3), *_align(1, 1))
    return Section("metrics", header, rows, align)


def _quantity(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}"


def _change_first(row: TimeChange) -> tuple[str, str, str, str]:
    of_a, of_b, delta, percent = _numbers(row)
    return delta, percent, of_a, of_b


def _spread(found: JobComparison, row: WorkChange) -> str:
    sides = ((row.a, found.a), (row.b, found.b))
    texts = []
    for work, side in sides:
        ratio = None if work is None else work.imbalance(side.num_ranks)
        texts.append("" if ratio is None else f"{ratio:.2f}")
    return " → ".join(texts) if all(texts) else "".join(texts)


def _numbers(row: TimeChange) -> tuple[str, str, str, str]:
    percent = "" if row.delta_pct is None else f"{row.delta_pct:+.2f}"
    delta = "" if row.delta is None else _signed(row.delta)
    return _ms(row.a), _ms(row.b), delta, percent


def _width(row: TimeChange) -> str:
    return "" if row.half_width is None else f"{row.half_width:.3f}"


def _ms(value: float | None) -> str:
    return "" if value is None else f"{_rounded(value):,.3f}"


def _signed(value: float) -> str:
    return f"{_rounded(value):+,.3f}"


def _rounded(value: float) -> float:
    return round(value, 3) + 0.0  # no minus before a zero


def _count(value: float) -> str:
    return f"{value:,.0f}" if value == round(value) else f"{value:,.2f}"


def _bytes(value: float) -> str:
    return decimal_size(value) if value else ""


def shown_part(part: tuple[str, str]) -> str:
    """Return a part of a step in words."""
    if part == REMAINDER:
        return "steps of some ranks only"
    return part_name({"kind": part[0], "part": part[1]})


def _short(text: str) -> str:
    return text if len(text) <= _NAME_WIDTH else f"{text[: _NAME_WIDTH - 1]}…"


def _more(number: int) -> str:
    return f"{number - MOST_ROWS:,} more rows in json and csv." if number > MOST_ROWS else ""


def _align(left: int, right: int) -> tuple[Align, ...]:
    names: tuple[Align, Align] = ("left", "right")
    return (names[0],) * left + (names[1],) * right


_NAME: Final = re.compile(r"[\s:]+")
SCHEMA_VERSION: Final = 1
BASIS: Final = {
    "delta": "B minus A",
    "change": "the difference where it is beyond the noise that is known, 0 where it is not, null "
    "where none is known; of one run a side without --runs-vary the noise within the runs alone",
    "direction": "longer or shorter beyond the noise, that between runs included; null where it is "
    "unknown, as of one run a side without --runs-vary",
    "half_width": "half of the 95 % interval of the difference. Of one run a side: within the "
    "runs, studentised bootstrap over steps; for kernels and operators the intervals hold for all "
    "rows at once. Of several runs: of their means (Welch), for kernels and operators the wider of "
    "both",
    "step_time": "from the end of the device work of one step to that of the next, mean over ranks "
    "and steps; where a side has no device work by steps, the duration of the step marker",
    "step_marker": "avg_iter_time_ms of iter_time: markers on the slowest rank, mean over steps",
    "waterfall": "parts of step_composition, mean over ranks; the remainder is idle time between "
    "the device work of steps",
    "kernels": "mean over ranks and steps; without steps the sum over all ranks",
    "metrics": "with --metrics: value of each side; the interval is that of the steps, where the "
    "value is their mean",
    "by_dimension": "with --metrics: the table of parallelism; calls, bytes and exposed time of a "
    "step where both sides have steps",
    "collectives": "transfer time, the shortest duration of a member, of all groups of the size",
}


def document(found: JobComparison) -> compared_documents.DiffJobs:
    """Return the JSON document, ``schema_version`` 1."""
    return {
        "schema_version": SCHEMA_VERSION,
        "kind": "jobs",
        "a": _side(found.a, found.count[0]),
        "b": _side(found.b, found.count[1]),
        "comparability": {
            "verdict": found.checks.verdict,
            "basis": found.checks.basis or None,
            "differences": [check.sentence for check in found.checks.differences],
            "stated": [check.sentence for check in found.checks.reported],
            "unknown": [check.sentence for check in found.checks.unknown],
            "checks": check_records(found.checks),
        },
        "unit": "ms per step" if found.by_step else "ms of the measured time",
        "step_time": {
            **time_record(found.step_time),
            "num_steps": list(found.count),
            "num_blocks": list(found.blocks),
        },
        "step_marker": None if found.markers is None else time_record(found.markers),
        "kinds": [time_record(row) for row in found.kinds],
        "waterfall": [
            {
                "part": row.part[1],
                "kind": row.part[0],
                "a_ms": row.a,
                "b_ms": row.b,
                "delta_ms": row.delta,
            }
            for row in found.waterfall
        ],
        "dimensions": [
            {
                "dim": row.dim,
                "exposed_ms": {"a": row.exposed.a, "b": row.exposed.b, "delta": row.exposed.delta},
                "calls": {"a": row.calls[0], "b": row.calls[1]},
                "message_bytes": {"a": row.message_bytes[0], "b": row.message_bytes[1]},
            }
            for row in found.dimensions
        ],
        "kernels": [_kernel(found, row) for row in found.kernels],
        "operators": [_operator(found, row) for row in found.operators],
        "collectives": [_collective(row) for row in found.collectives],
        "stragglers": [{**time_record(row), "rank": row.name} for row in found.stragglers],
        "metrics": [_metric(row) for row in found.metrics],
        "by_dimension": [to_builtins(row) for row in found.by_dimension],
        "verdict": found.verdict,
        "why": found.why or None,
        "is_unjudged": found.is_unjudged,
        "runs_vary_pct": found.runs_vary_pct,
        "basis": BASIS,
    }


def gate_values(found: JobComparison) -> dict[str, Any]:
    """Return the values that conditions test, by name.

    Parts have their names in the tables, with _ between the words.
    """
    kinds = {row.name: time_record(row) for row in found.kinds}
    parts = {
        _NAME.sub("_", shown_part(row.part)): {
            "a_ms": row.a,
            "b_ms": row.b,
            "delta_ms": row.delta,
        }
        for row in found.waterfall
    }
    return {
        "step_time": time_record(found.step_time),
        "step_marker": time_record(found.markers or found.step_time),
        **{f"{name}_time" if name != "exposed" else name: row for name, row in kinds.items()},
        "parts": parts,
        "kernels": _by_name(_kernel(found, row) for row in found.kernels),
        "operators": _by_name(_operator(found, row) for row in found.operators),
        "stragglers": {row.name: time_record(row) for row in found.stragglers},
    }


def time_record(row: TimeChange) -> compared_documents.TimeChange:
    """Return a time of both sides with its difference and interval."""
    known, is_noise = row.is_beyond is not None, row.is_beyond is False
    return {
        "name": row.name,
        "a_ms": row.a,
        "b_ms": row.b,
        "delta_ms": row.delta,
        "delta_pct": row.delta_pct,
        "half_width_ms": row.half_width,
        "change_ms": (0.0 if is_noise else row.delta) if known else None,
        "change_pct": (0.0 if is_noise else row.delta_pct) if known else None,
        "direction": row.direction or None,
    }


def _by_name(
    rows: Iterable[compared_documents.WorkChange],
) -> dict[str, compared_documents.WorkChange]:
    """Rows by name; of several with one name the one that is listed first."""
    values: dict[str, compared_documents.WorkChange] = {}
    for row in rows:
        values.setdefault(row["name"], row)
    return values


def _kernel(found: JobComparison, row: WorkChange) -> compared_documents.KernelChange:
    return {**_work(found, row), "class": row.key[1] or None}


def _operator(found: JobComparison, row: WorkChange) -> compared_documents.OperatorChange:
    return {**_work(found, row), "shapes": row.key[1] or None}


def _work(found: JobComparison, row: WorkChange) -> compared_documents.WorkChange:
    return {
        **time_record(row.time),
        "name": row.key[0],
        "status": row.status or None,
        "a": _work_of(row.a, found.a),
        "b": _work_of(row.b, found.b),
    }


def _work_of(work: Work | None, table: JobTable) -> compared_documents.WorkOfSide | None:
    if work is None:
        return None
    return {
        "calls": work.calls,
        "total_ms": work.total_ns / 1e6,
        "mean_us": work.total_ns / 1e3 / work.calls if work.calls else None,
        "imbalance_ratio": work.imbalance(table.num_ranks),
        "num_ranks": len(work.per_rank_ns),
    }


def _collective(row: CollectiveChange) -> compared_documents.CollectiveChange:
    key = row.key
    return {
        **time_record(row.time),
        "operation": key.operation,
        "dim": key.dim,
        "group_size": key.group_size if key.group_size > 0 else None,
        "message_bytes": key.message_bytes if key.message_bytes >= 0 else None,
        "calls": {"a": row.calls[0], "b": row.calls[1]},
    }


def _metric(row: MetricChange) -> compared_documents.MetricChange:
    return {
        "name": row.name,
        "label": row.title,
        "unit": row.unit,
        "a": row.a,
        "b": row.b,
        "delta": row.delta,
        "half_width": row.half_width,
        "direction": row.direction or None,
        "why": row.why or None,
    }


def _side(side: JobTable, num_steps: int) -> compared_documents.JobSide:
    return {
        "name": side.name,
        "job": side.job,
        "num_ranks": side.num_ranks,
        "num_steps": num_steps or None,
        "num_runs": side.num_runs,
        "unavailable": dict(side.missing.items()),
    }


_CSV_HEADER: Final = (
    *("section", "name", "detail", "a_ms", "b_ms", "delta_ms", "delta_pct", "half_width_ms"),
    *("change", "a_calls", "b_calls"),
)


Writer = Callable[[JobComparison], bytes]


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
    record = dict[str, Any](document(found))
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
    return (section, row["name"], detail or "", *numbers, change, *counted)


def write_json(found: JobComparison) -> bytes:
    """One document, indented by 2."""
    return json_bytes(document(found), indent=True)


JOB_WRITERS: Final[Mapping[str, Writer]] = {
    "table": write_table,
    "csv": write_csv,
    "json": write_json,
    "md": write_markdown,
}
