"""The mouse: clicks select what is under the mouse, the wheel zooms there, a drag measures."""

from __future__ import annotations

import pytest
from explorers import Settle, Start
from fakes import Plan, scene, trace
from msgspec.structs import replace
from textual import events
from textual.pilot import Pilot

from ccltui.draw.planes import Planes
from ccltui.parsers.columns import Note
from ccltui.tui.app import Explorer
from ccltui.tui.input import control
from ccltui.tui.panes import first_screen, pictures
from ccltui.tui.panes.metrics import METRICS as PANE
from ccltui.tui.panes.metrics import REMARKS, UNAVAILABLE
from ccltui.tui.state.pane import gutter
from ccltui.tui.state.pane_states import (
    ALIGNMENT,
    EVENTS_STATE,
    METRICS,
    OVERVIEW,
    RANKS,
    STEPS,
    TIMELINE,
)
from ccltui.tui.state.scene import Scene
from ccltui.tui.state.view_state import Area, Drawer, Shown


def mouse_event(
    kind: type[events.MouseEvent], x: int, y: int, **more: bool | int
) -> events.MouseEvent:
    """An event as a driver posts it."""
    options: dict[str, bool | int] = {"button": 1, "shift": False, **more}
    return kind(
        None, x, y, 0, 0, int(options["button"]), bool(options["shift"]), False, False, x, y
    )


async def send(pilot: Pilot[int], *sent: events.MouseEvent) -> None:
    for event in sent:
        assert isinstance(pilot.app, Explorer)
        pilot.app.on_mouse_down(event)
    await pilot.pause()


def row_of(found: Scene, name: str) -> tuple[int, int]:
    """Row of a rank in the picture of the timeline_pane, and the width of its labels."""
    planes = pictures.paint_timeline(found, 30, 80)
    for y in range(planes.height):
        if planes.row_text(y)[1 : gutter(found)].strip() == name:
            return y, gutter(found)
    raise AssertionError(name)


def test_a_click_on_the_timeline_selects_rank_and_time() -> None:
    found = scene(pane=TIMELINE)
    y, left = row_of(found, "r3")
    planes = pictures.paint_timeline(found, 30, 80)

    for row in (y, y + 1):  # the network row is of the same rank
        state = control.clicked(found, planes, left + 10, row)
        assert state.selection.rank == "3"
        assert state.selection.time_ns == (found.state.time.k0 + 10) * found.state.time.cell_ns
    label = control.clicked(found, planes, 2, y)
    assert label.selection.rank == "3"
    assert label.selection.time_ns == found.state.selection.time_ns


def test_a_click_on_the_heat_map_selects_the_latest_of_a_cell() -> None:
    found = scene()
    planes = pictures.paint_alignment(found, 20, 80)
    at = gutter(found) + found.state.columns.repeat * 40 // found.state.columns.per_cell

    state = control.clicked(found, planes, at, 3)

    assert state.selection.k == 40
    assert state.selection.rank == "2"
    beyond = control.clicked(found, planes, 79, 3)
    assert beyond.selection.k in (found.state.selection.k, 83)


@pytest.mark.parametrize("ranks", [64, 300])
def test_a_row_shared_by_ranks_selects_the_first(ranks: int) -> None:
    found = scene(Plan(ranks=ranks))
    planes = pictures.paint_alignment(found, 20, 80)

    state = control.clicked(found, planes, 2, 3)

    text = planes.row_text(3)[1 : gutter(found)].strip()
    assert text.startswith(f"r{state.selection.rank}")


def test_the_wheel_zooms_at_the_pointer_and_pans_with_shift() -> None:
    found = scene(pane=TIMELINE)
    x = gutter(found) + 30
    before = control.time_at(found, x)

    closer = found.with_state(control.turned(found, x, up=True, shifted=False))
    assert closer.state.time.cell_ns < found.state.time.cell_ns
    assert abs(control.time_at(closer, x) - before) <= closer.state.time.cell_ns
    panned = control.turned(closer, x, up=False, shifted=True)
    assert panned.time.k0 == closer.state.time.k0 + closer.state.time.cells // 10
    wide = control.turned(closer, x, up=False, shifted=False)
    assert wide.time.cell_ns > closer.state.time.cell_ns


def test_a_drag_measures_within_the_view() -> None:
    found = scene(pane=TIMELINE)
    start = control.time_at(found, gutter(found) + 5)

    state = control.dragged(found, start, 10_000)

    assert state.area == Area(start, found.state.time.right_ns)
    assert state.time == found.state.time


def with_remarks(found: Scene) -> Scene:
    """The scene with two remarks, one of several lines."""
    job = found.session.job
    assert job is not None
    notes = (Note("truncated_trace", "cut " * 60), Note("malformed_event", "one is odd"))
    job = replace(job, ranks=(trace(Plan(), 0, notes), *job.ranks[1:]))
    return replace(found, session=replace(found.session, job=job))


@pytest.mark.parametrize("width", [80, 120, 200])
def test_a_click_in_overview_shows_evidence_or_selects_the_row_under_it(width: int) -> None:
    found = with_remarks(scene(pane=OVERVIEW))
    planes = first_screen.paint(found, 40, width)
    rows = [(y, 3, row) for y, row in planes.listed.items()]
    rows += [(y, x + 3, row) for y, (x, row) in planes.beside.items()]
    panes = {row: control.clicked(found, planes, x, y).pane for y, x, row in rows}
    # three findings, the last without a place; rank 5, and seven that are alike
    assert panes == {0: ALIGNMENT, 1: TIMELINE, 2: OVERVIEW, 3: TIMELINE, 4: RANKS}
    titles = [y for y in range(40) if y not in planes.listed and y not in planes.beside]
    assert all(control.clicked(found, planes, 3, y) == found.state for y in titles)


@pytest.mark.parametrize("width", [80, 120, 200])
def test_a_click_in_metrics_selects_the_row_under_it(width: int) -> None:
    found = with_remarks(scene(pane=METRICS))
    planes = PANE.paint(found, 60, width)
    groups = set()
    for y, row in planes.listed.items():
        state = control.clicked(found, planes, 3, y)
        groups.add(PANE.rows(found)[row].group)
        after = PANE.paint(found.with_state(state), 60, width)
        assert after.row_text(y)[0] == "▶", planes.row_text(y)
    assert groups >= {UNAVAILABLE, REMARKS, "#other"}


def test_a_click_in_a_list_takes_the_focus_from_the_drawer() -> None:
    found = scene(pane=STEPS)
    state = replace(found.state, drawer=Drawer(focused=True, shown=Shown.VERSUS))
    planes = Planes.blank(9, 80, 0)
    planes.listed[3] = 0

    after = control.clicked(found.with_state(state), planes, 3, 3)

    assert after.drawer == Drawer(shown=Shown.VERSUS)
    assert control.clicked(found.with_state(state), planes, 3, 4) == state


async def test_in_the_explorer(start: Start, settle: Settle) -> None:
    app = start()
    async with app.run_test(size=(100, 30)) as pilot:
        await settle(pilot)
        tab = "".join(t for t, _ in app._front._texts["tabs"]._lines[0]).index("3 Time")
        await send(pilot, mouse_event(events.MouseDown, tab, 1))
        assert app.scene.state.pane == TIMELINE
        await settle(pilot)  # what is dragged must have been drawn
        left = gutter(app.scene)

        await send(
            pilot,
            mouse_event(events.MouseDown, left + 10, 5),
            mouse_event(events.MouseMove, left + 20, 6),
            mouse_event(events.MouseMove, left + 40, 6),
            mouse_event(events.MouseUp, left + 40, 6),
            mouse_event(events.MouseMove, left + 60, 6, button=0),
        )
        area = app.scene.state.area
        assert area is not None
        assert area.end_ns is not None
        assert area.end_ns - area.start_ns == 30 * app.scene.state.time.cell_ns

        await send(pilot, mouse_event(events.MouseScrollUp, left + 30, 5))
        closer = app.scene.state.time.cell_ns
        await send(pilot, mouse_event(events.MouseScrollDown, left + 30, 5))
        assert app.scene.state.time.cell_ns > closer

        await pilot.press("4")
        await pilot.pause()
        await send(pilot, mouse_event(events.MouseDown, 5, 8))
        chosen = EVENTS_STATE.of(app.scene.state).chosen
        await send(pilot, mouse_event(events.MouseScrollDown, 5, 8))
        assert EVENTS_STATE.of(app.scene.state).chosen != chosen


async def test_prompts_and_covered_panes_ignore_clicks(start: Start, settle: Settle) -> None:
    app = start()
    async with app.run_test(size=(100, 30)) as pilot:
        await settle(pilot)
        await pilot.press("3")
        await settle(pilot)
        for key, out in ((":", "escape"), ("?", "escape"), ("t", "escape")):
            await pilot.press(key)
            await settle(pilot)  # the prompt takes a row of the pane
            before = app.scene.state
            await send(
                pilot,
                mouse_event(events.MouseDown, 20, 5),
                mouse_event(events.MouseScrollUp, 20, 5),
            )
            assert replace(app.scene.state, drawer=None) == replace(before, drawer=None)
            await pilot.press(out)
        await settle(pilot)
        before = app.scene.state
        await send(
            pilot,
            mouse_event(events.MouseDown, 20, 5, button=3),
            mouse_event(events.MouseDown, 20, 29),
        )
        assert app.scene.state == before
