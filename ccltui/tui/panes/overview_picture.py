"""Draw the Overview pane: the first screen, the list of metrics and remarks, or one of them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from ccltui.draw.palette import Ink
from ccltui.draw.planes import Planes
from ccltui.draw.text import wrap
from ccltui.parsers import numbers
from ccltui.tui.moves.overview_rows import (
    chosen_of,
    section_of,
    sections,
    selected_row,
    shows_first_screen,
)
from ccltui.tui.panes import first_screen
from ccltui.tui.panes.metric_lines import add_metrics, by_rank
from ccltui.tui.panes.overview_page import Page
from ccltui.tui.state.finding_rows import findings
from ccltui.tui.state.metric_list import chosen_metric, is_unavailable
from ccltui.tui.state.notes import NoteRow, notes
from ccltui.tui.state.pane_states import OVERVIEW_STATE, Section
from ccltui.tui.state.scene import Scene

if TYPE_CHECKING:
    from ccltui.draw.planes import Planes

WIDE: Final = 160
_SIDE: Final = 76
_NOTE_LINES: Final = 3
_LOOKED_FOR: Final = (
    "Looked, here and below, for traces of PyTorch (.json, also .gz), exports (.sqlite) and text "
    "of nsys, runs, benchmarks and logs of NCCL."
)
_TO_BEGIN: Final = (
    "Check the path. ccltui demo writes a job to look at, ccltui DIR --follow waits for files, and "
    "docs/collect.md shows how to record a job."
)


def paint(scene: Scene, height: int, width: int) -> Planes:
    """Draw the first screen, or the metrics with the selected one by rank where it is wide."""
    planes = Planes.blank(height, width, Ink.TEXT)
    state = OVERVIEW_STATE.of(scene.state)
    if not scene.findings.metrics and not findings(scene):
        planes.put(1, 1, _waiting(scene), Ink.STRONG)
        y = 3
        for note in (*_found_instead(scene), *notes(scene)):
            for line in wrap(note.text, width - 2, most=_NOTE_LINES, indent="  "):
                planes.put(y, 1, line, note.ink)
                y += 1
        return planes
    metric = chosen_metric(scene)
    section = section_of(scene)
    if state.table_open:
        if section is Section.NOTES:
            _put_note(planes, scene)
        elif metric is not None:
            planes.paste(by_rank(scene, metric, height, width, full=True), 0, 0)
        return planes
    if shows_first_screen(scene):
        chosen = {section: chosen_of(scene, section)}
        return first_screen.paint(scene, height, width, chosen, _below(scene))
    side = width >= WIDE and metric is not None
    page = _metrics_page(scene, width - _SIDE if side else width)
    main = page.paint(height, selected_row(scene))
    planes.paste(main, 0, 0)
    planes.listed.update(main.listed)
    if side and metric is not None:
        planes.paste(by_rank(scene, metric, height, _SIDE), 0, width - _SIDE)
    return planes


def _metrics_page(scene: Scene, width: int) -> Page:
    """Return the list of metrics and of remarks, whose rows come after findings and ranks."""
    page, chosen = Page(width), section_of(scene)
    on = {section: chosen_of(scene, section) if section is chosen else None for section in Section}
    sizes = sections(scene)
    first = sum(sizes[one] for one in (Section.FINDINGS, Section.RANKS, Section.CAPTURES))
    add_metrics(page, scene, first, on[Section.METRICS])
    page.blank()
    first += sizes[Section.METRICS]
    for index, note in enumerate(notes(scene)):
        shown = index == on[Section.NOTES]
        page.row(first + index, note.text, note.ink, on=shown, most=_NOTE_LINES)
    return page


def _below(scene: Scene) -> str:
    """Return what is one key away: all metrics, and the remarks."""
    known = scene.findings.metrics
    if not known:
        return "5 lists the files"
    missing = sum(is_unavailable(scene, metric) for metric in known)
    text = f"M: {numbers.counted(len(known), 'metric')}"
    text += f", {missing} unavailable" if missing else ""
    remarks = len(notes(scene))
    return f"{text}; {numbers.counted(remarks, 'remark')}" if remarks else text


def _put_note(planes: Planes, scene: Scene) -> None:
    """Draw one remark in full, with its advice."""
    found = notes(scene)
    if not found:
        return
    note = found[chosen_of(scene, Section.NOTES)]
    y = 0
    for line in wrap(note.text, planes.width - 2, most=planes.height, indent="  "):
        planes.put(y, 1, line, note.ink)
        y += 1
    advice = note.advice or "No fix is known."
    for line in wrap(advice, planes.width - 2, most=planes.height):
        planes.put(y + 1, 1, line, Ink.TEXT)
        y += 1


def _waiting(scene: Scene) -> str:
    if scene.session.phase == "failed":
        return "Nothing can be shown."
    ranks = scene.session.ranks_loaded + scene.session.ranks_partly
    if ranks:
        return f"Computing the first numbers of {numbers.counted(ranks, 'rank')}."
    if scene.session.phase in ("ready", "stopped"):
        return "No trace that can be shown."
    return "Numbers appear as soon as the first rank is read."


def _found_instead(scene: Scene) -> list[NoteRow]:
    """Describe a directory without a usable trace: its files, and why none is one."""
    job = scene.session.job
    if job is None or scene.session.busy or job.ranks:
        return []
    files = job.discovery.files
    kinds = Counter(found.kind.replace("_", " ") for found in files)
    each = [f"{numbers.count(count)} {kind}" for kind, count in kinds.most_common()]
    counts = ", ".join(each) or "no file"
    lines = [NoteRow(_LOOKED_FOR, Ink.TEXT), NoteRow(f"Found {counts}.", Ink.TEXT)]
    if not files:
        lines.append(NoteRow(_TO_BEGIN, Ink.TEXT))
    unread = [
        NoteRow(f"{found.path}: {found.problem}", Ink.DIM) for found in files if found.problem
    ]
    return lines + unread
