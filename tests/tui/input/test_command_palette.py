"""The command palette: every action by name, places and counts."""

from __future__ import annotations

import pytest
from explorers import Settle, Start
from fakes import Plan, scene

from ccltui.tui.action_list import all_actions, by_id
from ccltui.tui.input.picker import Commands
from ccltui.tui.input.prompted_list import Chosen, Prompt
from ccltui.tui.state.pane_states import ALIGNMENT, EVENTS, OVERVIEW, TIMELINE
from ccltui.tui.state.scene import Scene


def typed(text: str) -> Commands:
    return Commands(Prompt.asking("Commands", text))


def names(text: str, found: Scene) -> list[str]:
    return [entry.name for entry in typed(text).entries(found, {})]


def chosen(text: str, found: Scene) -> Chosen:
    after = typed(text).press("enter", None, found, {})
    assert isinstance(after, Chosen)
    return after


def test_every_action_is_listed_and_those_of_the_pane_first() -> None:
    found = names("", scene(pane=EVENTS))

    assert sorted(found) == sorted(action.id for action in all_actions())
    here = [by_id(name).works_in(EVENTS) for name in found]
    assert here == sorted(here, reverse=True)


def test_words_match_the_name_or_the_help() -> None:
    assert names("next worst", scene())[0] == "stragglers.next"
    assert names("zoom.", scene()) == ["zoom.in", "zoom.out", "zoom.fit", "zoom.centre"]
    assert names("no such thing", scene()) == []


def test_an_abbreviation_matches_and_words_of_the_help_come_before_it() -> None:
    found = names("meas", scene(pane=TIMELINE))

    assert found[0] == "measure.area"
    assert "measure.area" in names("msr", scene(pane=TIMELINE))


def test_of_equal_words_what_is_used_more_comes_first() -> None:
    found, prompt = scene(), Prompt.asking("Commands", "zoom")
    usual = [entry.name for entry in Commands(prompt).entries(found, {})]
    used = [entry.name for entry in Commands(prompt, uses={usual[1]: 3}).entries(found, {})]

    assert used[0] == usual[1]
    assert sorted(used) == sorted(usual)
    all_used = [e.name for e in Commands(uses={"out.export": 2}).entries(found, {})]
    assert all_used[0] == "out.export"


def test_a_key_matches_its_action_also_after_a_count() -> None:
    assert chosen("]", scene()) == Chosen(by_id("stragglers.next"))
    assert chosen("5]", scene()) == Chosen(by_id("stragglers.next"), 5)
    assert chosen("12 move.right", scene()) == Chosen(by_id("move.right"), 12)
    assert chosen("999999999 l", scene()).times == 9999
    assert names("3 zoom.in", scene()) == ["3 x zoom.in"]


def test_a_place_changes_the_view() -> None:
    found = scene()

    assert names("k 40", found) == ["go to k 40"]
    state = chosen("k 40", found).state
    assert state is not None
    assert state.selection.k == 40
    assert names("r5", found)[0] == "go to r5"
    assert names("k 9999", found) == []


def test_an_action_that_cannot_act_shows_why_and_keeps_the_palette_open() -> None:
    one = scene(Plan(ranks=1))
    entry = typed("stragglers.next").entries(one, {})[0]
    assert entry.why_not == "no collective is matched across ranks"

    after = typed("stragglers.next").press("enter", None, one, {})
    assert isinstance(after, Commands)
    assert after.prompt.problem == "no collective is matched across ranks"

    merge = typed("view.merge").entries(scene(pane=OVERVIEW), {})[0]
    assert merge.why_not == "works in 3 Timeline"

    nothing = typed("x y z").press("enter", None, one, {})
    assert isinstance(nothing, Commands)
    assert nothing.prompt.problem == "no command or place is called 'x y z'"


def test_arrows_select_rows_within_the_list() -> None:
    found = scene()
    commands = typed("zoom")
    for key, row in (
        ("up", 0),
        ("down", 1),
        ("pagedown", 5),
        ("ctrl+p", 4),
        ("pageup", 0),
        ("down", 1),
        ("down", 2),
        ("home", 2),
    ):
        after = commands.press(key, None, found, {})
        assert isinstance(after, Commands)
        assert after.row == row
        commands = after
    assert commands.press("enter", None, found, {}) == Chosen(by_id("zoom.fit"))
    assert commands.press("x", "x", found, {}) == Commands(Prompt("Commands", "xzoom", 1))
    assert commands.press("escape", None, found, {}) is None
    assert Commands().press("backspace", None, found, {}) is None


@pytest.mark.parametrize(("width", "height"), [(70, 18), (120, 40)])
def test_a_page_is_as_large_as_the_screen(width: int, height: int) -> None:
    page = Commands(row=30).page(scene(), {}, width, height)

    assert len(page) == height
    assert {sum(len(text) for text, _ in line) for line in page} == {width}
    assert sum(line[0][0].startswith("▶") for line in page) == 1


async def test_in_the_explorer(start: Start, settle: Settle) -> None:
    app = start()
    async with app.run_test(size=(100, 30)) as pilot:
        await settle(pilot)
        await pilot.press("2", ":", *"2]", "enter")
        assert app.scene.state.worst == 1

        await pilot.press("ctrl+p", *"goto r3", "escape", ":", *"r3", "enter")
        assert app.scene.state.selection.rank == "3"

        await pilot.press(":", *"window", "enter")
        await pilot.press(*"10ms/", "enter")
        assert app.scene.session.filter.window is not None

        await pilot.press(":", *"no such", "enter", "escape", "j")
        assert app.scene.state.pane == ALIGNMENT
