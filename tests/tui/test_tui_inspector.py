"""The inspector in a running explorer: what opens it, what it shows, and its links."""

from __future__ import annotations

import pytest
from explorers import Settle, Start, appears, pane, shows, typed

from ccltui.metrics.inspection.event_report import inspect_event
from ccltui.metrics.view.job_view import View
from ccltui.tui.action_list import by_id
from ccltui.tui.app import Explorer
from ccltui.tui.export import command_line, rows_of
from ccltui.tui.moves import drawer
from ccltui.tui.state.pane_states import EVENTS, TIMELINE
from ccltui.tui.state.view_state import Shown


def to_link(app: Explorer, relation: str) -> list[str]:
    """Keys that put the cursor on the first link of a relation and follow it."""
    relations = [link.relation for link in drawer.event_links(app.scene)]
    return ["g", "g", *["j"] * relations.index(relation), "enter"]


@pytest.mark.parametrize("keys", [("2", "]"), ("2", "]", "3"), ("4",), ("4", "C"), ("*",)])
async def test_every_pane_with_events_opens_the_one_under_its_cursor(
    start: Start, settle: Settle, keys: tuple[str, ...]
) -> None:
    app = start()
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        await typed(pilot, *keys, "E")

        assert drawer.shows(app.scene, Shown.EVENT)
        found, job = drawer.event_report(app.scene), app.scene.session.job
        assert found is not None
        assert found.is_complete
        assert job is not None
        assert found == inspect_event(View(job), found.event)
        assert await appears(pilot, f"── r{found.event.rank} ")
        assert await appears(pilot, "duration ")
        rows = list(rows_of(app.scene))
        assert rows[0] == {"fact": "name", "value": found.name, "unit": None, "reason": None}
        await typed(pilot, "escape")
        assert app.scene.state.drawer is None


async def test_enter_opens_device_work_as_it_is_and_a_collective_with_its_cause(
    start: Start, settle: Settle
) -> None:
    app = start()
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        await typed(pilot, "4", "C", "enter")
        assert drawer.shows(app.scene, Shown.EVENT)
        await typed(pilot, "escape", "C", "enter")
        assert drawer.shows(app.scene, Shown.COLLECTIVE)
        await typed(pilot, "escape", "3", "]", "enter")
        assert drawer.shows(app.scene, Shown.COLLECTIVE)


async def test_links_move_the_cursor_of_every_pane(start: Start, settle: Settle) -> None:
    app = start()
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        await typed(pilot, "4", "C", "E")
        before = drawer.event_report(app.scene)
        assert before is not None
        following = next(link for link in before.links if link.relation == "next")
        await typed(pilot, *to_link(app, "next"))

        found = drawer.event_report(app.scene)
        assert found is not None
        assert (found.event, found.name) == (following.event, before.name)
        assert pane(app) == EVENTS
        assert app.scene.state.selection.time_ns == found.start_ns
        await typed(pilot, *to_link(app, "previous"))
        back = drawer.event_report(app.scene)
        assert back is not None
        assert back.event == before.event


async def test_a_peer_is_on_another_rank(start: Start, settle: Settle) -> None:
    app = start()
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        await typed(pilot, "2", "]", "3", "E")
        rank = app.scene.state.selection.rank
        await typed(pilot, *to_link(app, "peer"))

        assert pane(app) == TIMELINE
        assert app.scene.state.selection.rank != rank
        assert drawer.shows(app.scene, Shown.EVENT)
        await typed(pilot, "backspace")
        assert app.scene.state.selection.rank == rank


async def test_the_copied_command_prints_the_event(start: Start, settle: Settle) -> None:
    app = start(path="/jobs/a b")
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        await typed(pilot, "4", "C", "E")
        found = drawer.event_report(app.scene)
        assert found is not None

        assert command_line(app.scene, app.options) == (
            f"ccltui inspect '/jobs/a b' --rank {found.event.rank} --kind gpu "
            f"--row {found.event.row}"
        )


async def test_rows_below_the_links_scroll_the_facts(start: Start, settle: Settle) -> None:
    app = start()
    async with app.run_test(size=(80, 24)) as pilot:
        await settle(pilot)
        await typed(pilot, "2", "]", "3", "E")
        assert await appears(pilot, "more lines")
        assert await appears(pilot, "kind kernel")
        await typed(pilot, "G")
        assert not shows(app, "kind kernel")
        assert not shows(app, "more lines")
        why = by_id("open.detail").why_not(app.scene)
        assert why == "k goes back to the links"
        await typed(pilot, "g", "g")
        assert await appears(pilot, "kind kernel")


def test_the_action_says_why_there_is_no_event(start: Start) -> None:
    scene = start().scene
    why = by_id("open.event").why_not(scene)

    assert why is not None
    assert why


async def test_a_pane_whose_cursor_is_on_another_thing_closes_the_inspector(
    start: Start, settle: Settle
) -> None:
    app = start()
    async with app.run_test(size=(120, 40)) as pilot:
        await settle(pilot)
        await typed(pilot, "2", "]", "3", "E", "4")
        assert drawer.shows(app.scene, Shown.EVENT)  # the same cursor
        await typed(pilot, "*")
        assert app.scene.state.drawer is None
        await typed(pilot, "E")
        assert drawer.shows(app.scene, Shown.EVENT)
        await typed(pilot, "3")
        assert app.scene.state.drawer is None
