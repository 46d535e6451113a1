"""The block of a kernel, and two ranks or steps laid over each other."""

from __future__ import annotations

import pytest
from fakes import Plan, full_job, own_changed, scene
from msgspec.structs import replace

from ccltui.metrics.view.job_view import View
from ccltui.parsers.errors import GrammarError
from ccltui.tui.engine import analysis
from ccltui.tui.export import rows_of, tabular
from ccltui.tui.moves import drawer, view_moves
from ccltui.tui.panes import collective_drawer
from ccltui.tui.panes.steps import middle_step
from ccltui.tui.state.answers import ViewQuery
from ccltui.tui.state.pane_states import DEVICE, EVENTS, EVENTS_STATE, STEPS, TIMELINE
from ccltui.tui.state.scene import Scene
from ccltui.tui.state.view_state import Shown, Versus
from ccltui.tui.state.wanted_queries import answered, block_query, versus_query, wanted


def told(found: Scene, plan: Plan | None = None) -> Scene:
    """The scene with everything that its panes ask about."""
    view = View(full_job(plan or Plan()))
    for query in wanted(found):
        assert isinstance(query, ViewQuery)
        found = answered(found, analysis.answer(view, found, query))
    return found


def picture(found: Scene, height: int = 14, width: int = 100) -> list[str]:
    planes = collective_drawer.paint(found, height, width)
    return [planes.row_text(y).rstrip() for y in range(planes.height)]


def at_kernel() -> Scene:
    """The cursor is on a gemm of rank 1, in step 0."""
    found = scene(pane=TIMELINE)
    return found.with_state(found.state.select(rank="1", time_ns=100_000))


def with_block() -> Scene:
    found = at_kernel()
    return told(found.with_state(drawer.show_block(found)))


def test_the_block_of_the_kernel_under_the_cursor() -> None:
    found = with_block()

    assert drawer.why_no_block(at_kernel()) is None
    assert found.state.block == ("1", 0)
    shown = picture(found)
    assert shown[0].startswith("── repeating block of 1 kernel on stream 7 ─")
    assert shown[1].startswith(" 664 repetitions on 8 of 8 ranks   one every 1.16 ms")
    assert shown[3].split()[:2] == ["▶1", "sm90_xmma_gemm_bf16"]
    assert shown[3].split()[-1] == "664"
    assert drawer.why_not_enter(found) == "a block has no link to follow: Y copies it"
    assert view_moves.count(found) == 1


def test_a_block_can_be_copied_as_rows() -> None:
    text, count = tabular(with_block())

    assert count == 1
    head, row = text.splitlines()
    assert head.split("\t")[:4] == ["position", "name", "count", "median_ns"]
    assert row.split("\t")[:3] == ["0", "sm90_xmma_gemm_bf16", "664"]


def test_where_no_kernel_is_the_reason_is_given() -> None:
    found = scene(pane=TIMELINE)
    nobody = replace(found.state, selection=replace(found.state.selection, rank=None))
    assert drawer.why_no_block(found.with_state(nobody)) == "no kernel is under the cursor"

    events = scene(pane=EVENTS)
    assert "C lists the device work" in str(drawer.why_no_block(events))
    device = own_changed(events, EVENTS_STATE, kind=DEVICE)
    device = told(device)
    assert drawer.kernel_row(device) is not None


def test_the_last_of_its_kind_says_so_in_the_drawer() -> None:
    found = at_kernel()
    last = len(found.session.job.ranks[1].group("gpu")) - 1  # type: ignore[union-attr]
    found = found.with_state(drawer.show_block(found))
    found = told(found.with_state(replace(found.state, block=("1", last))))

    assert "does not occur again on its stream" in "".join(picture(found)[1:3])
    assert block_query(found) is not None


def against(text: str, start: Scene | None = None) -> Scene:
    found = start or at_kernel()
    return told(found.with_state(drawer.parse_versus(text, found)))


def test_two_ranks_in_the_step_of_the_cursor() -> None:
    found = against("r5")

    assert found.state.versus == Versus(("1", 0), ("5", 0))
    shown = picture(found)
    assert shown[0].startswith("── r5 it 0 against r1 it 0 ─")
    assert shown[1].startswith(" 0 s = ")
    assert "= 28 matched" in shown[2]
    assert "+ 0 added 0 s" in shown[2]
    assert shown[3].startswith(" r1 it 0")
    assert shown[6].split() == ["kernel", "change", "first", "second", "stream", "at"]
    assert shown[7].startswith("▶= ")


def test_two_steps_and_the_largest_change_first() -> None:
    found = against("it 2", at_kernel().with_state(at_kernel().state.select(rank="5")))
    assert found.state.versus == Versus(("5", 0), ("5", 2))

    sorted_ = found.with_state(drawer.sort_rows(found))
    first = picture(sorted_)[7]
    assert "sm90_xmma_gemm_bf16" in first
    assert "+11.9 ms" in first or "+12 ms" in first  # 12 ms of lateness are planted there
    assert drawer.why_not_sort(found) is None
    assert [row["op"] for row in rows_of(sorted_)] == ["matched"] * 28


def test_enter_shows_the_kernel_on_the_timeline() -> None:
    found = against("r5")
    moved = drawer.enter(found.with_state(view_moves.down(1)(found)))

    diff = drawer.versus(found)
    assert diff is not None
    at = diff.origin_ns[0] + int(diff.start_ns[0, 1]) - found.findings.origin_ns
    assert (moved.pane, moved.selection.rank, moved.selection.time_ns) == (TIMELINE, "1", at)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("r99", "no rank '99'; there are 0, 1"),
        ("it 77", "no step 77: there are 0 to 5"),
        ("r1 it 0", "name another rank or step"),
        ("what", "a rank, a step or both"),
        ("r5 and more", "a rank, a step or both"),
    ],
)
def test_other_texts_are_refused(text: str, why: str) -> None:
    with pytest.raises(GrammarError, match=why):
        drawer.parse_versus(text, at_kernel())


def test_enter_alone_compares_with_another_rank_and_in_steps_with_the_middle_step() -> None:
    found = at_kernel()
    assert drawer.suggestions("", found) == ["r0"]
    assert drawer.parse_versus("", found).versus == Versus(("1", 0), ("0", 0))

    steps = told(scene(pane=STEPS))  # the slowest step is chosen, of its slowest rank
    middle = middle_step(steps, "0", 2)
    assert middle is not None
    assert drawer.parse_versus("", steps).versus == Versus(("0", 2), ("0", middle))


def test_a_single_step_is_compared_with_another_rank() -> None:
    plan = Plan(ranks=3, steps=1)
    one = told(scene(plan, pane=STEPS), plan)
    assert drawer.suggestion(one) == "r1"

    plan = Plan(ranks=1, steps=1)
    alone = told(scene(plan, pane=STEPS), plan)
    with pytest.raises(GrammarError, match="one rank and one step alone: nothing to compare"):
        drawer.parse_versus("", alone)

    plan = Plan(ranks=1, steps=3)
    on_timeline = told(scene(plan, pane=TIMELINE), plan)
    with pytest.raises(GrammarError, match="no other rank is recorded: name a step, as in it 2"):
        drawer.parse_versus("", on_timeline)


def test_the_drawer_keeps_what_it_shows_when_the_focus_moves() -> None:
    found = against("r5")
    moved = found.with_state(view_moves.tab(found))

    assert moved.state.drawer is not None
    assert (moved.state.drawer.focused, moved.state.drawer.shown) == (False, Shown.VERSUS)
    assert versus_query(moved) is not None
    assert view_moves.back(moved).drawer is None


def test_a_rank_that_is_gone_is_not_asked_for() -> None:
    found = against("r5")
    gone = replace(found, findings=replace(found.findings, lanes={}))

    assert versus_query(gone) is None
    assert drawer.why_no_versus(gone) == "no rank is selected"
    assert drawer.suggestion(gone) == ""
    with pytest.raises(GrammarError, match="no rank is selected"):
        drawer.parse_versus("r1", gone)
