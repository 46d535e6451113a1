"""What prompts ask: a title, what is there to begin with, and what an answer leads to."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from ccltui.tui import filters
from ccltui.tui.scene import Scene
from ccltui.tui.session import Filter
from ccltui.tui.viewstate import ViewState
from parsers.errors import GrammarError

Outcome = ViewState | Filter


def _nothing(_: Scene) -> str:
    return ""


@dataclass(frozen=True, slots=True)
class Question:
    """``answer`` raises GrammarError for a text that is none."""

    title: str
    answer: Callable[[str, Scene], Outcome]
    start: Callable[[Scene], str] = _nothing


def _window(text: str, scene: Scene) -> Outcome:
    problem = filters.problem_with(text, scene)
    if problem is not None:
        raise GrammarError(problem)
    return filters.parse_filter(text, scene)


def _window_now(scene: Scene) -> str:
    return filters.filter_text(scene.session.filter)


def checked_pattern(text: str) -> str:
    """A regular expression that can be searched for; GrammarError when it is none."""
    try:
        re.compile(text)
    except re.error as error:
        raise GrammarError(f"no regular expression: {error}") from error
    return text


def _filter(text: str, scene: Scene) -> Outcome:
    listing = replace(scene.state.listing, pattern=checked_pattern(text.strip()))
    return replace(scene.state, listing=listing)


def _filter_now(scene: Scene) -> str:
    return scene.state.listing.pattern


WINDOW = Question(filters.TITLE, _window, _window_now)
FILTER = Question(
    "rows whose name matches (regex, case ignored)   empty: all", _filter, _filter_now
)
