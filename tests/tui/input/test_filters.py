"""Texts of the window prompt and their filters."""

from __future__ import annotations

import pytest
from fakes import scene

from ccltui.metrics.view.view_options import ViewOptions
from ccltui.parsers.window import Window
from ccltui.tui.input.prompts import filter_text, parse_filter, problem_with


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
