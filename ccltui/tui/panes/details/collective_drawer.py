"""Draw the drawer: ranks at the selected collective, the cause of the lag, a kernel's block.

The evidence for a cause compares the late rank with its peers. The block is the one that the kernel
under the cursor repeats in, over all repetitions and ranks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from ccltui.draw.alignment_chart import ABSENT
from ccltui.draw.bars import spark
from ccltui.draw.palette import Ink
from ccltui.draw.planes import Planes
from ccltui.draw.table import Column, table
from ccltui.draw.text import fit, wrap
from ccltui.parsers import numbers
from ccltui.tui.moves import compare_ranks, drawer
from ccltui.tui.moves.loss_list import place_text, shown_finding, sure_of_late_rank
from ccltui.tui.panes.details import causal_picture, comparison, event_page
from ccltui.tui.state.pane import drawer_has_keys
from ccltui.tui.state.scene import Scene, rank_name
from ccltui.tui.state.view_state import Shown

if TYPE_CHECKING:
    from ccltui.metrics.device.repetition import Block, Position
    from ccltui.metrics.findings.causes.evidence import Evidence
    from ccltui.metrics.findings.causes.instance_report import Instance, LagHistory, Member
    from ccltui.tui.state.collective_detail import Detail
    from ccltui.tui.state.communicator import Communicator


_FIXED = 54
"""Width of all columns except the names."""


def paint_block(scene: Scene, height: int, width: int) -> Planes:
    """Draw a table of positions that contains the selected one."""
    planes = Planes.blank(height, width, Ink.TEXT)
    block = compare_ranks.block(scene)
    planes.put(0, 0, _title(block).ljust(width, "─"), Ink.STRONG)
    if block is None:
        why = compare_ranks.problem(scene) or "looking for repetitions…"
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
        return comparison.paint(scene, height, width)
    if drawer.shows(scene, Shown.EVENT):
        return event_page.paint(scene, height, width)
    if drawer.shows(scene, Shown.CHAIN):
        return causal_picture.paint(scene, height, width)
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
