"""The block of a kernel, and two ranks or steps laid over each other: what opens them."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from ccltui.parsers.errors import GrammarError
from ccltui.tui.moves import step_rows
from ccltui.tui.moves.cursor import to_time
from ccltui.tui.moves.kernel_at import row_at_cursor
from ccltui.tui.state.queries import block_query, steps_told, told, versus_query
from ccltui.tui.state.scene import Scene, rank_name
from ccltui.tui.state.view_state import Drawer, Listed, Pane, Shown, Versus, ViewState

if TYPE_CHECKING:
    from ccltui.metrics.compare.step_diff import StepDiff
    from ccltui.metrics.device.repetition import Block

_PART = re.compile(r"r\s*(?P<rank>\S+)|it(?:er)?\s*(?P<step>\d+)", re.IGNORECASE)


def kernel_row(scene: Scene) -> tuple[str, int] | None:
    """Rank and row of the device work under the cursor, None where there is none."""
    rank = scene.state.selection.rank
    if rank is None or rank not in scene.findings.lanes:
        return None
    events = scene.events
    if scene.state.pane is Pane.EVENTS:
        if events is None or events.query.listing.listed is not Listed.DEVICE or not len(events):
            return None
        return events.query.rank, int(events.order[events.at(scene)])
    row = row_at_cursor(scene)
    return None if row is None else (rank, row)


def why_no_block(scene: Scene) -> str | None:
    """What keeps :func:`show_block` from showing one."""
    if kernel_row(scene) is not None:
        return None
    if scene.state.pane is Pane.EVENTS:
        return "collectives are listed: C lists the device work, R on a kernel shows its block"
    return "no kernel is under the cursor"


def show_block(scene: Scene) -> ViewState:
    """The block that the kernel under the cursor begins."""
    drawer = Drawer(focused=True, shown=Shown.BLOCK)
    return replace(scene.state, block=kernel_row(scene), drawer=drawer)


def block(scene: Scene) -> Block | None:
    """The block in the drawer, None while it is not known."""
    found = told(scene, block_query(scene))
    return None if found is None else cast("Block | None", found.answer)


def versus(scene: Scene) -> StepDiff | None:
    """What is laid over each other in the drawer, None while it is not known."""
    found = told(scene, versus_query(scene))
    return None if found is None else cast("StepDiff | None", found.answer)


def problem(scene: Scene) -> str:
    """Why the drawer has nothing to show, "" while that is being found out."""
    query = block_query(scene) or versus_query(scene)
    found = told(scene, query)
    return "" if found is None else found.problem


def here(scene: Scene) -> tuple[str, int | None] | None:
    """The rank and the step that the cursor is in; in Steps the slowest rank of the chosen one."""
    selection = scene.state.selection
    if scene.state.pane is Pane.STEPS:
        return step_rows.slowest(scene)
    if selection.rank is None or selection.rank not in scene.findings.lanes:
        return None
    at = selection.time_ns
    marked = scene.findings.steps
    inside = [step.id for step in marked if at is not None and step.start_ns <= at < step.end_ns]
    first = marked[0].id if marked else None
    return selection.rank, inside[0] if inside else first


def why_no_versus(scene: Scene) -> str | None:
    """What keeps two sides from being compared."""
    return "no rank is selected" if here(scene) is None else None


def suggestion(scene: Scene) -> str:
    """What to compare with: in Steps the middle step of this rank, else the rank before it."""
    one = here(scene)
    if one is None:
        return ""
    if scene.state.pane is Pane.STEPS:
        middle = middle_step(scene, one[0], one[1])
        return "" if middle is None else f"it {middle}"
    ranks = [label for label in scene.ranks if label != one[0]]
    return rank_name(ranks[0]) if ranks else ""


def suggestions(text: str, scene: Scene) -> list[str]:
    """What enter takes where nothing was typed."""
    found = suggestion(scene)
    return [found] if found and found.startswith(text) else []


def middle_step(scene: Scene, label: str, other_than: int | None) -> int | None:
    """The step of a rank whose length is the median of its other steps."""
    parts = steps_told(scene)
    if parts is None or label not in parts.labels:
        return None
    lengths = parts.length_ns[:, parts.labels.index(label)].tolist()
    known = sorted(
        (length, step)
        for length, step in zip(lengths, parts.steps, strict=True)
        if length and step != other_than
    )
    return known[len(known) // 2][1] if known else None


def parse_versus(text: str, scene: Scene) -> ViewState:
    """Lay the rank and step under the cursor over those that a text names: ``r3``, ``it 4``.

    Raises GrammarError where there is no such rank or step, or both sides are one.
    """
    one = here(scene)
    if one is None:
        raise GrammarError("no rank is selected")
    rank, step = one
    text = text.strip() or suggestion(scene)
    rest = _PART.sub("", text).strip(" ,")
    found = list(_PART.finditer(text))
    if rest or not found:
        raise GrammarError("a rank, a step or both: r3   it 4   r3 it 4")
    for part in found:
        if part["rank"] is not None:
            rank = _rank(part["rank"], scene)
        else:
            step = _step(int(part["step"]), scene)
    if (rank, step) == one:
        raise GrammarError("that is what is selected: name another rank or step")
    drawer = Drawer(focused=True, shown=Shown.VERSUS)
    return replace(scene.state, versus=Versus(one, (rank, step)), drawer=drawer)


def _rank(text: str, scene: Scene) -> str:
    lanes = scene.findings.lanes
    found = next((label for label in lanes if text in (label, rank_name(label))), None)
    if found is None:
        raise GrammarError(f"no rank {text!r}; there are {', '.join(list(lanes)[:8])}")
    return found


def _step(number: int, scene: Scene) -> int:
    known = [step.id for step in scene.findings.steps]
    if number not in known:
        there = f"there are {known[0]} to {known[-1]}" if known else "the traces have no steps"
        raise GrammarError(f"no step {number}: {there}")
    return number


def rows(scene: Scene) -> list[int]:
    """Rows of the comparison in the order of the drawer."""
    found, drawer = versus(scene), scene.state.drawer
    if found is None or drawer is None:
        return []
    return found.largest_first.tolist() if drawer.by_size else list(range(len(found)))


def sort_rows(scene: Scene) -> ViewState:
    """Largest changes first, or in order."""
    drawer = scene.state.drawer
    if drawer is None:
        return scene.state
    return replace(scene.state, drawer=replace(drawer, by_size=not drawer.by_size, row=0))


def why_not_sort(scene: Scene) -> str | None:
    """What keeps rows from being sorted."""
    return None if versus(scene) is not None else "nothing is compared: V compares"


def enter(scene: Scene) -> ViewState:
    """The kernel of a row of the comparison on the timeline."""
    found, drawer, order = versus(scene), scene.state.drawer, rows(scene)
    if found is None or drawer is None or not order:
        return scene.state
    row = order[min(drawer.row, len(order) - 1)]
    side = 0 if found.dur_ns[0, row] >= 0 else 1
    label = found.sides[side].label
    at = int(found.origin_ns[side] + found.start_ns[side, row]) - scene.findings.origin_ns
    state = replace(scene.state.select(rank=label), pane=Pane.TIMELINE)
    return to_time(scene.with_state(state), at)
