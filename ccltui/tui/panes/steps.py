"""The Steps pane: parts of each step's time, and of the chosen step rank by rank."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from ccltui.draw.palette import KIND_INKS, Ink
from ccltui.parsers import numbers
from ccltui.tui.panes.cursor_text import as_many, named
from ccltui.tui.state.answers import Query
from ccltui.tui.state.own.pane_names import STEPS as NAME
from ccltui.tui.state.own.sorting import Sorting
from ccltui.tui.state.own.step_listing import (
    COLUMNS,
    CULPRIT,
    LENGTH,
    NUMBER,
    PARTS,
    STEPS_STATE,
)
from ccltui.tui.state.pane import Pane, Record
from ccltui.tui.state.scene import Scene, rank_name
from ccltui.tui.state.view_state import Shown, ViewState
from ccltui.tui.styled_text import GAP, Line

if TYPE_CHECKING:
    from ccltui.draw.planes import Planes
    from ccltui.metrics.findings.rank_time.step_parts import StepParts
    from ccltui.tui.state.against.compared import TimeOf

_LABELS = 38
_SHORT: Final = {
    "compute": "comp",
    "overlapped": "both",
    "waiting": "wait",
    "transfer": "net",
    "bubble": "bubble",
    "copies": "copy",
    "idle": "idle",
}
_MOST_STEPS = 0.55
"""Largest share of the pane for the steps; the ranks of the chosen one have the rest."""


class StepsPane(Pane):
    """Steps with the parts of their time, and the ranks of the chosen step."""

    name = NAME
    key = "6"
    title = "Steps"
    short_title = "Steps"
    about = (
        "Steps, the slowest first: length on the slowest rank, the difference from the median "
        "step, who keeps the others waiting, and what the time of the device went to, mean over "
        "ranks; below the same rank by rank for the chosen step. Moving here moves the cursor of "
        "all panes to the step; enter limits them to it, and again to all. V divides the "
        "difference of two steps completely into parts. o sorts by a column or a part of the time. "
        "Beside a second path: the mean step of both, and whether the difference is noise."
    )
    details = frozenset({Shown.VERSUS})

    def queries(self, scene: Scene) -> Iterable[Query[Any]]:
        """Yield the queries for the parts of all steps, and for who keeps the others waiting."""
        from ccltui.tui.state.against.second_path import queries_of
        from ccltui.tui.state.queries.query_kinds import CulpritsQuery, StepsQuery

        if not scene.findings.steps:
            return ()
        if not scene.findings.is_matched:  # waits are known from matched collectives
            return ()
        generation = scene.findings.generation
        return (StepsQuery(generation), CulpritsQuery(generation), *queries_of(scene))

    def paint(self, scene: Scene, height: int, width: int) -> Planes:
        """Draw the steps, and below them the ranks of the chosen step."""
        return _paint(scene, height, width)

    def legend(self, scene: Scene, *, narrow: bool) -> Line:
        """Return the parts that a bar of a step consists of."""
        kinds = _kinds_with_time(scene)
        inks = [KIND_INKS[kind] for kind in kinds]
        names = [f"{_SHORT[kind]} " if narrow else f" {kind}  " for kind in kinds]
        return named(scene, inks, names)

    def status(self, scene: Scene, width: int) -> tuple[Line, Line]:
        """Return who keeps the others waiting in the chosen step, and how its parts differ."""
        above: Line = [(f" {_chosen_text(scene, width - 2)}", Ink.TEXT)]
        return above, [(f" {_changes_text(scene, width - 2)}", Ink.TEXT)]

    def count(self, scene: Scene) -> int:
        """Return the number of steps that have device work."""
        from ccltui.tui.moves import step_rows

        return len(step_rows.order(scene))

    def row(self, scene: Scene) -> int:
        """Return the place of the chosen step."""
        from ccltui.tui.moves import step_rows

        return step_rows.current(scene)

    def to_row(self, scene: Scene, row: int) -> ViewState:
        """Choose a step."""
        from ccltui.tui.moves import step_rows

        return step_rows.to_row(scene, row)

    is_filtered = True

    def row_pattern(self, scene: Scene) -> str:
        """Return the pattern of the steps that are listed."""
        return STEPS_STATE.of(scene.state).pattern

    def with_row_pattern(self, scene: Scene, pattern: str) -> ViewState:
        """List steps whose number, or the rank that keeps the others waiting, matches."""
        own = STEPS_STATE.of(scene.state)
        return STEPS_STATE.put(scene.state, replace(own, pattern=pattern))

    def why_no_rows(self, scene: Scene) -> str:
        """Return the reason: no steps are marked, divided or left by the filter."""
        from ccltui.tui.moves import step_rows

        return step_rows.why_none(scene) or super().why_no_rows(scene)

    is_sorted = True

    def sort_columns(self, scene: Scene) -> tuple[str, ...]:
        """Return the columns of the list and the parts of the bars."""
        return COLUMNS

    def sorting(self, scene: Scene) -> Sorting:
        """Return the order of the steps."""
        return STEPS_STATE.of(scene.state).sorting

    def with_sorting(self, scene: Scene, sorting: Sorting) -> ViewState:
        """Sort the steps; the cursor stays on the chosen one."""
        own = STEPS_STATE.of(scene.state)
        return STEPS_STATE.put(scene.state, replace(own, sorting=sorting))

    def side(self, scene: Scene) -> tuple[str, int | None] | None:
        """Return the slowest rank of the chosen step."""
        from ccltui.tui.moves import step_rows

        return step_rows.slowest(scene)

    def suggested_side(self, scene: Scene, side: tuple[str, int | None]) -> str:
        """Return the median of the other steps of the rank; of a single step another rank."""
        from ccltui.tui.moves import step_rows

        middle = step_rows.middle_step(scene, *side)
        return super().suggested_side(scene, side) if middle is None else f"it {middle}"

    def records(self, scene: Scene) -> Iterator[Record]:
        """Yield the parts of every step on every rank."""
        return _records(scene)

    def metric(self, scene: Scene) -> str:
        """Return the name of the metric of the parts."""
        return "temporal_breakdown"

    def chosen_step(self, scene: Scene) -> int | None:
        """Return the chosen step."""
        from ccltui.tui.moves import step_rows

        return step_rows.chosen(scene)


STEPS: Final = StepsPane()


def _kinds_with_time(scene: Scene) -> list[str]:
    """Return the parts that any step has, all while they are not known."""
    from ccltui.tui.state.queries.wanted_queries import parts_of_steps

    parts = parts_of_steps(scene)
    if parts is None:
        return list(PARTS)
    totals = parts.parts_ns.sum(axis=(1, 2)).tolist()
    return [kind for kind, total in zip(PARTS, totals, strict=True) if total]


def _chosen_text(scene: Scene, width: int) -> str:
    """Describe the chosen step: its length, and who keeps the others waiting or why nobody."""
    from ccltui.metrics.findings.causes.evidence import cause_words
    from ccltui.tui.moves import step_rows
    from ccltui.tui.state.queries.wanted_queries import culprits_of_steps, parts_of_steps

    parts, step = parts_of_steps(scene), step_rows.chosen(scene)
    if parts is None or step is None:
        return ""
    length = numbers.duration(int(parts.longest_ns[parts.steps.index(step)]))
    culprits = culprits_of_steps(scene)
    if culprits is None:
        return GAP.join([f"step {step}", length, "who keeps the others waiting: …"])
    found = culprits.of(step)
    texts = []
    if found.label is None:
        texts.append(f"nobody is named: {found.why}")
    else:
        cause = cause_words(found.cause or "")
        texts.append(f"{rank_name(found.label)} keeps the others waiting: {cause}")
        if found.wait_ns:
            texts.append(f"{numbers.duration(found.wait_ns)} in sum")
        texts.append(f"sure: {found.sure.text}")
    # On narrow screens the length, which stands in the table, gives way to the sentence.
    begin = GAP.join([f"step {step}", length, texts[0]])
    if len(begin) > width:
        begin = GAP.join([f"step {step}", texts[0]])
    return as_many([begin, *texts[1:]], width)


def _changes_text(scene: Scene, width: int) -> str:
    """Return how each part of the chosen step differs from the median step, the largest first."""
    from ccltui.tui.moves import step_rows
    from ccltui.tui.state.queries.wanted_queries import parts_of_steps

    parts, step = parts_of_steps(scene), step_rows.chosen(scene)
    if parts is None or step is None or parts.middle is None:
        return ""
    row, middle = parts.steps.index(step), parts.middle
    if row == middle:
        shares = zip(PARTS, parts.mean_shares(row), strict=True)
        title = "the median step" if len(parts) > 1 else "the only step"
        return GAP.join([title, *(f"{name} {numbers.percent(share)}" for name, share in shares)])
    own, usual = parts.mean_ns(row), parts.mean_ns(middle)
    changes = [(name, a - b) for name, a, b in zip(PARTS, own, usual, strict=True)]
    changes.sort(key=lambda change: -abs(change[1]))
    texts = [f"{name} {numbers.signed_duration(ns)}" for name, ns in changes if ns]
    return as_many([f"against step {parts.steps[middle]}, the median", *texts], width)


def _records(scene: Scene) -> Iterator[Record]:
    from ccltui.tui.moves import step_rows
    from ccltui.tui.state.queries.wanted_queries import parts_of_steps

    parts = parts_of_steps(scene)
    if parts is None:
        return
    for row in step_rows.order(scene):
        for column, label in enumerate(parts.labels):
            if parts.start_ns[row, column] >= 0:
                spent = parts.parts_ns[:, row, column].tolist()
                yield {
                    "step": parts.steps[row],
                    "rank": label,
                    "start_ns": int(parts.start_ns[row, column]),
                    "length_ns": int(parts.length_ns[row, column]),
                    **{f"{name}_ns": ns for name, ns in zip(PARTS, spent, strict=True)},
                }


def _paint(scene: Scene, height: int, width: int) -> Planes:
    from ccltui.draw.bars import put_bar, put_scale
    from ccltui.draw.planes import Planes
    from ccltui.metrics.findings.rank_time.step_parts import one_per_rank
    from ccltui.tui.moves import step_rows
    from ccltui.tui.state.queries.wanted_queries import parts_of_steps

    planes = Planes.blank(height, width, Ink.TEXT)
    parts, order = parts_of_steps(scene), step_rows.order(scene)
    if parts is None or not order:
        planes.put(1, 1, _nothing(scene), Ink.DIM)
        return planes
    at = step_rows.current(scene)
    row = order[at]
    most_ns = max(int(parts.longest_ns.max()), 1)
    of_b = _against(scene, width - 2)
    room = max(min(len(order), round(height * _MOST_STEPS) - 1 - len(of_b)), 1)
    put_scale(planes, 0, _LABELS, most_ns)
    planes.put(0, 0, _heading(scene), Ink.DIM)
    first = at // room * room
    first = max(min(first, len(order) - room), 0)
    for y, one in enumerate(order[first : first + room], 1):
        text = _step_text(scene, parts, one, on=one == row)
        planes.put(y, 0, text, Ink.LABEL_ON if one == row else Ink.LABEL)
        planes.listed[y] = first + y - 1
        mean_ns = dict(zip(PARTS, parts.mean_ns(one), strict=True))
        put_bar(planes, y, _LABELS, mean_ns, most_ns, colour=scene.colour)
    left = len(order) - first - room
    y = 1 + room
    if left > 0:
        planes.put(y, 1, f"… {numbers.counted(left, 'more step')}", Ink.DIM)
    for text in of_b:
        y += 1
        planes.put(y, 1, text, Ink.TEXT)
    planes.put(y + 1, 0, f"── {_ranks_title(parts, row)} ".ljust(width, "─"), Ink.RULER)
    _put_ranks(planes, y + 2, scene, one_per_rank(parts, row), most_ns)
    return planes


def _nothing(scene: Scene) -> str:
    from ccltui.tui.moves import step_rows

    why = step_rows.why_none(scene)
    return "no step has device work" if why is None else f"{why[0].upper()}{why[1:]}."


def _heading(scene: Scene) -> str:
    """Return the titles of the columns; the order by a part of the bars is named in the last."""
    sorting = STEPS_STATE.of(scene.state).sorting
    number, length, culprit = (sorting.marked(one) for one in (NUMBER, LENGTH, CULPRIT))
    if sorting.column not in (NUMBER, LENGTH, CULPRIT):
        culprit = sorting.marked(sorting.column)
    return f" {number:<6}{length:>10}{'vs median':>12}  {culprit}"


def _against(scene: Scene, width: int) -> list[str]:
    """Return the step of both paths and its kinds of time, [] without a second path.

    Steps of two jobs are different steps: their means are compared, not one by one.
    """
    from ccltui.tui.state.against.second_path import compared

    sides = compared(scene)
    if sides is None:
        return []
    document = sides.document
    if document is None or not sides.by_step:
        return [f"B: {sides.problem or 'without steps on both sides there is none to compare'}"]
    texts = [_difference("step time", document.step_time), document.verdict]
    parts = [_difference(one.name or "", one) for one in document.kinds]
    lines = [as_many([f"A → B, means: {texts[0]}", texts[1], document.why or ""], width)]
    return [line.rstrip() for line in (*lines, as_many(parts, width)) if line.strip()]


def _difference(name: str, row: TimeOf) -> str:
    """Describe a time of both paths, with its interval where that is known."""
    if row.a_ms is None or row.b_ms is None or row.delta_ms is None:
        return f"{name} unknown"
    a, b, delta = (round(ms * 1e6) for ms in (row.a_ms, row.b_ms, row.delta_ms))
    text = f"{name} {numbers.duration(a)} → {numbers.duration(b)} {numbers.signed_duration(delta)}"
    if row.half_width_ms is not None:
        text += f" ± {numbers.duration(round(row.half_width_ms * 1e6))}"
    return f"{text} {row.verdict}".rstrip()


def _step_text(scene: Scene, parts: StepParts, row: int, *, on: bool) -> str:
    """Return number, length against the median, culprit, and whether it is in the window."""
    window = scene.session.filter.steps
    step = parts.steps[row]
    inside = window is not None and window[0] <= step <= window[1]
    length = int(parts.longest_ns[row])
    over = numbers.signed_duration(length - parts.median_ns)
    cells = f"{step:<6}{numbers.duration(length):>10}{over:>12}  {_kept_by(scene, step):<5}"
    return f"{'▶' if on else ' '}{cells}{'•' if inside else ' '}"


def _kept_by(scene: Scene, step: int) -> str:
    """Return the rank that keeps the others waiting in a step, "--" for nobody."""
    from ccltui.tui.state.queries.wanted_queries import culprits_of_steps

    culprits = culprits_of_steps(scene)
    if culprits is None:
        return "…"
    label = culprits.of(step).label
    return "--" if label is None else rank_name(label)[:5]


def _ranks_title(parts: StepParts, row: int) -> str:
    return f"step {parts.steps[row]} on the devices rank by rank, the slowest first"


def _put_ranks(
    planes: Planes, y: int, scene: Scene, ranks: Sequence[tuple[str, list[int]]], most_ns: int
) -> None:
    """Draw length and parts of a step on as many ranks as fit."""
    from ccltui.draw.bars import put_bar

    room = planes.height - y
    if room < 1:
        return
    hidden = len(ranks) - room
    for offset, (label, one) in enumerate(ranks[: room - (hidden > 0)]):
        on = label == scene.state.selection.rank
        text = f" {rank_name(label)[:7]:<7}{numbers.duration(sum(one)):>11}"
        planes.put(y + offset, 0, text.ljust(_LABELS), Ink.STRONG if on else Ink.TEXT)
        parts_ns = dict(zip(PARTS, one, strict=True))
        put_bar(planes, y + offset, _LABELS, parts_ns, most_ns, colour=scene.colour)
    if hidden > 0:
        planes.put(planes.height - 1, 1, f"… {hidden + 1} more ranks", Ink.DIM)
