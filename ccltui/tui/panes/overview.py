"""Draw the Overview pane: verdict, parts of a step, findings, ranks, metrics and remarks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from ccltui.draw import numbers
from ccltui.draw.composition import INKS, Part, legend_rows, put_composition, put_legend
from ccltui.draw.palette import Ink
from ccltui.draw.planes import Planes
from ccltui.draw.table import Column, table
from ccltui.draw.text import wrap
from ccltui.parsers.units import in_ms
from ccltui.report import overview_text
from ccltui.tui.moves import loss_list
from ccltui.tui.moves.overview_rows import chosen_of, section_of, sections, selected_row
from ccltui.tui.panes.overview_parts.metric_lines import add_metrics
from ccltui.tui.panes.overview_parts.metric_table import by_rank
from ccltui.tui.panes.overview_parts.overview_page import Drawn, Page
from ccltui.tui.state.figures.metric_list import chosen_metric
from ccltui.tui.state.figures.rank_board import BoardRow, board
from ccltui.tui.state.notes import NoteRow, notes, trust
from ccltui.tui.state.own.overview_state import OVERVIEW_STATE, Section
from ccltui.tui.state.scene import Scene, rank_name

WIDE: Final = 160
_SIDE: Final = 76
_WITH_TIMES: Final = 110
"""Least width at which the legend of the step has times beside shares."""
_LEAST_SHARE: Final = 0.001
"""Least share of a part whose figure is in the legend: smaller ones would read 0.0 %."""
_NOTE_LINES: Final = 3
_LOOKED_FOR: Final = (
    "Looked, here and below, for traces of PyTorch (.json, also .gz), exports (.sqlite) and text "
    "of nsys, runs, benchmarks and logs of NCCL."
)
_BOARD: Final = (
    Column("ranks, worst first"),
    Column("busy", "right"),
    Column("wait caused", "right"),
    Column("wait suffered", "right"),
    Column("clock", "right"),
)


def paint(scene: Scene, height: int, width: int) -> Planes:
    """Draw the page, and beside it, where it is wide, the selected metric by rank."""
    planes = Planes.blank(height, width, Ink.TEXT)
    state = OVERVIEW_STATE.of(scene.state)
    if not scene.findings.metrics:
        planes.put(1, 1, _waiting(scene), Ink.STRONG)
        y = 3
        for note in (*_found_instead(scene), *notes(scene)):
            for line in wrap(note.text, width - 2, most=_NOTE_LINES, indent="  "):
                planes.put(y, 1, line, note.ink)
                y += 1
        return planes
    metric = chosen_metric(scene)
    if state.table_open:
        if state.section is Section.NOTES:
            _put_note(planes, scene)
        elif metric is not None:
            planes.paste(by_rank(scene, metric, height, width, full=True), 0, 0)
        return planes
    side = width >= WIDE and metric is not None
    page = _page(scene, width - _SIDE if side else width)
    main = page.paint(height, selected_row(scene))
    planes.paste(main, 0, 0)
    planes.listed.update(main.listed)
    if side and metric is not None:
        planes.paste(by_rank(scene, metric, height, _SIDE), 0, width - _SIDE)
    return planes


def _page(scene: Scene, width: int) -> Page:
    page, chosen = Page(width), section_of(scene)
    on = {section: chosen_of(scene, section) if section is chosen else None for section in Section}
    sizes = sections(scene)
    _add_findings(page, scene, on[Section.FINDINGS])
    remark = trust(scene)
    page.text(remark.text, remark.ink)
    first = sizes[Section.FINDINGS]
    _add_board(page, board(scene), first, on[Section.RANKS])
    if left_out := overview_text.one_sided_wait(scene.findings.results):
        page.text(left_out, Ink.DIM)
    page.blank()
    first += sizes[Section.RANKS]
    add_metrics(page, scene, first, on[Section.METRICS])
    page.blank()
    first += sizes[Section.METRICS]
    for index, note in enumerate(notes(scene)):
        shown = index == on[Section.NOTES]
        page.row(first + index, note.text, note.ink, on=shown, most=_NOTE_LINES)
    return page


def _add_findings(page: Page, scene: Scene, chosen: int | None) -> None:
    """Add the verdict, the step with its parts, then what costs time, the largest first."""
    found = loss_list.findings(scene)
    begins_with_verdict = loss_list.has_culprit(found)
    if begins_with_verdict:
        page.row(0, found[0].text, Ink.STRONG, on=chosen == 0)
    else:
        page.text(loss_list.verdict(scene), Ink.STRONG)
    _add_step(page, scene)
    page.text(loss_list.heading(scene), Ink.DIM)
    for index, finding in enumerate(found):
        if index or not begins_with_verdict:
            number = index + (not begins_with_verdict)
            mark = INKS.get(finding.kind) if scene.colour else None
            text = f"{number} {finding.text}"
            page.row(index, text, Ink.LABEL, on=index == chosen, number=mark)
    page.blank()


def _add_step(page: Page, scene: Scene) -> None:
    text = overview_text.step_time(scene.findings.results)
    if text:
        page.text(text, Ink.TEXT)
    parts = _parts(scene, with_times=page.width >= _WITH_TIMES)
    if not parts:
        return
    width = page.width - 2
    page.add(lambda planes, y: put_composition(planes, y, 1, width, parts, colour=scene.colour))
    listed = [part for part in parts if part.share >= _LEAST_SHARE]
    for row in legend_rows(listed, width):
        page.add(_legend(listed, row, colour=scene.colour))
    if left := len(parts) - len(listed):
        what = "1 part is" if left == 1 else f"{left} parts are"
        page.text(f"{what} below {_LEAST_SHARE:.1%}: see step composition", Ink.DIM)


def _legend(parts: Sequence[Part], row: Sequence[int], *, colour: bool) -> Drawn:
    return lambda planes, y: put_legend(planes, y, 1, parts, row, colour=colour)


def _parts(scene: Scene, *, with_times: bool) -> list[Part]:
    """Return the parts of a step with their figures; none while they are not known."""
    details = overview_text.details_of(scene.findings.results, "step_composition")
    found = []
    for row in details.get("parts") or ():
        time = row["step_ms"] if row["step_ms"] is not None else row["ms"]
        figures = f"{in_ms(time)} {row['share']:.1%}" if with_times else f"{row['share']:.1%}"
        name = overview_text.part_name(row)
        found.append(Part(row["kind"], name, figures, row["share"], str(row["part"])))
    return found


def _add_board(page: Page, rows: Sequence[BoardRow], first_row: int, chosen: int | None) -> None:
    if not rows:
        return
    page.blank()
    lines = table(_BOARD, [_board_cells(row) for row in rows], page.width - 2)
    page.line(lines[0], Ink.DIM)
    for index, line in enumerate(lines[1:]):
        page.line(line, Ink.TEXT, row=first_row + index, on=index == chosen)


def _board_cells(row: BoardRow) -> list[str]:
    clock = "--"
    if row.clock_us is not None:
        clock = numbers.signed_duration(round(row.clock_us * 1000))
        if row.residual_us is not None:
            clock += f" ±{numbers.duration(round(row.residual_us * 1000))}"
    return [
        rank_name(row.label),
        "--" if row.busy is None else f"{row.busy:.1%}",
        *(
            "--" if wait is None else numbers.duration(round(wait * 1000))
            for wait in (row.caused_us, row.suffered_us)
        ),
        clock,
    ]


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
    advice = note.advice or "Nothing is known that could be done about it."
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
    counts = ", ".join(f"{count} {kind}" for kind, count in kinds.most_common()) or "no file"
    lines = [NoteRow(_LOOKED_FOR, Ink.TEXT), NoteRow(f"Found {counts}.", Ink.TEXT)]
    unread = [
        NoteRow(f"{found.path}: {found.problem}", Ink.DIM) for found in files if found.problem
    ]
    return lines + unread
