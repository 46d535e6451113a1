"""The first screen: the largest finding, the step, what costs time, and the ranks, in frames.

Everything is read from results: the first finding is the headline, and the bars are the kinds of
time that the metric `findings` states. Frames are one above the other, some beside each other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from msgspec import Struct, field

from ccltui.draw.composition import Part, legend_rows, put_composition, put_legend
from ccltui.draw.palette import KIND_INKS, Ink
from ccltui.draw.planes import Planes
from ccltui.draw.text import bar, fit, fit_middle, spark, wrap
from ccltui.metrics.confidence import sure_text
from ccltui.parsers import numbers
from ccltui.parsers.numbers import counted, percent, percent_in_six, time_text
from ccltui.tui.moves.loss_list import at_first, chosen_of, section_of
from ccltui.tui.state.answers import Span
from ccltui.tui.state.finding_rows import (
    NOT_A_CAUSE,
    RankBar,
    answer,
    details,
    findings,
    is_computing_files,
    rank_bars,
    result_of,
    step_at,
    work_by_rank,
)
from ccltui.tui.state.notes import NoteRow, notes, trust
from ccltui.tui.state.pane_states import Section
from ccltui.tui.state.scene import Scene, rank_name
from ccltui.tui.state.session import FileRow, capture_rows

MARK: Final = "▶"

Draw = Callable[[Planes, int, int, int], object]
"""Draws a line at a row and a column, in so many cells."""


class Region(Struct):
    """A title, a note at the right end of its rule, and lines, some of which are rows of a list."""

    title: str = ""
    note: str = ""
    lines: list[tuple[Draw, int | None]] = field(default_factory=list)

    def add(self, draw: Draw, row: int | None = None) -> None:
        """Add a line."""
        self.lines.append((draw, row))

    def picture(self, picture: Planes) -> None:
        """Add a picture."""
        self.add(lambda planes, y, x, width: planes.paste(picture, y, x))
        self.lines += [(_nothing, None)] * (picture.height - 1)

    def text(self, text: str, ink: Ink) -> None:
        """Add one line of text, cut where it is too long."""
        self.add(lambda planes, y, x, width: planes.put(y, x, fit(text, width).rstrip(), ink))

    @property
    def height(self) -> int:
        """Rows with the rule above; 0 without lines, where the region is left out."""
        return 1 + len(self.lines) if self.lines else 0


def _nothing(planes: Planes, y: int, x: int, width: int) -> None:
    del planes, y, x, width


class _Column(Struct, frozen=True):
    """Part of a picture from its left to its right line."""

    planes: Planes
    x: int
    end: int

    def put(self, regions: Sequence[Region], y: int, ends: str = "├┤") -> int:
        """Draw regions one below the other, and return the row after them."""
        for region in regions:
            if not region.lines:
                continue
            self.rule(y, ends, region.title, region.note)
            for draw, row in region.lines:
                y += 1
                draw(self.planes, y, self.x + 2, self.end - self.x - 3)
                if row is not None and self.x:
                    self.planes.beside[y] = self.x, row
                elif row is not None:
                    self.planes.listed[y] = row
            y += 1
        return y

    def rule(self, y: int, ends: str, title: str, note: str) -> None:
        """Draw a line with a title at its left and a note at its right end."""
        planes, x, end = self.planes, self.x, self.end
        planes.put(y, x, ends[0] + "─" * (end - x - 1) + ends[1], Ink.RULER)
        at = x + 2
        if title:
            at = planes.put(y, at, f" {fit(title, min(len(title), end - at - 3))} ", Ink.STRONG)
        room = end - at - 4
        if note and room >= min(len(note), 8):
            text = f" {fit(note, min(len(note), room))} "
            planes.put(y, end - 1 - len(text) if title else x + 2, text, Ink.DIM)


def put_regions(
    planes: Planes,
    left: Sequence[Region],
    right: Sequence[Region],
    below: Sequence[Region],
    bottom: str,
) -> int:
    """Draw regions and return the row below them; the first one is as wide as the picture.

    Args:
        planes: the picture.
        left: regions from top to bottom; with ``right`` all but the first are in the left column.
        right: regions of the right column; none for one column.
        below: regions below the columns, as wide as the picture.
        bottom: text in the lowest line.
    """
    last = planes.width - 1
    whole = _Column(planes, 0, last)
    y = whole.put(left[:1], 0, "╭╮")
    middle = middle_of(planes.width) if right else last
    columns_end = _Column(planes, 0, middle).put(left[1:], y)
    if right:
        columns_end = max(columns_end, _Column(planes, middle, last).put(right, y))
    end = whole.put(below, columns_end)
    whole.rule(end, "╰╯", "", bottom)
    for x, first, stop in ((0, 1, end), (last, 1, end), (middle, y, columns_end)):
        for row in range(first, min(stop, planes.height)):
            if planes.glyph[row, x] == ord(" "):
                planes.put(row, x, "│", Ink.RULER)
    if right:
        planes.put(y, middle, "┬", Ink.RULER)
        if columns_end < planes.height and planes.glyph[columns_end, middle] == ord("─"):
            planes.put(columns_end, middle, "┴", Ink.RULER)
    return end + 1


def middle_of(width: int) -> int:
    """Return the column of the line between two columns."""
    return width * 3 // 5


TWO_COLUMNS: Final = 100
"""Least width for two columns: each then has room for a bar, its figures and a name."""
_ROOMY: Final = 30
"""Least height at which texts have all their lines."""
_WHOLE: Final = 3
"""Findings that are in view before any rank is, and captures before other ranks are."""
_COLUMNS_FROM: Final = 90
"""Least width of the list of findings at which savings and confidence have columns."""
_LEAST_TIMELINE: Final = 5
"""Least rows of the Timeline, without its rule: the ruler, the steps and some ranks."""
_STRIP: Final = 16
"""Ranks from which on a strip shows them all: so many rows would fill the screen."""
_NAMES: Final = {"operators": "operators", "other_groups": "other groups"}
_BAR: Final = 10
_SURE: Final = {"what": "sure of cause", "who": "rank", "how_much": "saving"}
"""Parts of confidence, and the heads of their columns, which are as wide with two blanks."""
_LONGEST_NAME: Final = 14
_KINDS: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        ("exposed_communication", "collective_wait", "slow_link", "transfer_spread"), "transfer"
    ),
    "pipeline_bubble": "bubble",
    "copies": "copies",
    **dict.fromkeys(("compute_bound", "cpu_bound"), "compute"),
    **dict.fromkeys(
        (
            *("data_loading", "host_allocation", "host_synchronisation", "checkpoint"),
            *("garbage_collection", "host_bound", "launch_latency", "stream_dependency"),
            *("kernel_gaps", "idle_unknown"),
        ),
        "idle",
    ),
}
"""Kind of time that a finding is in; others are waiting."""


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
    """Draw the screen; before anything is known, why."""
    planes = Planes.blank(height, width, Ink.TEXT)
    if not scene.findings.metrics and not findings(scene):
        _put_waiting(planes, scene)
        return planes
    section = section_of(scene)
    chosen = {section: chosen_of(scene, section)}
    room = height - 2  # without the lowest line of the frames, and the line below them
    fills = not rank_bars(scene) and not _step(scene, width - 3).height
    head = _headline(scene, width - 3, _Lines(4, 8, 4) if fills else _LINES[height >= _ROOMY])
    if width >= TWO_COLUMNS and rank_bars(scene):
        left, right = _two_columns(scene, room - head.height, width, chosen)
    else:
        left, right = _one_column(scene, room - head.height, width, chosen), []
    used = head.height + max(sum(one.height for one in side) for side in (left, right))
    lower = [_timeline(scene, room - used - 1, width - 4)]
    end = put_regions(planes, [head, *left], right, lower, trust(scene).text)
    planes.put(end, 1, fit(_below(scene), width - 2), Ink.DIM)
    return planes


def _put_waiting(planes: Planes, scene: Scene) -> None:
    planes.put(1, 1, _waiting(scene), Ink.STRONG)
    y = 3
    for note in (*_found_instead(scene), *notes(scene)):
        y = planes.put_wrapped(y, note.text, note.ink, most=_NOTE_LINES, indent="  ")


def _below(scene: Scene) -> str:
    """Return what is one key away: all metrics, and the remarks."""
    known = scene.findings.metrics
    if not known:
        return "5 lists the files"
    results = scene.findings.results.values()
    missing = sum(result.status == "unavailable" for result in results)
    text = f"M: {counted(len(known), 'metric')}"
    text += f", {missing} unavailable" if missing else ""
    remarks = len(notes(scene))
    return f"{text}; {counted(remarks, 'remark')}" if remarks else text


def _waiting(scene: Scene) -> str:
    if scene.session.phase == "failed":
        return "Nothing can be shown."
    ranks = scene.session.ranks_loaded + scene.session.ranks_partly
    if ranks:
        return f"Computing the first numbers of {counted(ranks, 'rank')}."
    if is_computing_files(scene):
        return "No trace here. Computing what the other files tell."
    if scene.session.phase in ("ready", "stopped"):
        return "No trace that can be shown."
    return "Numbers appear as soon as the first rank is read."


def _found_instead(scene: Scene) -> list[NoteRow]:
    """Describe a directory without a usable trace: its files, and why none is one."""
    job = scene.session.job
    if job is None or scene.session.busy or job.ranks or is_computing_files(scene):
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


def _two_columns(
    scene: Scene, room: int, width: int, chosen: Mapping[Section, int]
) -> tuple[list[Region], list[Region]]:
    inside = middle_of(width) - 3
    step = _step(scene, inside)
    captures = _captures(scene, room // 3, chosen.get(Section.CAPTURES))
    left = room - step.height - captures.height
    costs = _costs(scene, left - 1, inside, chosen.get(Section.FINDINGS))
    ranks = _ranks(scene, room - 1, chosen.get(Section.RANKS))
    unknown = _unknown(scene, room - ranks.height, width - inside - 6)
    return [step, costs, captures], [ranks, unknown]


def _one_column(scene: Scene, room: int, width: int, chosen: Mapping[Section, int]) -> list[Region]:
    """Return all regions: the first findings whole, then as many ranks as there is room for."""
    step = _step(scene, width - 3)
    captures = _captures(scene, min(room // 3, _WHOLE + 1), chosen.get(Section.CAPTURES))
    room -= step.height + captures.height
    bars, with_strip = len(rank_bars(scene)), len(work_by_rank(scene)) >= _STRIP
    first = min(len(findings(scene)), _WHOLE) + 1
    for_ranks = min(bars + 1 + with_strip if bars else 0, max(room - first, 0))
    costs = _costs(scene, room - for_ranks - 1, width - 3, chosen.get(Section.FINDINGS))
    ranks = _ranks(scene, room - costs.height - 1, chosen.get(Section.RANKS))
    unknown = _unknown(scene, room - costs.height - ranks.height, width - 4)
    return [step, costs, captures, ranks, unknown]


class _Lines(NamedTuple):
    """Most lines of each part of the headline."""

    text: int
    more: int
    advice: int


_LINES: Final = {True: _Lines(2, 1, 2), False: _Lines(2, 1, 1)}
"""By whether the screen is high: findings, step and ranks are below."""


def _headline(scene: Scene, width: int, most: _Lines) -> Region:
    rows = findings(scene)
    if not rows:
        return _without_answer(scene, width)
    first = rows[0]
    region = Region("Diagnosis", _so_far(scene) or f"confidence: {sure_text(first['sure'], ' · ')}")
    text = wrap(str(first["text"]), width - 3, most=most.text)
    for at, line in enumerate(text):
        region.add(_line(("● " if not at else "  ") + line, Ink.STRONG))
    if first["more"] and (len(text) < 2 or most.more > 1):
        for line in wrap(str(first["more"]), width - 3, most=most.more):
            region.text(f"  {line}", Ink.TEXT)
    for at, line in enumerate(wrap(str(first["do"]), width - 9, most=most.advice)):
        region.add(_line(("  Next: " if not at else "        ") + line, Ink.LABEL))
    return region


def _so_far(scene: Scene) -> str:
    """Return of how many ranks the answer is while others are being read, "" of all."""
    known, session = len(answer(scene).get("per_rank") or ()), scene.session
    is_current = scene.findings.complete and scene.findings.generation == session.generation
    if is_current or not 0 < known < session.ranks_expected:
        return ""
    return f"so far, from {known} of {counted(session.ranks_expected, 'rank')}"


def _without_answer(scene: Scene, width: int) -> Region:
    region = Region("Diagnosis")
    result = result_of(scene)
    if result is None:
        region.text("What costs time is being computed.", Ink.DIM)
        return region
    why = result.reasons[0].message if result.reasons else "no finding"
    for line in wrap(f"No answer: {why}.", width, most=3):
        region.text(line, Ink.TEXT)
    return region


def _line(text: str, ink: Ink) -> Draw:
    return lambda planes, y, x, width: planes.put(y, x, fit(text, width).rstrip(), ink)


def _step(scene: Scene, width: int) -> Region:
    """Return the region of the step: its kinds of time, and a strip of the times of all steps."""
    found = answer(scene)
    shares: Mapping[str, float] = found.get("shares") or {}
    region = Region(_step_title(scene))
    parts = [
        Part(kind, _NAMES.get(kind, kind), percent(share), share) for kind, share in shares.items()
    ]
    if parts:
        region.add(
            lambda planes, y, x, width: put_composition(
                planes, y, x, width, parts, colour=scene.colour
            )
        )
        for row in legend_rows(parts, width):
            region.add(_legend(parts, row, colour=scene.colour))
    _add_strip(region, scene, width)
    return region


def _step_title(scene: Scene) -> str:
    found, times = answer(scene), details(scene, "iter_time")
    period = found.get("period_ms")
    name = "Step" if found.get("period") == "step" else "Window"
    text = name if period is None else f"{name} {time_text(period)}"
    number, mean = times.get("num_iterations"), times.get("avg_iter_time_ms")
    if name == "Step" and number and number > 1 and times.get("std_iter_time_ms") is not None:
        if period is not None and mean is not None and time_text(mean) != time_text(period):
            text += f"; step markers {time_text(mean)}"  # whose spread it is
        text += f" ± {time_text(times['std_iter_time_ms'])} (n = {number})"
    return text


def _legend(parts: Sequence[Part], row: Sequence[int], *, colour: bool) -> Draw:
    return lambda planes, y, x, width: put_legend(
        planes, y, x, parts, row, width=width, colour=colour
    )


def _add_strip(region: Region, scene: Scene, width: int) -> None:
    """Add the times of all steps, those of outliers marked, and the slowest in words."""
    found, varied = details(scene, "iter_time"), details(scene, "step_variability")
    times: Sequence[float] = found.get("iter_times_ms") or ()
    if len(times) < 2:
        return
    steps: Sequence[int] = scene.findings.results["iter_time"].inputs.get("steps") or ()
    slowest = varied.get("slowest_step") or {}
    text = (
        f"slowest {time_text(slowest['iter_time_ms'])}, step {slowest['step']}" if slowest else ""
    )
    room = max(width - len(text) - 9, 1)
    picture = spark(times, room)
    slow = {row["step"] for row in varied.get("outliers") or () if row["deviations"] > 0}
    known = steps if len(steps) == len(times) else ()
    cells = {at * len(picture) // len(times) for at, step in enumerate(known) if step in slow}

    def draw(planes: Planes, y: int, x: int, width: int) -> None:
        at = planes.put(y, x, "steps ", Ink.DIM)
        for cell, glyph in enumerate(picture):
            planes.put(y, at + cell, glyph, Ink.HIT if cell in cells else Ink.TEXT)
        planes.put(y, at + len(picture) + 2, text, Ink.DIM)

    region.add(draw)


def _costs(scene: Scene, room: int, width: int, chosen: int | None) -> Region:
    """Return the list of findings, as many as there is room for, with the selected one."""
    rows = findings(scene)
    per = "per step" if answer(scene).get("period") == "step" else "in all"
    timed = any(row["cost_ms"] is not None for row in rows)
    region = Region(f"What costs time ({per})" if timed else "Findings")
    if not rows or (len(rows) == 1 and not timed):  # the headline is all there is
        return Region()
    first, shown = _window(len(rows), max(room, 1), chosen or 0)
    if shown < len(rows):
        region.note = f"{first + 1}-{first + shown} of {len(rows)}"
    has_figures = any(row["share"] is not None for row in rows)
    is_wide = timed and has_figures and width >= _COLUMNS_FROM and room > shown
    if is_wide:
        sure = "".join(f"{head:<8}  " for head in _SURE.values())
        heads = f"{'':{_BAR + 4}}{'share':>6} {'time':>8}{'saves':>10}  {sure}"
        region.text(heads, Ink.DIM)
    most = max((row["share"] or 0.0 for row in rows if _is_loss(row)), default=0.0) or 1.0
    for number in range(first, first + shown):
        on = number == chosen
        more = _more_cells(rows[number]) if is_wide else ""
        region.add(_cost(number, rows[number], most, more, on=on, colour=scene.colour), number)
    return region


def _is_loss(row: Mapping[str, Any]) -> bool:
    return row["class"] not in NOT_A_CAUSE


def _more_cells(row: Mapping[str, Any]) -> str:
    """Return what a finding saves, and how sure it is what happens, by whom and what it saves."""
    saves, sure = row["saves_ms"], row["sure"]
    known = "".join(
        f"{'-' if sure[part] == 'unknown' else sure[part]:<{max(len(head), 8)}}  "
        for part, head in _SURE.items()
    )
    return f"{'' if saves is None else time_text(saves):>8}  {known}"


def _cost(
    number: int, row: Mapping[str, Any], most: float, more: str, *, on: bool, colour: bool
) -> Draw:
    share, cost = row["share"], row["cost_ms"]
    ink = Ink.LABEL_ON if on else Ink.LABEL

    def draw(planes: Planes, y: int, x: int, width: int) -> None:
        planes.put(y, x - 1, (MARK if on else " ") + " " * width, ink)
        at = planes.put(y, x, f"{number + 1:>2} ", ink)
        if share is not None:
            length = bar(share / most, _BAR) if _is_loss(row) else ""
            kind = KIND_INKS[_KINDS.get(row["class"], "waiting")] if colour else ink
            planes.put(y, at, length, kind)
            at += _BAR + 1
            at = planes.put(y, at, f"{percent_in_six(share):>6} ", ink)
            at = planes.put(y, at, f"{'' if cost is None else time_text(cost):>8}  {more}", ink)
        name = str(row["text"])
        if share is not None or len(name) > x + width - at:
            name = row["label"]
        planes.put(y, at, fit(name, x + width - at).rstrip(), ink)

    return draw


def _window(rows: int, room: int, chosen: int) -> tuple[int, int]:
    """Return the first row and the number of rows in view; the selected one is among them."""
    shown = min(rows, room)
    return min(max(chosen - shown + 1, 0), rows - shown), shown


def _ranks(scene: Scene, room: int, chosen: int | None) -> Region:
    """Return the bars of the ranks, and from 16 ranks on a strip of all of them."""
    rows, work = rank_bars(scene), work_by_rank(scene)
    if not rows or room < 1:
        return Region()
    title = "Ranks, those of findings first" if rows[0].number else "Ranks by computing"
    region = Region(title, counted(len(work), "rank"))
    if len(work) >= _STRIP and room > 1:
        room -= 1
        region.add(lambda planes, y, x, width: _put_strip(planes, y, x, width, work))
    before, names = len(findings(scene)), max(len(_rank_text(row)) for row in rows)
    first, shown = _window(len(rows), room, chosen or 0)
    if shown < len(rows):
        in_view = sum(len(row.labels) for row in rows[first : first + shown])
        region.note = f"{in_view} of {counted(len(work), 'rank')}, $ lists all"
    for number in range(first, first + shown):
        on = number == chosen
        region.add(_rank(rows[number], names, on=on, colour=scene.colour), before + number)
    return region


def _captures(scene: Scene, room: int, chosen: int | None) -> Region:
    """Return the list of captures of a folder that has several, as many as there is room for."""
    rows = capture_rows(scene.session)
    if not rows or room < 2:
        return Region()
    region = Region("Captures", "enter opens another")
    opened = next((at for at, row in enumerate(rows) if row.capture is None), 0)
    first, shown = _window(len(rows), room - 1, opened if chosen is None else chosen)
    if shown < len(rows):
        region.note = f"{first + 1}-{first + shown} of {len(rows)}, {region.note}"
    longest = max(len(row.cells[0]) for row in rows)
    before = len(findings(scene)) + len(rank_bars(scene))
    for number in range(first, first + shown):
        region.add(_capture(rows[number], longest, on=number == chosen), before + number)
    return region


def _capture(row: FileRow, longest: int, *, on: bool) -> Draw:
    name, _, ranks, size, _ = row.cells
    # Where no file states a rank, the capture is known by its files.
    ranks = f"{ranks} {'rank' if ranks == '1' else 'ranks'}" if row.rank else row.files
    ink = Ink.LABEL_ON if on else row.ink

    def draw(planes: Planes, y: int, x: int, width: int) -> None:
        is_open = row.capture is None
        figures = f"{row.kind_of_files:<14} {ranks:>13} {size:>9}  {'● open' if is_open else '':<6}"
        room = max(min(longest, width - len(figures) - 2), 8)
        text = f"{fit_middle(name, room):<{room}}  {figures}"
        planes.put(y, x - 1, (MARK if on else " ") + fit(text, width), ink)

    return draw


def _timeline(scene: Scene, room: int, width: int) -> Region:
    """Return the step of the first finding on all ranks, no lines where there is no room."""
    span, lanes = scene.findings.span, scene.findings.lanes
    if span is None or room < _LEAST_TIMELINE or not lanes:
        return Region()
    from ccltui.tui.panes.pictures import around

    at = at_first(scene).selection.time_ns
    step = step_at(scene, 0 if at is None else at)
    labels = _listed_ranks(scene, room - 1 - (step is not None))
    title = "Timeline" if step is None else f"Timeline of step {step.id}"
    if step is not None and findings(scene) and findings(scene)[0]["place"] is not None:
        title += ", where the first finding is largest"
    if len(labels) < len(lanes):
        title += f", {len(labels)} of {counted(len(lanes), 'rank')}"
    region = Region(title, "3 opens it")
    view = span if step is None else Span(step.start_ns, step.end_ns)
    region.picture(around(scene, labels, view, room, width))
    return region


def _listed_ranks(scene: Scene, room: int) -> list[str]:
    """Return all ranks in the order of the bars; where they have no room, the first of each bar."""
    bars = rank_bars(scene)
    every = [label for row in bars for label in row.labels] or list(scene.ranks)
    known = [label for label in every if label in scene.findings.lanes]
    if len(known) > room and bars:
        known = [row.labels[0] for row in bars if row.labels[0] in scene.findings.lanes]
    return known[:room]


def _put_strip(planes: Planes, y: int, x: int, width: int, work: Sequence[float]) -> None:
    at = planes.put(y, x, "compute ", Ink.DIM)
    planes.put(y, at, spark([*work], width - 8), Ink.COMPUTE)


def _rank_text(row: RankBar) -> str:
    if len(row.labels) == 1:
        return rank_name(row.labels[0])
    return f"… {len(row.labels)} {'more' if row.is_rest else 'alike'}"


def _rank(row: RankBar, names: int, *, on: bool, colour: bool) -> Draw:
    low, high = percent(row.least), percent(row.most)
    figures = low if low == high else f"{low.removesuffix(' %')}-{high}"
    name = _rank_text(row)
    ink = Ink.LABEL_ON if on else Ink.LABEL
    mark = f" ◀ {row.number}" if row.number else ""
    parts = [Part(kind, kind, "", share) for kind, share in row.shares.items()]

    def draw(planes: Planes, y: int, x: int, width: int) -> None:
        planes.put(
            y,
            x - 1,
            (MARK if on else " ") + fit(fit_middle(name, min(names, _LONGEST_NAME)), width),
            ink,
        )
        left = min(names, _LONGEST_NAME) + 1
        length = max(width - left - 14, 4)
        put_composition(planes, y, x + left, length, parts, colour=colour)
        at = planes.put(y, x + left + length, f"{figures:>9}", ink)
        planes.put(y, at, f"{mark:<5}", Ink.STRONG if mark else ink)

    return draw


def _unknown(scene: Scene, room: int, width: int) -> Region:
    """Return what is not known and what would tell it; no lines where there is no room."""
    region = Region("Not known, and how to find out")
    texts = answer(scene).get("unknown") or ()
    lines = [line for text in texts for line in wrap(str(text), width, most=3, indent="  ")]
    for line in lines if len(lines) < room else ():
        region.text(line, Ink.DIM)
    return region
