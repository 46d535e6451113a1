"""Draw the Summary pane: largest losses, every metric with its unit or reason, remarks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ccltui.draw import numbers
from ccltui.draw.palette import Ink
from ccltui.draw.planes import Planes
from ccltui.draw.spark import spark
from ccltui.draw.table import Column, table
from ccltui.draw.text import fit, wrap
from ccltui.tui.moves import loss_list
from ccltui.tui.panes.metric_table import by_rank
from ccltui.tui.state.notes import NoteRow, notes
from ccltui.tui.state.own.summary_state import SUMMARY_STATE, Section
from ccltui.tui.state.scene import Scene, rank_name
from ccltui.tui.state.summary_rows import (
    Number,
    extremes,
    fallback,
    late_ranks,
    leading,
    rank_columns,
    spread,
    trend,
)

if TYPE_CHECKING:
    from ccltui.metrics.metric import Metric
    from ccltui.metrics.result import Result

WIDE = 160
_SIDE = 76
_SPARK = 16
_TREND = 14
_TITLE = 22
_WIDEST = 26  # most characters of a title
_NOTES = 5
_NOTE_LINES = 3
_LEAST_RANKS = 5
_LOOKED_FOR = (
    "Looked, here and below, for traces of PyTorch (.json, also .gz), exports (.sqlite) and text "
    "of nsys, runs, benchmarks and logs of NCCL."
)
_COLUMNS = (
    Column("metric", widest=_WIDEST),
    Column("value", "right"),
    Column("unit", widest=12),
    Column("by rank", widest=_SPARK + 2),
    Column("min", "right"),
    Column("max", "right"),
    Column("spread", "right"),
    Column("by step", widest=_TREND),
)
_EMPTY = [""] * (len(_COLUMNS) - 1)


def paint(scene: Scene, height: int, width: int) -> Planes:
    """Draw losses and metrics, below (or beside, when wide) one metric by rank, then notes."""
    planes = Planes.blank(height, width, Ink.TEXT)
    findings, state = scene.findings, SUMMARY_STATE.of(scene.state)
    if not findings.metrics:
        planes.put(1, 1, _waiting(scene), Ink.STRONG)
        found = [NoteRow(text, ink) for text, ink in _found_instead(scene)]
        _put_notes(planes, [*found, *notes(scene)], 3, scene)
        return planes
    metric = findings.metrics[min(state.metric, len(findings.metrics) - 1)]
    if state.table_open:
        if state.section is Section.NOTES:
            _put_note(planes, scene)
        else:
            planes.paste(by_rank(scene, metric, height, width, full=True), 0, 0)
        return planes
    side = width >= WIDE
    remarks = notes(scene)
    lines = sum(len(wrap(note.text, width - 2, indent="  ")) for note in remarks[:_NOTES])
    foot = min(lines, _NOTES) + 1 if remarks else 0
    main = width - _SIDE if side else width
    y = _put_losses(planes, scene, main) + 1
    y = _put_metrics(planes, scene, y, height - foot, main)
    if side:
        planes.paste(by_rank(scene, metric, height - foot, _SIDE), 0, width - _SIDE)
    elif height - foot - y > _LEAST_RANKS:
        planes.paste(by_rank(scene, metric, height - foot - y - 1, width), y + 1, 0)
        y = height - foot
    _put_notes(planes, remarks, height - foot + 1 if foot else y + 1, scene)
    return planes


def _put_losses(planes: Planes, scene: Scene, width: int) -> int:
    """Draw the losses to fix first; return the row after them."""
    planes.put(0, 1, fit(loss_list.heading(scene), width - 1), Ink.DIM)
    found = loss_list.losses(scene)
    own = SUMMARY_STATE.of(scene.state)
    in_section = own.section is Section.LOSSES
    for index, loss in enumerate(found):
        on = in_section and index == (own.loss or 0)
        text = f"{'▶' if on else ' '}{index + 1} {loss['sentence']}"
        ink = Ink.LABEL_ON if on else Ink.STRONG if index == 0 else Ink.TEXT
        planes.put(1 + index, 0, fit(text, width), ink)
        planes.listed[1 + index] = index
    return 1 + len(found)


def _chosen_note(scene: Scene, count: int) -> int:
    """Return the chosen remark of so many; there may be fewer than when it was chosen."""
    own = SUMMARY_STATE.of(scene.state)
    return min(own.note, count - 1) if own.section is Section.NOTES else -1


def _put_note(planes: Planes, scene: Scene) -> None:
    """Draw one remark in full, with its advice."""
    found = notes(scene)
    if not found:
        return
    note = found[min(SUMMARY_STATE.of(scene.state).note, len(found) - 1)]
    y = 0
    for line in wrap(note.text, planes.width - 2, most=planes.height, indent="  "):
        planes.put(y, 1, line, note.ink)
        y += 1
    advice = note.advice or "Nothing is known that could be done about it."
    for line in wrap(advice, planes.width - 2, most=planes.height):
        planes.put(y + 1, 1, line, Ink.TEXT)
        y += 1


def _waiting(scene: Scene) -> str:
    if scene.session.phase == "failed":
        return "Nothing can be shown."
    ranks = scene.session.ranks_loaded + scene.session.ranks_partly
    if ranks:
        return f"Computing the first numbers of {ranks} ranks."
    if scene.session.phase in ("ready", "stopped"):
        return "No trace that can be shown."
    return "Numbers appear as soon as the first rank is read."


def _found_instead(scene: Scene) -> list[tuple[str, Ink]]:
    """Describe a directory without a usable trace: its files, and why none is one."""
    job = scene.session.job
    if job is None or scene.session.busy or job.ranks:
        return []
    files = job.discovery.files
    kinds = Counter(found.kind.replace("_", " ") for found in files)
    counts = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common()) or "no file"
    lines = [(_LOOKED_FOR, Ink.TEXT), (f"Found {counts}.", Ink.TEXT)]
    return lines + [(f"{found.path}: {found.problem}", Ink.DIM) for found in files if found.problem]


def _put_metrics(planes: Planes, scene: Scene, y: int, end: int, width: int) -> int:
    """Draw the table of metrics, scrolled to the selected one; return the row after it."""
    rows = [_row(scene, metric) for metric in scene.findings.metrics]
    lag = scene.findings.results.get("straggler_lag")
    late = "" if lag is None else late_ranks(lag)
    room = max(end - y - (2 if late else 1), 1)
    own = SUMMARY_STATE.of(scene.state)
    chosen = min(own.metric, len(rows) - 1)
    first = max(min(chosen - room // 2, len(rows) - room), 0)
    lines = table(_COLUMNS, [row.cells for row in rows], width - 2)
    planes.put(y, 1, lines[0], Ink.DIM)
    y += 1
    at = 3 + min(max(len(row.cells[0]) for row in rows), _WIDEST)
    in_section, above = own.section is Section.METRICS, len(loss_list.losses(scene))
    for index in range(first, min(first + room, len(rows))):
        row, on = rows[index], in_section and index == chosen
        ink = Ink.LABEL_ON if on else row.ink
        planes.put(y, 0, "▶" if on else " ", ink)
        planes.put(y, 1, lines[1 + index].ljust(width - 1), ink)
        if row.text:
            planes.put(y, at, fit(row.text, width - at), ink)
        planes.listed[y] = above + index
        y += 1
    if late and y < end:
        planes.put(y, 1, f"{'arrived last'.ljust(_TITLE)}  {late}"[: width - 1], Ink.TEXT)
        y += 1
    return y


@dataclass(frozen=True, slots=True)
class _Row:
    cells: Sequence[str]
    ink: Ink = Ink.TEXT
    text: str = ""


def _row(scene: Scene, metric: Metric) -> _Row:
    result = scene.findings.results.get(metric.name)
    title = metric.title.ljust(_TITLE)
    if result is None:
        return _Row((title, "…", *_EMPTY[1:]), Ink.DIM)
    if result.status == "unavailable":
        reason = result.reasons[0].message if result.reasons else "no reason given"
        return _Row((title, *_EMPTY), Ink.DIM, f"--  absent: {reason}")
    sign = " !" if result.status == "partial" else ""
    value = numbers.quantity(result.value) + sign
    steps = spark(trend(result, metric.headline), _TREND)
    return _Row((title, value, result.unit, *_ranks(scene, metric, result), steps))


def _ranks(scene: Scene, metric: Metric, result: Result) -> tuple[str, str, str, str]:
    """Return sparkline, minimum, maximum and spread; of another number a sparkline in brackets."""
    labels = tuple(scene.findings.lanes)
    columns = rank_columns(result, labels)
    own = leading(columns, metric.headline)
    if own is None:
        other = fallback(columns)
        return "" if other is None else f"({_picture(columns[other], labels)})", "", "", ""
    column = columns[own]
    ends, wide = extremes(column), spread(column)
    low, high = ("", "")
    if ends is not None:
        low, high = (f"{numbers.quantity(value)} {rank_name(label)}" for label, value in ends)
    return _picture(column, labels), low, high, "" if wide is None else f"{wide:.1%}"


def _picture(column: Mapping[str, Number], labels: Sequence[str]) -> str:
    return spark([column.get(label) for label in labels], _SPARK)


def _put_notes(planes: Planes, remarks: Sequence[NoteRow], y: int, scene: Scene) -> None:
    """Draw remarks from a row on, with the chosen one; count those that do not fit."""
    chosen = _chosen_note(scene, len(remarks))
    above = len(loss_list.losses(scene)) + len(scene.findings.metrics)
    begin = _first_note(remarks, planes.height - y, planes.width, chosen)
    for index, note in enumerate(remarks[begin:], begin):
        last = index == len(remarks) - 1
        room = planes.height - y - (0 if last else 1)
        if room <= 0:
            text = f"… {len(remarks) - index} more notes: G, then enter"
            planes.put(y, 1, text, Ink.DIM)
            return
        most = min(room, _NOTE_LINES)
        for line in wrap(note.text, planes.width - 2, most=most, indent="  "):
            on = index == chosen
            planes.put(y, 0, "▶" if on else " ", note.ink)
            planes.put(y, 1, line, Ink.LABEL_ON if on else note.ink)
            planes.listed[y] = above + index
            y += 1


def _first_note(remarks: Sequence[NoteRow], room: int, width: int, chosen: int) -> int:
    """Return the first remark to show so that the chosen one fits."""
    used = int(chosen < len(remarks) - 1)  # the line with the number of the others
    first = max(chosen, 0)
    for index in range(chosen, -1, -1):
        used += len(wrap(remarks[index].text, width - 2, most=_NOTE_LINES, indent="  "))
        if used > room:
            break
        first = index
    return first
