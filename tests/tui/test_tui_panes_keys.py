"""Keys of the panes in a running explorer: what each changes, and that what it asks is answered."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from explorers import Settle, Start, typed

from ccltui.tui.moves import drawer
from ccltui.tui.moves.drawer import described
from ccltui.tui.panes.metrics import METRICS as METRICS_PANE
from ccltui.tui.panes.metrics import UNAVAILABLE
from ccltui.tui.panes.steps import STEPS as STEPS_PANE
from ccltui.tui.state.pane_states import (
    ALIGNMENT,
    ALIGNMENT_STATE,
    METRIC,
    METRICS,
    OVERVIEW,
    OVERVIEW_STATE,
    STEPS,
    TIMELINE,
    TIMELINE_STATE,
    Section,
)
from ccltui.tui.state.scene import Scene
from ccltui.tui.state.view_state import Layout, Order, Shown
from ccltui.tui.state.wanted_queries import parts_of_steps, stream_query

Check = Callable[[Scene], object]

KEYS: dict[str, tuple[tuple[str, ...], Check]] = {
    "pane.steps": (("6",), lambda s: s.state.pane == STEPS and parts_of_steps(s) is not None),
    "open.metric": (("M", "enter"), lambda s: s.state.pane == METRIC),
    "open.ranks of a loss": (("1", "enter"), lambda s: s.state.pane == ALIGNMENT),
    "open.ranks of a rank": (
        ("1", *"jjj", "enter"),
        lambda s: (s.state.pane, s.state.selection.rank) == (TIMELINE, "5"),
    ),
    "view.fold": (("M", "space"), lambda s: METRICS_PANE.own.of(s.state).toggled),
    "view.unavailable": (("M", "u"), lambda s: UNAVAILABLE in METRICS_PANE.own.of(s.state).toggled),
    "sorted from Overview": (
        ("1", "o"),
        lambda s: s.state.pane == METRICS and METRICS_PANE.sorting(s).column == "metrics",
    ),
    "filtered from Overview": (
        ("1", "/", *"step", "enter"),
        lambda s: s.state.pane == METRICS and METRICS_PANE.row_pattern(s) == "step",
    ),
    "rows.columns": (
        ("M", "|", *"min", "enter"),
        lambda s: METRICS_PANE.own.of(s.state).hidden_columns == {"min"},
    ),
    "back to the first screen": (("M", "enter", "M", "M"), lambda s: s.state.pane == OVERVIEW),
    "open.loss": (("!",), lambda s: s.state.selection.rank == "5" and described(s) is not None),
    "open.step": (("6", "enter"), lambda s: s.session.filter.steps == (2, 2)),
    "open.step again": (("6", "enter", "enter"), lambda s: s.session.filter.steps is None),
    "stragglers.raise_floor": (("3", ">"), lambda s: s.floor_ns == 200_000),
    "stragglers.lower_floor": (("4", "<"), lambda s: s.floor_ns == 50_000),
    "zoom.centre": (("2", "]", "f", "f"), lambda s: s.state.columns.repeat == 8),
    "rows.in": (("2", "ctrl+w"), lambda s: ALIGNMENT_STATE.of(s.state).ranks_in_view == 4),
    "rows.out": (("3", "ctrl+s"), lambda s: TIMELINE_STATE.of(s.state).ranks_per_lane == 2),
    "view.order": (("3", "o", "o"), lambda s: s.state.order is Order.NODE),
    "view.pin": (("3", "j", "p"), lambda s: s.ranks[0] == "6"),
    "view.unfold": (("3", "u"), lambda s: s.answers.to(stream_query(s)) is not None),
    "view.scale": (("2", "z"), lambda s: ALIGNMENT_STATE.of(s.state).linear),
    "view.layout": (("2", "|"), lambda s: s.state.layout is Layout.SIDE),
    "view.maximise": (("2", "x"), lambda s: s.state.maximised),
    "view.merge": (("3", "b"), lambda s: TIMELINE_STATE.of(s.state).merged),
    "filter.kernels": (
        ("3", "C", *"copies", "enter"),
        lambda s: TIMELINE_STATE.of(s.state).kernels == "copies",
    ),
    "rows.sort": (("6", "o"), lambda s: STEPS_PANE.sorting(s).column == "step"),
    "rows.sort_back": (("6", "h"), lambda s: STEPS_PANE.sorting(s).column == "idle"),
    "rows.reverse": (("6", "O"), lambda s: STEPS_PANE.sorting(s).reverse),
    "compare.block": (("2", "]", "3", "R"), lambda s: drawer.repeated_block(s) is not None),
    "compare.versus": (("3", "V", *"r4", "enter"), lambda s: drawer.versus(s) is not None),
    "compare.sort": (("3", "V", "enter", "O"), lambda s: s.state.drawer and s.state.drawer.by_size),
    "versus, then enter": (
        ("6", "V", "enter", "enter"),
        lambda s: s.state.pane == TIMELINE and s.state.selection.time_ns is not None,
    ),
    "out.rows": (("6", "Y"), lambda s: s.said == "copied: 48 rows"),
    "move.down": (
        ("6", "j"),
        lambda s: STEPS_PANE.own.of(s.state).chosen not in (2, None),
    ),
    "move.last_row": (("1", "G"), lambda s: OVERVIEW_STATE.of(s.state).section is Section.RANKS),
    "app.back": (("2", "x", "escape"), lambda s: not s.state.maximised),
    "back from a comparison": (("3", "V", "enter", "escape"), lambda s: s.state.drawer is None),
    "the other detail": (
        ("3", "V", "enter", "tab", "enter"),
        lambda s: s.state.drawer and s.state.drawer.shown is Shown.COLLECTIVE,
    ),
}


@pytest.mark.parametrize("name", KEYS)
async def test_a_key_does_what_it_says(start: Start, settle: Settle, name: str) -> None:
    keys, check = KEYS[name]
    async with start().run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        scene = (await typed(pilot, *keys)).scene

        assert check(scene), scene.notice


@pytest.mark.parametrize(
    ("keys", "visible"),
    [
        (("2",), {"alignment", "timeline"}),
        (("2", "|"), {"alignment", "timeline"}),
        (("3", "|", "|"), {"timeline"}),
        (("3", "x"), {"timeline"}),
        (("2", "]", "enter", "x"), {"alignment"}),
        (("2", "]", "enter", "tab", "x"), {"drawer"}),
        (("2", "]", "enter"), {"alignment", "timeline", "drawer"}),
        (("2", "]", "enter", "1"), {"overview"}),
        (("2", "]", "enter", "6"), {"steps"}),
    ],
)
async def test_what_a_wide_screen_shows(
    start: Start, settle: Settle, keys: tuple[str, ...], visible: set[str]
) -> None:
    async with start().run_test(size=(200, 50)) as pilot:
        await settle(pilot)
        await typed(pilot, *keys)

        panes = pilot.app.screen.query("#panes > *")
        assert {pane.id for pane in panes if pane.display} == visible


async def test_side_by_side_each_chart_has_its_own_width(start: Start, settle: Settle) -> None:
    async with start().run_test(size=(200, 50)) as pilot:
        await settle(pilot)
        scene = (await typed(pilot, "2", "|")).scene

        left, right = (pilot.app.screen.query_one(f"#{one}") for one in ("alignment", "timeline"))
        assert left.size.width + right.size.width == 200
        assert (
            left.size.width - scene.state.columns.cells == right.size.width - scene.state.time.cells
        )
        assert left.size.height == right.size.height > 40
