"""The registry: every key once, every action with help, every refusal with a reason."""

from __future__ import annotations

import pytest
from fakes import Plan, scene

from ccltui.tui.action import Action, Effect, shown
from ccltui.tui.action_list import GROUPS, active, all_actions, by_id
from ccltui.tui.input.keymap import Keymap
from ccltui.tui.input.prompts import OF
from ccltui.tui.panes import PANES
from ccltui.tui.state.pane_states import ALIGNMENT, OVERVIEW, TIMELINE
from ccltui.tui.state.scene import Scene
from ccltui.tui.state.session import Session


def _panes(action: Action) -> list[str]:
    """Names of the panes that an action acts in."""
    return [pane.name for pane in PANES if action.where(pane)]


def test_every_prompt_has_a_question() -> None:
    prompts = {effect for effect in Effect if effect.name.startswith("PROMPT_")}

    assert set(OF) == prompts


def test_ids_are_unique_and_twins_exist() -> None:
    ids = [action.id for action in all_actions()]

    assert len(ids) == len(set(ids))
    for action in all_actions():
        assert action.id.count(".") == 1
        assert not action.pair or _panes(by_id(action.pair)) == _panes(action)
        assert bool(action.pair) == bool(action.pair_help)


@pytest.mark.parametrize("pane", [pane.name for pane in PANES])
def test_no_two_active_actions_share_a_key(pane: str) -> None:
    keys = [key for action in active(pane) for key in action.keys]

    assert len(keys) == len(set(keys))
    firsts = {key.split(" ")[0] for key in keys if " " in key}
    asks = {question.prefix for question in OF.values()}
    assert firsts <= asks  # the prompt takes the second stroke


@pytest.mark.parametrize("action", all_actions(), ids=lambda action: action.id)
def test_every_action_has_help_a_group_and_a_key(action: Action) -> None:
    assert action.help
    assert action.group in GROUPS
    assert action.keys
    assert _panes(action)


@pytest.mark.parametrize("pane", [pane.name for pane in PANES])
def test_in_a_full_scene_every_action_acts_or_says_why_not(pane: str) -> None:
    full = scene(pane=pane)
    for action in active(pane):
        why = action.why_not(full)
        if why is None and not isinstance(action.act, Effect):
            action.act(full)
        else:
            assert why is None or " " in why


@pytest.mark.parametrize("pane", [pane.name for pane in PANES])
@pytest.mark.parametrize("ranks", [0, 1])
def test_with_nothing_to_show_every_action_says_why_or_acts(pane: str, ranks: int) -> None:
    empty = scene(Plan(ranks=1), pane=pane) if ranks else Scene(Session("x"))
    for action in active(pane):
        why = action.why_not(empty)
        if why is None and not isinstance(action.act, Effect):
            action.act(empty)


def test_reasons_name_what_is_missing() -> None:
    one = scene(Plan(ranks=1))

    assert by_id("stragglers.next").why_not(one) == "no collective is matched across ranks"
    assert by_id("filter.communicator").why_not(scene()) == (
        "default_pg 0-7 is the only communicator"
    )
    assert by_id("filter.clear").why_not(one) == "no window is set: t sets one"
    assert by_id("events.next_iteration").why_not(Scene(Session("x"))) == (
        "the traces have no step markers"
    )


def test_keys_lead_to_actions_pane_by_pane() -> None:
    keymap = Keymap()

    assert keymap.press(ALIGNMENT, "", "]").action is by_id("stragglers.next")
    assert keymap.press(OVERVIEW, "", "enter").action is by_id("open.ranks")
    assert keymap.press(TIMELINE, "", "enter").action is by_id("open.detail")
    assert keymap.press(ALIGNMENT, "", "b").problem == "b works in 3 Timeline"
    assert keymap.press(ALIGNMENT, "", "Z").action is by_id("open.chain")
    assert keymap.press(ALIGNMENT, "", "Q").problem == "Q is not a key here: ? lists them"


def test_the_first_of_two_strokes_asks_and_takes_the_second() -> None:
    keymap = Keymap()

    assert keymap.press(TIMELINE, "", "g").action is by_id("find.goto")
    assert keymap.press(TIMELINE, "g", "g").action is by_id("move.first_row")
    assert keymap.press(TIMELINE, "g", "x").problem == "gx is not a key here: ? lists them"


def test_keys_are_shown_as_one_types_them() -> None:
    assert [shown(key) for key in ("g g", "shift+left", "escape", "ctrl+t", "+", "]")] == [
        "gg",
        "shift+←",
        "esc",
        "ctrl+t",
        "+",
        "]",
    ]
