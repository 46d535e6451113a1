"""A comparison of traces as titled tables of text, for terminals and markdown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from ccltui.metrics.compare.compare_jobs import REMAINDER, JobComparison
from ccltui.metrics.compare.job_changes import TimeChange, WorkChange
from ccltui.parsers.numbers import decimal_size
from ccltui.report.overview_text import part_name
from ccltui.report.text_layout import Align

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
        _work(found, found.kernels, "kernel"),
        _work(found, found.operators, "operator"),
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


def _work(found: JobComparison, works: Sequence[WorkChange], what: str) -> Section:
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
    for work, table in sides:
        ratio = None if work is None else work.imbalance(table.num_ranks)
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
