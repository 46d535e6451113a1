"""Draw the drawer: ranks at the selected collective, the cause of the lag, a kernel's block.

The evidence for a cause compares the late rank with its peers. The block is the one that the kernel
under the cursor repeats in, over all repetitions and ranks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from ccltui.draw.alignment_chart import ABSENT
from ccltui.draw.palette import KIND_INKS, Ink, filled, style_of
from ccltui.draw.planes import HEIGHTS, Planes
from ccltui.draw.text import Column, fit, spark, table, wrap
from ccltui.draw.timeline_chart import merged_row, shaded_row
from ccltui.metrics.compare.step_diff import ADDED, MATCHED, MISSING_HERE
from ccltui.parsers import numbers
from ccltui.report.overview_text import part_name
from ccltui.tui.moves import drawer
from ccltui.tui.moves.loss_list import place_text, shown_finding, sure_of_late_rank
from ccltui.tui.panes import event_drawer
from ccltui.tui.state.pane import drawer_has_keys
from ccltui.tui.state.scene import Scene, rank_name
from ccltui.tui.state.view_state import Shown

if TYPE_CHECKING:
    from ccltui.metrics.compare.step_diff import StepDiff, Waterfall
    from ccltui.metrics.device.repetition import Block, Position
    from ccltui.metrics.findings.causes.evidence import Evidence
    from ccltui.metrics.findings.causes.instance_report import Instance, LagHistory, Member
    from ccltui.parsers.array_types import I64
    from ccltui.tui.state.communicator import Communicator
    from ccltui.tui.state.query_kinds import Detail

MOST_ROWS: Final = 10
_LEAST_BAR: Final = 12
_GAP: Final = "  "


def waterfall_line(found: Waterfall, width: int) -> str:
    """Return the difference and its largest parts; the last figure is the sum of the others."""
    left = sorted(found.changes_ns, key=lambda change: -abs(change[1]))
    text = f"{numbers.signed_duration(found.difference_ns)} ="
    while left:
        term = _term(*left[0])
        rest = sum(ns for _, ns in left[1:])
        ending = f"{_GAP}{_rest(len(left) - 1, rest)}" if left[1:] else ""
        if len(text) + len(term) + len(ending) + 1 > width:
            break
        text += f" {term}" if text.endswith("=") else f"{_GAP}{term}"
        left = left[1:]
    if left:
        text += f"{_GAP}{_rest(len(left), sum(ns for _, ns in left))}"
    return text


def _term(part: tuple[str, str], change_ns: int) -> str:
    name = part[1] if part[0] == "waiting" else _part_name(part)
    return f"{name} {numbers.signed_duration(change_ns)}"


def _rest(count: int, change_ns: int) -> str:
    return f"{count} more {numbers.signed_duration(change_ns)}"


def _part_name(part: tuple[str, str]) -> str:
    return part_name({"kind": part[0], "part": part[1]})


def put_table(planes: Planes, y: int, found: Waterfall, *, colour: bool) -> int:
    """Draw one row a part with both times, the change and a bar; return the next row.

    The last row is the whole difference: the sum of the rows above it.
    """
    changes = found.changes_ns
    rest: list[tuple[tuple[str, str], int]] = []
    if len(changes) > MOST_ROWS:
        by_size = sorted(changes, key=lambda change: -abs(change[1]))
        kept = {part for part, _ in by_size[: MOST_ROWS - 1]}
        rest = [change for change in changes if change[0] not in kept]
        changes = [change for change in changes if change[0] in kept]
    cells = [
        _cells(_part_name(part), found.one.get(part, 0), found.other.get(part, 0))
        for part, _ in changes
    ]
    if rest:
        sides = [sum(side.get(part, 0) for part, _ in rest) for side in (found.one, found.other)]
        cells.append(_cells(numbers.counted(len(rest), "more part"), *sides))
    cells.append(_cells("time on the device", *found.total_ns))
    columns = (
        Column("part", widest=36),
        Column("first", "right"),
        Column("second", "right"),
        Column("change", "right"),
    )
    lines = table(columns, cells, planes.width - 2)
    planes.put(y, 1, lines[0], Ink.DIM)
    x = max(map(len, lines)) + 3
    most = max((abs(ns) for _, ns in changes), default=0)
    for index, text in enumerate(lines[1:]):
        last = index == len(lines) - 2
        planes.put(y + 1 + index, 1, text, Ink.STRONG if last else Ink.TEXT)
        if index < len(changes) and most and planes.width - x >= _LEAST_BAR:
            part, change = changes[index]
            ink = KIND_INKS[part[0]]
            size = round(abs(change) * (planes.width - x) / most)
            glyph = filled(ink, colour=colour)
            planes.put(y + 1 + index, x, glyph * size, style_of(glyph, ink))
    return y + 1 + len(cells)


def _cells(name: str, one_ns: int, other_ns: int) -> list[str]:
    return [
        name,
        numbers.duration(one_ns),
        numbers.duration(other_ns),
        numbers.signed_duration(other_ns - one_ns),
    ]


_SIGN: Final = {MATCHED: "=", ADDED: "+", MISSING_HERE: "-"}
_INK: Final = {MATCHED: Ink.TEXT, ADDED: Ink.WARNING, MISSING_HERE: Ink.ERROR}
_FIXED_CELLS = 56
"""Width of all columns except the names."""
_GUTTER = 14
_LEAST_FOR_CHART = 9
_LEAST_FOR_TABLE = 24
"""Least height at which the parts of the difference are a table, and not one line."""


def paint_comparison(scene: Scene, height: int, width: int) -> Planes:
    """Draw both sides from one zero, then their kernels row by row."""
    planes = Planes.blank(height, width, Ink.TEXT)
    found, parts = drawer.versus(scene), drawer.waterfall(scene)
    planes.put(0, 0, _comparison_title(scene).ljust(width, "─"), Ink.STRONG)
    top = 1
    if parts is not None and height >= _LEAST_FOR_TABLE:
        top = put_table(planes, 1, parts, colour=scene.colour) + 1
    elif parts is not None:
        planes.put(1, 1, waterfall_line(parts, width - 2), Ink.STRONG)
        top = 2
    if found is None:
        why = drawer.comparison_problem(scene) or "matching the kernels of both…"
        planes.put_wrapped(top, why, Ink.DIM)
        return planes
    planes.put(top, 1, fit(_comparison_summary(found), width - 2).rstrip(), Ink.TEXT)
    y = top + 1
    if height - top >= _LEAST_FOR_CHART:
        y = _put_chart(planes, y, scene, found)
    _put_rows(planes, y, scene, found)
    return planes


def _name(side: tuple[str, int | None]) -> str:
    label, step = side
    return rank_name(label) + ("" if step is None else f" it {step}")


def _comparison_title(scene: Scene) -> str:
    versus = scene.state.versus
    if versus is None:
        return "── nothing is compared "
    return f"── {_name(versus.other)} against {_name(versus.one)} "


def _comparison_summary(found: StepDiff) -> str:
    """Describe the number of equal and unequal kernels, and the total time of each."""
    lengths = found.extent_ns(1) - found.extent_ns(0)
    return "   ".join(
        (
            f"length {numbers.signed_duration(lengths)}, kernels:",
            f"= {numbers.count(found.count(MATCHED))} matched "
            f"{numbers.signed_duration(found.total_ns(MATCHED))}",
            f"+ {numbers.count(found.count(ADDED))} added "
            f"{numbers.signed_duration(found.total_ns(ADDED))}",
            f"- {numbers.count(found.count(MISSING_HERE))} missing "
            f"{numbers.signed_duration(found.total_ns(MISSING_HERE))}",
        )
    )


def _put_chart(planes: Planes, y: int, scene: Scene, found: StepDiff) -> int:
    """Draw both sides from their first work on, and their differences; return the next row."""
    cells = planes.width - _GUTTER
    most = max(found.extent_ns(0), found.extent_ns(1), 1)
    edges = np.arange(cells + 1, dtype=np.int64) * most // cells
    for side, one in enumerate(found.sides):
        lane = scene.findings.lanes[one.label]
        planes.put(y + side, 0, f" {_name((one.label, one.step))}"[: _GUTTER - 1], Ink.LABEL)
        own = lane.own(edges + found.origin_ns[side])
        if not scene.colour:
            planes.glyph[y + side, _GUTTER:] = shaded_row(lane, own)
            continue
        glyph, style = merged_row(lane, own)
        planes.glyph[y + side, _GUTTER:], planes.style[y + side, _GUTTER:] = glyph, style
    _put_changes(planes, y + 2, found, edges)
    return y + 3


def _put_changes(planes: Planes, y: int, found: StepDiff, edges: I64) -> None:
    """Draw the extra time of the second side by position, and marks of one-sided kernels."""
    cells, width = len(edges) - 1, max(int(edges[-1]), 1)
    start = np.where(found.dur_ns[0] >= 0, found.start_ns[0], found.start_ns[1])
    place = np.clip(start * cells // width, 0, cells - 1)
    longer = np.bincount(place, np.maximum(found.change_ns, 0), cells)
    planes.put(y, 1, "longer"[: _GUTTER - 2], Ink.DIM)
    if longer.max(initial=0) > 0:
        heights = np.ceil(longer * 8 / longer.max()).astype(np.int64)
        planes.glyph[y, _GUTTER:] = HEIGHTS[heights]
        planes.style[y, _GUTTER:] = Ink.WARNING
    for op in (MISSING_HERE, ADDED):
        for x in np.unique(place[found.op == op]).tolist():
            planes.put(y, _GUTTER + x, _SIGN[op], _INK[op])


def _put_rows(planes: Planes, y: int, scene: Scene, found: StepDiff) -> None:
    """Draw a page of kernels that contains the selected one."""
    columns = (
        Column("", widest=1),
        Column("kernel", widest=max(planes.width - _FIXED_CELLS, 18)),
        Column("change", "right"),
        Column("first", "right"),
        Column("second", "right"),
        Column("stream", "right"),
        Column("at", "right"),
    )
    order, at = drawer.comparison_rows(scene), drawer.row(scene)
    room = max(planes.height - y - 1, 1)
    first = at // room * room
    shown = order[first : first + room]
    lines = table(columns, [_change_row(found, row) for row in shown], planes.width - 2)
    planes.put(y, 1, lines[0], Ink.DIM)
    for offset, (row, line) in enumerate(zip(shown, lines[1:], strict=True)):
        on = first + offset == at and drawer_has_keys(scene)
        planes.put_row(y + 1 + offset, line, _INK[int(found.op[row])], on=on)


def _change_row(found: StepDiff, row: int) -> list[str]:
    durs = found.dur_ns[:, row].tolist()
    side = 0 if durs[0] >= 0 else 1
    return [
        _SIGN[int(found.op[row])],
        found.names[found.name[row]],
        numbers.signed_duration(int(found.change_ns[row])),
        *("" if dur < 0 else numbers.duration(dur) for dur in durs),
        found.streams[found.stream[row]],
        numbers.instant(int(found.start_ns[side, row]), 1_000),
    ]


_FIXED = 54
"""Width of all columns except the names."""


def paint_block(scene: Scene, height: int, width: int) -> Planes:
    """Draw a table of positions that contains the selected one."""
    planes = Planes.blank(height, width, Ink.TEXT)
    block = drawer.repeated_block(scene)
    planes.put(0, 0, _title(block).ljust(width, "─"), Ink.STRONG)
    if block is None:
        why = drawer.comparison_problem(scene) or "looking for repetitions…"
        planes.put_wrapped(1, why, Ink.DIM)
        return planes
    planes.put(1, 1, fit(_summary(block), width - 2).rstrip(), Ink.DIM)
    columns = (
        Column("", "right"),
        Column("kernel", widest=max(width - _FIXED, 20)),
        Column("median", "right"),
        Column("p5-p95", "right"),
        Column("gap after", "right"),
        Column("n", "right"),
    )
    lines = table(columns, [_row(i, one) for i, one in enumerate(block.positions)], width - 2)
    planes.put(2, 1, lines[0], Ink.DIM)
    room = max(height - 3, 1)
    at = drawer.row(scene)
    first = at // room * room
    for y, line in enumerate(lines[1 + first : 1 + first + room], 3):
        on = first + y - 3 == at and drawer_has_keys(scene)
        planes.put_row(y, line, Ink.TEXT, on=on)
    return planes


def _title(block: Block | None) -> str:
    if block is None:
        return "── repeating block "
    length = len(block.positions)
    kernels = f"{numbers.counted(length, 'kernel')}"
    return f"── repeating block of {kernels} on stream {block.stream} "


def _summary(block: Block) -> str:
    ranks = sum(count > 0 for count in block.by_rank.values())
    parts = [
        f"{numbers.counted(block.repetitions, 'repetition')} on {ranks} of "
        f"{numbers.counted(len(block.by_rank), 'rank')}",
        f"one every {numbers.duration(block.period_ns)} (median)",
    ]
    if block.others:
        parts.append(f"{numbers.count(block.others)} begin alike and go on differently")
    return "   ".join(parts)


def _row(place: int, one: Position) -> list[str]:
    return [
        str(place + 1),
        one.name,
        numbers.duration(one.median_ns),
        f"{numbers.duration(one.p5_ns)}-{numbers.duration(one.p95_ns)}",
        numbers.duration(one.gap_ns),
        numbers.count(one.count),
    ]


_TREND = "in order of time  "
_MOST_CELLS = 80
_SHOWN = 3


def evidence_lines(evidence: Evidence, last: str) -> list[str]:
    """Describe what the last rank spent more time on since it last waited with its peers."""
    if evidence.since is None:
        return []
    own, peers = evidence.segment_ns, round(evidence.peers_segment_ns)
    found = [
        f"since they last waited for each other: {rank_name(last)} {numbers.duration(own)}, "
        f"its peers {numbers.duration(peers)} (median)"
    ]
    parts = [
        f"{name.replace('_', ' ')} {numbers.signed_duration(round(ns))}"
        for name, ns in list(evidence.parts_ns.items())[:_SHOWN]
    ]
    found += [f"against its peers: {', '.join(parts)}"] if parts else []
    found += [
        f"{numbers.signed_duration(round(one.more_ns))} in {one.late_count} of {one.name}, "
        f"its peers have {one.peers_count:g}"
        for one in evidence.kernels[:_SHOWN]
    ]
    found += [f"host: {numbers.duration(one.dur_ns)} in {one.name}" for one in evidence.host]
    return found


def history_lines(history: LagHistory, width: int) -> list[str]:
    """Describe lags of the ranks at all collectives of this kind: distribution and trend."""
    count, median = numbers.count(len(history.trend_ns)), numbers.duration(history.median_ns)
    low, high = (numbers.duration(int(history.edges_ns[i])) for i in (0, -1))
    bars = spark([count or None for count in history.counts.tolist()], len(history.counts))
    trend = spark(history.trend_ns.tolist(), max(min(width - len(_TREND), _MOST_CELLS), 8))
    return [
        f"lag of {count} such calls: median {median}  {low} {bars} {high}",
        f"{_TREND}{trend}",
    ]


_COLUMNS = (
    Column("rank", widest=24),
    Column("arrived", "right"),
    Column("waited", "right"),
    Column("dur", "right"),
    Column("busbw", "right"),
    Column("", widest=6),
    Column("mostly before it", widest=40),
    Column("host", widest=24),
)
_LEAST_RANKS = 3
_WHY_LINES = 3
_MOST_LINES = 3
"""Most lines of one sentence, where there is room."""
_LEAST_BELOW = 8
"""Rows that the collective keeps below the sentences of a finding: title, ranks and cause."""
_TALL = 24
"""Rows from which there is room for evidence, however many ranks there are."""


def paint(scene: Scene, height: int, width: int) -> Planes:
    """Draw ranks by arrival, then cause and blame chain, or the drawer's other contents."""
    if drawer.shows(scene, Shown.BLOCK):
        return paint_block(scene, height, width)
    if drawer.shows(scene, Shown.VERSUS):
        return paint_comparison(scene, height, width)
    if drawer.shows(scene, Shown.EVENT):
        return event_drawer.paint_event(scene, height, width)
    if drawer.shows(scene, Shown.CHAIN):
        return event_drawer.paint_chain(scene, height, width)
    shown = _finding_lines(scene, width - 2, height)
    planes = Planes.blank(height, width, Ink.TEXT)
    for y, line in enumerate(shown):
        planes.put(y, 1, line, Ink.HIT if not y else Ink.TEXT)
    planes.paste(_collective(scene, height - len(shown), width), len(shown), 0)
    return planes


def _finding_lines(scene: Scene, width: int, height: int) -> list[str]:
    """Return number, name and sentences of the finding that the cursor is at the place of.

    Several findings may have their largest instance at one collective: the ranks and the cause
    below are the same for all of them.
    """
    found = shown_finding(scene)
    most = height - _LEAST_BELOW
    if found is None or most < 2:
        return []
    text = f"{found['text']} {found['more']}".rstrip()
    lines = wrap(text, width, most=min(_MOST_LINES, most - 1))
    return [fit(place_text(scene), width).rstrip(), *lines]


def _collective(scene: Scene, height: int, width: int) -> Planes:
    """Draw the selected collective rank by rank, and the cause of its lag."""
    planes = Planes.blank(height, width, Ink.TEXT)
    if scene.collective is None:
        planes.put(0, 1, "no collective is selected", Ink.DIM)
        return planes
    communicator, k = scene.collective
    found = drawer.described(scene)
    instance = None if found is None else found.instance
    _put_title(planes, scene, communicator, k, instance)
    chain = () if instance is None else instance.chain_sentences
    tall = height >= _TALL
    links = _links(chain, width - 3, tall=tall) if len(chain) > 1 else []
    room = max(height - 2 - _LEAST_RANKS, 1)
    why = _why(scene, instance, width - 2)[: max(room - len(links), 1)]
    spare = height - 3 - len(drawer.arrivals(scene)) - len(why) - len(links)
    more = _more(found, width - 2, tall=tall)
    more = more[: max(spare, len(more) if tall else 0, 0)]
    links = links[: max(room - len(why), 0)]
    ranks = _ranks(scene, communicator, k, instance)
    below = len(why) + len(links) + len(more)
    _put_ranks(planes, scene, ranks, height - below)
    y = min(height - below, len(ranks) + 3)
    for line in why:
        planes.put(y, 1, line, Ink.STRONG if instance is not None else Ink.DIM)
        y += 1
    chosen = drawer.row(scene) - len(communicator.labels) if drawer_has_keys(scene) else -1
    for index, text in links:
        planes.put_row(y, text, Ink.TEXT, on=index == chosen)
        y += 1
    for line in more:
        planes.put(y, 1, line, Ink.DIM)
        y += 1
    return planes


def _put_title(
    planes: Planes, scene: Scene, communicator: Communicator, k: int, instance: Instance | None
) -> None:
    kind = communicator.kind[communicator.kind_id[k]]
    size, step = int(communicator.message_bytes[k]), int(communicator.step[k])
    dtype = "" if instance is None or instance.dtype is None else f" {instance.dtype}"
    parts = [
        f"{communicator.name} {kind} #{numbers.count(k)}",
        "" if size < 0 else numbers.binary_size(size) + dtype,
        "" if step < 0 else f"it {step}",
        "" if instance is None else f"matched by {instance.method}",
    ]
    text = "── " + "  ".join(part for part in parts if part) + " "
    ink = Ink.STRONG if drawer_has_keys(scene) else Ink.RULER
    planes.put_fitted(0, 0, text.ljust(planes.width, "─"), ink)


def _ranks(
    scene: Scene, communicator: Communicator, k: int, instance: Instance | None
) -> list[tuple[str, list[str]]]:
    """Return label and cells of every rank, the last to arrive first."""
    known = {} if instance is None else {member.label: member for member in instance.members}
    busbw = None if instance is None else instance.busbw_gbps
    return [
        (
            communicator.labels[member],
            _rank(communicator, k, member, known, busbw, blamed=not scene.disproved),
        )
        for member in drawer.arrivals(scene)
    ]


def _put_ranks(planes: Planes, scene: Scene, ranks: list[tuple[str, list[str]]], end: int) -> None:
    """Draw the heading and a page of ranks in the rows before ``end``."""
    used = [any(column) for column in zip(*(cells for _, cells in ranks), strict=True)]
    columns = [column for column, one in zip(_COLUMNS, used, strict=True) if one]
    rows = [[cell for cell, one in zip(cells, used, strict=True) if one] for _, cells in ranks]
    lines = table(columns, rows, planes.width - 2)
    planes.put(1, 1, lines[0], Ink.DIM)
    room = max(end - 2, 1)
    room -= len(ranks) > room
    at = min(drawer.row(scene), len(ranks) - 1) if drawer_has_keys(scene) else -1
    first = max(at, 0) // max(room, 1) * room
    for index, (label, _) in enumerate(ranks[first : first + room]):
        on = first + index == at
        ink = Ink.STRONG if label == scene.state.selection.rank else Ink.TEXT
        planes.put_row(2 + index, lines[1 + first + index], ink, on=on)
    left = len(ranks) - first - room
    if len(ranks) > room:
        text = "the last ranks: k goes back"
        if left > 0:
            text = f"… {numbers.counted(left, 'more rank')}: tab, then j"
        planes.put(2 + room, 1, text, Ink.DIM)


_LEAST_GBPS: Final = 0.001
"""Bandwidth below which calls carry next to nothing: one of 4 bytes has 1e-6 GB/s."""


def _bandwidth(gbps: float) -> str:
    return numbers.quantity(gbps) if gbps >= _LEAST_GBPS else f"< {_LEAST_GBPS}"


def _rank(
    communicator: Communicator,
    k: int,
    member: int,
    known: dict[str, Member],
    busbw: float | None,
    *,
    blamed: bool,
) -> list[str]:
    label = communicator.labels[member]
    if not communicator.present[k, member]:
        return [rank_name(label), "absent", "", "", "", "", "", ""]
    late, wait = int(communicator.late_ns[k, member]), int(communicator.wait_ns[k, member])
    last = blamed and member == communicator.last[k]
    more = known.get(label)
    doing = "" if more is None or more.doing is None else more.doing.replace("_", " ")
    if more is not None and doing:
        doing += f" {numbers.duration(more.doing_ns)}"
    return [
        rank_name(label),
        "--" if late == ABSENT else numbers.signed_duration(late),
        "--" if wait == ABSENT else numbers.duration(wait),
        numbers.duration(int(communicator.dur_ns[k, member])),
        _bandwidth(busbw) if last and busbw is not None else "--",
        "◀ last" if last else "",
        doing,
        "" if more is None else more.host,
    ]


def _links(chain: Sequence[str], width: int, *, tall: bool) -> list[tuple[int, str]]:
    """Return the lines of the blame chain, each with the number of its link."""
    found = []
    for index, text in enumerate(chain):
        lines = wrap(text, width, most=_MOST_LINES if tall else 1)
        signs = ["← " if index else "  ", *["  "] * len(lines)]
        found += [(index, sign + line) for sign, line in zip(signs, lines, strict=False)]
    return found


def _more(found: Detail | None, width: int, *, tall: bool) -> list[str]:
    """Return evidence of the cause, then usual lags of the ranks, as far as there is room."""
    if found is None:
        return []
    one, lines = found.instance, list[str]()
    if one.evidence is not None and one.last is not None:
        most = _MOST_LINES if tall else 1
        for text in evidence_lines(one.evidence, one.last):
            lines += wrap(text, width, most=most, indent="  ")
    history = [] if found.history is None else history_lines(found.history, width)
    return lines + [fit(line, width) for line in history]


def _why(scene: Scene, instance: Instance | None, width: int) -> list[str]:
    """Describe why the last rank was late, with the confidence."""
    if scene.disproved:
        text = f"nobody can be blamed: {scene.disproved}"
    elif instance is None:
        text = "finding out why…"
    elif instance.last is None:
        text = "no rank is late by more than the error of the clocks: nobody is blamed"
    elif instance.why is None:
        text = "why late: not known"
    else:
        sure = sure_of_late_rank(scene, instance.last, instance.sure)
        text = f"why late: {instance.why}; confidence: {sure}"
    return wrap(text, width, most=_WHY_LINES, indent="  ")
