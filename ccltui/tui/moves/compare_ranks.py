"""Open the block of a kernel, or the comparison of two ranks or steps."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ccltui.parsers.errors import GrammarError
from ccltui.tui.moves.cursor import to_time
from ccltui.tui.state.pane import pane_in_view
from ccltui.tui.state.pane_names import TIMELINE
from ccltui.tui.state.scene import Scene, rank_name
from ccltui.tui.state.view_state import Drawer, Shown, Versus, ViewState
from ccltui.tui.state.wanted_queries import block_query, versus_query, waterfall_query

if TYPE_CHECKING:
    from ccltui.metrics.compare.step_diff import StepDiff, Waterfall
    from ccltui.metrics.device.repetition import Block

_PART = re.compile(r"r\s*(?P<rank>\S+)|it(?:er)?\s*(?P<step>\d+)", re.IGNORECASE)


def kernel_row(scene: Scene) -> tuple[str, int] | None:
    """Return rank and row of the device work under the cursor, None where there is none."""
    if scene.state.selection.rank not in scene.findings.lanes:
        return None
    return pane_in_view(scene).kernel_row(scene)


def why_no_block(scene: Scene) -> str | None:
    """Return the reason when :func:`show_block` has no block to show."""
    return pane_in_view(scene).why_no_kernel(scene) if kernel_row(scene) is None else None


def show_block(scene: Scene) -> ViewState:
    """Show the block that begins with the kernel under the cursor."""
    drawer = Drawer(focused=True, shown=Shown.BLOCK)
    return replace(scene.state, block=kernel_row(scene), drawer=drawer)


def block(scene: Scene) -> Block | None:
    """Return the block in the drawer, None until it is computed."""
    return scene.answers.answer(block_query(scene))


def versus(scene: Scene) -> StepDiff | None:
    """Return the comparison in the drawer, None until it is computed."""
    return scene.answers.answer(versus_query(scene))


def waterfall(scene: Scene) -> Waterfall | None:
    """Return the parts of the difference of both sides, None until they are computed."""
    return scene.answers.answer(waterfall_query(scene))


def problem(scene: Scene) -> str:
    """Return the reason why the drawer is empty, "" while its answer is not known yet."""
    return scene.answers.problem(block_query(scene) or versus_query(scene))


def here(scene: Scene) -> tuple[str, int | None] | None:
    """Return the rank and the step under the cursor, as defined by the pane in view."""
    return pane_in_view(scene).side(scene)


def why_no_versus(scene: Scene) -> str | None:
    """Return the reason when two sides cannot be compared."""
    return "no rank is selected" if here(scene) is None else None


def suggestion(scene: Scene) -> str:
    """Return the side to compare with that the pane in view suggests; "" for none."""
    one = here(scene)
    return "" if one is None else pane_in_view(scene).suggested_side(scene, one)


def suggestions(text: str, scene: Scene) -> list[str]:
    """Return the answers that enter accepts where nothing was typed."""
    found = suggestion(scene)
    return [found] if found and found.startswith(text) else []


def parse_versus(text: str, scene: Scene) -> ViewState:
    """Compare the rank and step under the cursor with those in a text: ``r3``, ``it 4``.

    Raises GrammarError where there is no such rank or step, or both sides are one.
    """
    one = here(scene)
    if one is None:
        raise GrammarError("no rank is selected")
    rank, step = one
    text = text.strip() or suggestion(scene)
    if not text and len(scene.findings.steps) > 1:
        last = scene.findings.steps[-1].id
        raise GrammarError(f"no other rank is recorded: name a step, as in it {last}")
    if not text:
        raise GrammarError("there is one rank and one step alone: nothing to compare with")
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
    """Return rows of the comparison in the order of the drawer."""
    found, drawer = versus(scene), scene.state.drawer
    if found is None or drawer is None:
        return []
    return found.largest_first.tolist() if drawer.by_size else list(range(len(found)))


def sort_rows(scene: Scene) -> ViewState:
    """Switch between largest changes first and the original order."""
    drawer = scene.state.drawer
    if drawer is None:
        return scene.state
    return replace(scene.state, drawer=replace(drawer, by_size=not drawer.by_size, row=0))


def why_not_sort(scene: Scene) -> str | None:
    """Return the reason when rows cannot be sorted."""
    return None if versus(scene) is not None else "nothing is compared: V compares"


def enter(scene: Scene) -> ViewState:
    """Show the kernel of a row of the comparison on the timeline."""
    found, drawer, order = versus(scene), scene.state.drawer, rows(scene)
    if found is None or drawer is None or not order:
        return scene.state
    row = order[min(drawer.row, len(order) - 1)]
    side = 0 if found.dur_ns[0, row] >= 0 else 1
    label = found.sides[side].label
    at = int(found.origin_ns[side] + found.start_ns[side, row]) - scene.findings.origin_ns
    state = replace(scene.state.select(rank=label), pane=TIMELINE)
    return to_time(scene.with_state(state), at)
