"""The summary: every metric with its unit, why one is absent, and one of them rank by rank."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ccltui.draw import numbers
from ccltui.draw.palette import Ink
from ccltui.draw.planes import Planes
from ccltui.draw.spark import spark
from ccltui.draw.table import Column, table
from ccltui.draw.text import wrap
from ccltui.tui.scene import Scene, rank_name
from ccltui.tui.summary_rows import (
    Number,
    RankColumns,
    extremes,
    late_ranks,
    leading,
    rank_columns,
)

if TYPE_CHECKING:
    from metrics.registry import Metric
    from metrics.result import Result

WIDE = 160
_SIDE = 80
_SPARK = 20
_TITLE = 22
_NOTES = 5
_NOTE_LINES = 3
_LEAST_RANKS = 5
_COLUMNS = (
    Column("metric", widest=26),
    Column("value", "right"),
    Column("unit", widest=12),
    Column("min", "right"),
    Column("max", "right"),
    Column("by rank", widest=_SPARK),
)


def paint(scene: Scene, height: int, width: int) -> Planes:
    """Metrics above; below (or beside, when wide) the selected one by rank, then notes."""
    planes = Planes.blank(height, width, Ink.TEXT)
    findings = scene.findings
    if not findings.metrics:
        planes.put(1, 1, _waiting(scene), Ink.STRONG)
        _put_notes(planes, [*_found_instead(scene), *notes(scene)], 3)
        return planes
    metric = findings.metrics[min(scene.state.metric, len(findings.metrics) - 1)]
    if scene.state.table_open:
        planes.paste(_by_rank(scene, metric, height, width), 0, 0)
        return planes
    side = width >= WIDE
    remarks = notes(scene)
    lines = sum(len(wrap(text, width - 2, indent="  ")) for text, _ in remarks[:_NOTES])
    foot = min(lines, _NOTES) + 1 if remarks else 0
    y = _put_metrics(planes, scene, height - foot, width - _SIDE if side else width)
    if side:
        planes.paste(_by_rank(scene, metric, height, _SIDE), 0, width - _SIDE)
    elif height - foot - y > _LEAST_RANKS:
        planes.paste(_by_rank(scene, metric, height - foot - y - 1, width), y + 1, 0)
        y = height - foot
    _put_notes(planes, remarks, y + 1)
    return planes


def _waiting(scene: Scene) -> str:
    if scene.session.phase == "failed":
        return "Nothing can be shown."
    if scene.session.ranks_loaded:
        return f"Computing the first numbers of {scene.session.ranks_loaded} ranks."
    if scene.session.phase in ("ready", "stopped"):
        return "No trace that can be shown."
    return "Numbers appear as soon as the first rank is read."


def _found_instead(scene: Scene) -> list[tuple[str, Ink]]:
    """What lies in a directory without a trace that can be shown, and why it is not one."""
    job = scene.session.job
    if job is None or scene.session.busy or job.ranks:
        return []
    files = job.discovery.files
    kinds = Counter(found.kind.replace("_", " ") for found in files)
    counts = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common()) or "no file"
    lines = [(f"Found {counts}.", Ink.TEXT)]
    return lines + [(f"{found.path}: {found.problem}", Ink.DIM) for found in files if found.problem]


def _put_metrics(planes: Planes, scene: Scene, height: int, width: int) -> int:
    """The table of metrics, scrolled to the selected one; returns the row after it."""
    rows = [_row(scene, metric) for metric in scene.findings.metrics]
    lag = scene.findings.results.get("straggler_lag")
    late = "" if lag is None else late_ranks(lag)
    room = max(height - (2 if late else 1), 1)
    chosen = min(scene.state.metric, len(rows) - 1)
    first = max(min(chosen - room // 2, len(rows) - room), 0)
    lines = table(_COLUMNS, [row.cells for row in rows], width - 2)
    planes.put(0, 1, lines[0], Ink.DIM)
    y = 1
    for index in range(first, min(first + room, len(rows))):
        row, on = rows[index], index == chosen
        ink = Ink.LABEL_ON if on else row.ink
        planes.put(y, 0, "▶" if on else " ", ink)
        planes.put(y, 1, lines[1 + index].ljust(width - 1), ink)
        if row.text:
            at = 1 + _TITLE + 2
            planes.put(y, at, row.text[: width - at], ink)
        y += 1
    if late:
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
        return _Row((title, "…", "", "", "", ""), Ink.DIM)
    if result.status == "unavailable":
        reason = result.reasons[0].message if result.reasons else "no reason given"
        return _Row((title, "", "", "", "", ""), Ink.DIM, f"--  absent: {reason}")
    labels = tuple(scene.findings.lanes)
    columns = rank_columns(result, labels)
    column = columns.get(leading(columns, metric.headline) or "", {})
    low, high = ("", "")
    ends = extremes(column)
    if ends is not None:
        low, high = (f"{numbers.quantity(value)} {rank_name(label)}" for label, value in ends)
    sign = " !" if result.status == "partial" else ""
    return _Row(
        (
            title,
            numbers.quantity(result.value) + sign,
            metric.unit,
            low,
            high,
            spark([column.get(label) for label in labels], _SPARK),
        )
    )


def _by_rank(scene: Scene, metric: Metric, height: int, width: int) -> Planes:
    """The selected metric rank by rank, as many columns as fit."""
    planes = Planes.blank(height, width, Ink.TEXT)
    result = scene.findings.results.get(metric.name)
    labels = tuple(scene.findings.lanes)
    planes.put(0, 1, f"{metric.title}, by rank".ljust(width - 1), Ink.STRONG)
    columns = {} if result is None else rank_columns(result, labels)
    if not columns:
        planes.put(1, 1, _no_columns(result)[: width - 1], Ink.DIM)
        return planes
    first = leading(columns, metric.headline)
    names = sorted(columns, key=lambda name: name != first)  # the headline's own comes first
    rows = [_rank_row(label, names, columns) for label in labels]
    layout = [Column("rank", widest=24), *(Column(name, "right", 28) for name in names)]
    lines = table(layout, rows, width - 2)
    planes.put(1, 1, lines[0], Ink.DIM)
    start = min(scene.state.first_rank, max(len(rows) - height + 2, 0))
    shown = lines[1 + start : 1 + start + height - 2]
    for index, line in enumerate(shown):
        planes.put(2 + index, 1, line, Ink.TEXT)
    left = len(rows) - start - len(shown)
    if left > 0 and shown:
        planes.put(height - 1, 1, f"… {left + 1} more ranks: enter opens all".ljust(width), Ink.DIM)
    return planes


def _no_columns(result: Result | None) -> str:
    if result is None:
        return "not computed yet"
    if result.status == "unavailable":
        return "absent: " + (result.reasons[0].message if result.reasons else "no reason given")
    return "one number for the whole job"


def _rank_row(label: str, names: Sequence[str], columns: RankColumns) -> list[str]:
    cells: list[Number] = [columns[name].get(label) for name in names]
    return [rank_name(label), *(numbers.quantity(cell) for cell in cells)]


def notes(scene: Scene) -> list[tuple[str, Ink]]:
    """What went wrong or is uncertain: failed files, then what the readers and metrics say."""
    job = scene.session.job
    if job is None:
        return [(f"x {scene.session.problem}", Ink.ERROR)] if scene.session.problem else []
    found = [(f"! {remark}", Ink.WARNING) for remark in _remarks(scene)]
    found += [(f"x {failure.error}", Ink.ERROR) for failure in job.failures]
    if job.card_problem:
        found.append((f"x workload card: {job.card_problem}", Ink.ERROR))
    found += [(f"! {note.message}", Ink.WARNING) for note in job.notes]
    for trace in job.ranks:
        found += [
            (f"! {rank_name(trace.label)}: {note.message}", Ink.WARNING) for note in trace.notes
        ]
    return found


def _remarks(scene: Scene) -> list[str]:
    """What the selected metric has to say about its own number."""
    metrics = scene.findings.metrics
    if not metrics:
        return []
    metric = metrics[min(scene.state.metric, len(metrics) - 1)]
    result = scene.findings.results.get(metric.name)
    if result is None:
        return []
    said = [reason.message for reason in result.reasons] + list(result.warnings)
    known = [] if scene.session.job is None else scene.session.job.failures
    return [
        f"{metric.title}: {text}"
        for text in dict.fromkeys(said)
        if not any(failure.error in text for failure in known)  # those have a line of their own
    ]


def _put_notes(planes: Planes, remarks: Sequence[tuple[str, Ink]], y: int) -> None:
    """Remarks from a row on; those that find no room are counted."""
    for index, (text, ink) in enumerate(remarks):
        last = index == len(remarks) - 1
        room = planes.height - y - (0 if last else 1)
        if room <= 0:
            planes.put(y, 1, f"… {len(remarks) - index} more notes", Ink.DIM)
            return
        most = min(room, _NOTE_LINES)
        for line in wrap(text, planes.width - 2, most=most, indent="  "):
            planes.put(y, 1, line, ink)
            y += 1
