"""The line for prompts, filters and places."""

from __future__ import annotations

import pytest
from fakes import scene
from msgspec.structs import replace

from ccltui.metrics.view.view_options import ViewOptions
from ccltui.parsers.errors import GrammarError
from ccltui.parsers.window import Window
from ccltui.tui.input.prompted_list import Prompt, PromptEnd
from ccltui.tui.input.prompts import (
    GOTO,
    KERNELS,
    MARK,
    RANKS,
    RETURN,
    SEARCH,
    PromptSession,
    filter_text,
    goto,
    parse_filter,
    problem_with,
)
from ccltui.tui.moves import view_moves
from ccltui.tui.moves.view_moves import Mark, Return
from ccltui.tui.reducer import adopt
from ccltui.tui.state.answers import Span
from ccltui.tui.state.pane_states import ALIGNMENT, TIMELINE
from ccltui.tui.state.scene import Scene
from ccltui.tui.state.view_state import ViewState

NAMED = {"←": "left", "→": "right", "⌫": "backspace", "⌦": "delete", "⇤": "home", "⇥": "end"}


def typed(keys: str, start: str = "") -> str:
    """The text after keys, the cursor as ``|``."""
    prompt = Prompt.asking("window", start)
    for key in keys:
        after = prompt.press(NAMED.get(key, key), None if key in NAMED else key)
        assert isinstance(after, Prompt)
        prompt = after
    return f"{prompt.text[: prompt.cursor]}|{prompt.text[prompt.cursor :]}"


def test_typing_and_editing() -> None:
    assert typed("2s/4s") == "2s/4s|"
    assert typed("←←x", "abc") == "ax|bc"
    assert typed("←←→⌫⌦", "abc") == "a|"
    assert typed("⇤0⇥9", "/5s") == "0/5s9|"
    assert typed("⇤⌫←", "ab") == "|ab"
    assert typed("⌦→", "ab") == "ab|"


def test_control_keys() -> None:
    prompt = Prompt.asking("window", "abc").press("left", None)

    assert isinstance(prompt, Prompt)
    assert prompt.press("ctrl+u", "\x15") == Prompt("window", "c", 0)
    assert prompt.press("f5", None) == prompt
    assert prompt.insert("1 2") == Prompt("window", "ab1 2c", 5)


def test_ends_and_problems() -> None:
    prompt = Prompt.asking("window", "4s")

    assert prompt.press("enter", "\r") is PromptEnd.ACCEPTED
    assert prompt.press("escape", None) is PromptEnd.CANCELLED
    refused = prompt.refused("no slash")
    assert refused.lines(30)[0][0][0] == " ! no slash"
    again = refused.press("/", "/")
    assert isinstance(again, Prompt)
    assert (again.text, again.problem) == ("4s/", "")


def test_a_long_text_scrolls_with_the_cursor() -> None:
    prompt = Prompt.asking("window", "x" * 50 + "yz")

    for at in (52, 51, 3):
        shown = "".join(text for text, _ in prompt.lines(20)[1])
        assert len(shown) == 20
        prompt = Prompt("window", prompt.text, at)
    assert "yz" in "".join(text for text, _ in Prompt.asking("w", prompt.text).lines(20)[1])


@pytest.mark.parametrize(
    ("typed", "chosen"),
    [
        ("", ViewOptions()),
        ("4s420ms/35s390ms", ViewOptions(Window(4_420_000_000, 35_390_000_000))),
        ("2s/", ViewOptions(Window(2_000_000_000, None))),
        ("iter 1-3", ViewOptions(steps=(1, 3))),
        ("it 2", ViewOptions(steps=(2, 2))),
        ("+5ms", ViewOptions(Window(7_000, 5_007_000))),
    ],
)
def test_texts_and_their_filters(typed: str, chosen: ViewOptions) -> None:
    found = scene()
    found = found.with_state(found.state.select(time_ns=7_000))

    assert parse_filter(typed, found) == chosen
    assert problem_with(typed, found) is None


@pytest.mark.parametrize(
    "chosen", [ViewOptions(), ViewOptions(Window(5, 9_000)), ViewOptions(steps=(3, 4))]
)
def test_a_formatted_filter_is_parsed_to_itself(chosen: ViewOptions) -> None:
    assert parse_filter(filter_text(chosen), scene()) == chosen


def test_problems_are_sentences() -> None:
    found = scene()

    assert "no slash" in str(problem_with("4s", found))
    assert problem_with("iter 9-12", found) == "no such step: there are 0 to 5"
    assert "Illegal steps" in str(problem_with("iter x", found))


def test_a_window_restricts_collectives_and_time() -> None:
    window = Window(10_000_000, 20_000_000)
    found = scene(chosen=ViewOptions(window=window))

    assert found.communicator is not None
    assert 0 < len(found.communicator) < 84
    assert (found.communicator.first_ns >= 10_000_000).all()
    assert (found.communicator.first_ns < 20_000_000).all()
    assert (found.state.time.start_ns, found.state.time.end_ns) == (10_000_000, 20_000_000)


def test_steps_restrict_collectives_to_their_own() -> None:
    found = scene(chosen=ViewOptions(steps=(2, 3)))

    assert found.communicator is not None
    assert set(found.communicator.step.tolist()) == {2, 3}
    assert found.state.time.start_ns == found.findings.steps[2].start_ns
    assert found.state.time.end_ns == found.findings.steps[3].end_ns


def go(found: Scene, text: str) -> ViewState:
    """The view at the place that a text names."""
    return goto(text, found)


@pytest.mark.parametrize("text", ["k 40", "k40", "#40", "K 40"])
def test_a_collective_by_its_number(text: str) -> None:
    assert go(scene(), text).selection.k == 40


@pytest.mark.parametrize("text", ["r5", "r 5"])
def test_a_rank(text: str) -> None:
    assert go(scene(), text).selection.rank == "5"


def test_an_iteration_begins_where_its_marker_does() -> None:
    found = scene(pane=TIMELINE)

    assert go(found, "it 3").selection.time_ns == found.findings.steps[3].start_ns


def test_a_time_and_the_collective_that_runs_there() -> None:
    found = scene(pane=TIMELINE)
    communicator = found.communicator
    assert communicator is not None

    selection = go(found, "59ms700us").selection

    assert selection.time_ns == 59_700_000
    assert selection.k == communicator.nearest(59_700_000)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("k 84", "default_pg 0-7 has collectives 0 to 83"),
        ("r16", "no rank '16'; there are 0, 1, 2, 3, 4, 5, 6, 7"),
        ("it 9", "no such step: there are 0 to 5"),
        ("nowhere", "unit"),
    ],
)
def test_a_missing_place_is_reported(text: str, why: str) -> None:
    with pytest.raises(GrammarError, match=why.replace("(", r"\(")):
        go(scene(), text)


def test_goto_previews_the_view_and_cancelling_restores_it() -> None:
    found = scene()
    asking = PromptSession.of(GOTO, found)
    state: ViewState | None = None
    for key in ("k", "4", "0"):
        reply = asking.press(key, key, found)
        assert reply.asking is not None
        asking, state = reply.asking, reply.state
    assert state is not None
    assert state.selection.k == 40

    moved = found.with_state(state)
    assert asking.press("escape", None, moved).state is None
    done = asking.press("enter", None, moved)
    assert isinstance(done.outcome, ViewState)
    assert done.outcome.selection.k == 40


def test_ranks_are_a_filter() -> None:
    found = scene()

    assert RANKS.answer("0-2,5", found) == ViewOptions(ranks=frozenset({0, 1, 2, 5}))
    assert RANKS.answer("", found) == ViewOptions()
    with pytest.raises(GrammarError, match="none of these is loaded; there are 0-7"):
        RANKS.answer("64", found)


def test_tab_takes_the_first_option() -> None:
    found = scene()
    asking = PromptSession.of(KERNELS, found).pasted("cop", found)

    completed = asking.press("tab", None, found).asking

    assert completed is not None
    assert completed.prompt.text == "copies"


def test_a_bookmark_is_one_key_and_restores_its_view() -> None:
    found = scene()
    asked = PromptSession.of(MARK, found).press("a", "a", found)
    assert asked.outcome == Mark("a")
    found = view_moves.settled(found, Mark("a"))
    elsewhere = found.with_state(view_moves.open_pane(TIMELINE)(found))

    assert RETURN.answer("a", elsewhere) == Return("a")
    there = view_moves.settled(elsewhere, Return("a"))
    assert there.state.pane == ALIGNMENT
    assert view_moves.view_back(there).state.pane == TIMELINE
    refused = PromptSession.of(RETURN, found).press("x", "x", found)
    assert refused.asking is not None
    assert refused.asking.prompt.problem == "no bookmark 'x'; a"
    assert RETURN.answer("'", found) == Return("")


def test_views_go_back_and_forward_and_a_held_key_is_one_view() -> None:
    found = scene(pane=TIMELINE)
    start = found.state
    for _ in range(3):
        state = view_moves.zoom(inwards=True)(found)
        found = replace(found, state=state, history=found.history.left(found.state, state, "zoom"))
    zoomed = found.state
    assert len(found.history.before) == 1

    found = view_moves.view_back(found)
    assert found.state.time == start.time
    found = view_moves.view_forward(found)
    assert found.state.time == zoomed.time
    assert view_moves.view_forward(found) is found


def test_a_cursor_move_is_not_in_the_history() -> None:
    found = scene()
    state = view_moves.step_collective(1)(found)

    assert found.history.left(found.state, state, "move").before == ()


def test_an_earlier_view_is_fitted_to_the_current_job() -> None:
    found = scene()
    old = goto("k 80", found)
    (one,) = found.findings.communicators or ()
    fewer = one.take(one.step == 2)
    found = replace(found, findings=replace(found.findings, communicators=(fewer,)))

    state = view_moves.restored(found, old).state

    assert state.selection.k == len(fewer) - 1
    assert state.columns.count == len(fewer)


def test_a_search_must_be_a_regular_expression() -> None:
    with pytest.raises(GrammarError, match="no regular expression"):
        SEARCH.answer("(", scene())


def test_an_earlier_view_of_a_job_whose_collectives_are_gone_selects_none() -> None:
    found = scene()
    old = goto("k 80", found)
    (one,) = found.findings.communicators or ()
    none = one.take(one.step == -1)
    found = replace(found, findings=replace(found.findings, communicators=(none,)))

    restored = view_moves.restored(found, old)

    assert restored.state.selection.k is None
    window = replace(found.findings, span=Span(0, 10))
    assert adopt(restored, window).state.selection.k is None


def test_an_earlier_view_of_a_communicator_that_is_gone_is_fitted_to_the_first_one() -> None:
    found = scene()
    (one,) = found.findings.communicators or ()
    fewer = one.take(one.step == 2)
    both = replace(found, findings=replace(found.findings, communicators=(fewer, one, one)))
    old = goto("k 80", both.with_state(both.state.select(communicator=2)))
    found = replace(both, findings=replace(both.findings, communicators=(fewer, one)))

    selection = view_moves.restored(found, old).state.selection

    assert (selection.communicator, selection.k) == (0, len(fewer) - 1)
