"""The questions of all prompts: titles, initial texts, options, and what an answer leads to."""

from __future__ import annotations

import re
from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from ccltui.metrics.view.view_options import ViewOptions
from ccltui.parsers.errors import GrammarError
from ccltui.parsers.window import format_ranks, parse_ranks
from ccltui.tui.actions.action import Effect
from ccltui.tui.actions.export import Export, export_to, suggestion
from ccltui.tui.input import filters
from ccltui.tui.input.goto import TITLE, goto
from ccltui.tui.moves import compare_ranks
from ccltui.tui.moves.view_history import Mark, Return
from ccltui.tui.state.figures import metric_columns
from ccltui.tui.state.own.chart_state import TIMELINE_STATE
from ccltui.tui.state.own.event_listing import EVENTS_STATE, listing_of
from ccltui.tui.state.pane import pane_in_view
from ccltui.tui.state.rank_lanes.device_streams import COMMUNICATION, COPIES
from ccltui.tui.state.scene import Scene
from ccltui.tui.state.view_state import ViewState

Outcome = ViewState | ViewOptions | Mark | Return | Export


class Question(Struct, frozen=True):
    """Text and behaviour of a prompt.

    Attributes:
        title: Text above the input.
        answer: Returns the outcome of a text; raises GrammarError for one that is no answer.
        start: Returns the initial text.
        options: Returns the options that match the typed text; tab completes to the first.
        previewed: Whether the view that the text leads to is shown while it is typed.
        single: Whether the first key is the whole answer.
        prefix: The key of the prompt where that also begins keys of two strokes, else empty.
    """

    title: str
    answer: Callable[[str, Scene], Outcome]
    start: Callable[[Scene], str] = lambda _: ""
    options: Callable[[str, Scene], list[str]] = lambda _, __: []
    previewed: bool = False
    single: bool = False
    prefix: str = ""

    def heading(self, text: str, scene: Scene) -> str:
        """Return the title and the options that match the text."""
        options = self.options(text, scene)
        return f"{self.title}   {' | '.join(options)}" if options else self.title


def _window(text: str, scene: Scene) -> Outcome:
    problem = filters.problem_with(text, scene)
    if problem is not None:
        raise GrammarError(problem)
    return filters.parse_filter(text, scene)


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise GrammarError(f"no regular expression: {error}") from error
    return text


def _filter(text: str, scene: Scene) -> Outcome:
    own = EVENTS_STATE.of(scene.state)
    listing = replace(own.listing, pattern=_pattern(text.strip()))
    return EVENTS_STATE.put(scene.state, replace(own, listing=listing))


def _rows(text: str, scene: Scene) -> Outcome:
    return pane_in_view(scene).with_row_pattern(scene, _pattern(text.strip()))


def _search(text: str, scene: Scene) -> Outcome:
    return replace(scene.state, search=_pattern(text))


def _ranks(text: str, scene: Scene) -> Outcome:
    chosen = parse_ranks(text.strip()) if text.strip() else None
    job = scene.session.job
    there = {trace.rank for trace in job.ranks if trace.rank is not None} if job else set()
    if chosen is not None and not chosen & there:
        raise GrammarError(f"none of these is loaded; there are {format_ranks(frozenset(there))}")
    return scene.session.filter.changed(ranks=chosen)


def _ranks_now(scene: Scene) -> str:
    ranks = scene.session.filter.ranks
    return "" if ranks is None else format_ranks(ranks)


def _mark(text: str, _: Scene) -> Outcome:
    if not text.isalnum():
        raise GrammarError("a bookmark is a letter or a digit")
    return Mark(text)


def _return(text: str, scene: Scene) -> Outcome:
    if text == "'":
        return Return("")
    if text not in scene.marks:
        known = " ".join(sorted(scene.marks)) or "none is set: m sets one"
        raise GrammarError(f"no bookmark {text!r}; {known}")
    return Return(text)


ALL_KERNELS = "all"


def _kernel_kinds(text: str, scene: Scene) -> list[str]:
    """Return the kinds of kernels in the job that begin with a text."""
    result = scene.findings.results.get("kernel_categories")
    found = None if result is None else result.details.get("by_category")
    kinds = [{"comm": COMMUNICATION, "mem": COPIES}.get(name, name) for name in found or ()]
    kinds = [ALL_KERNELS, *(kinds or [COMMUNICATION, COPIES])]
    return [kind for kind in kinds if kind.startswith(text.strip().lower())]


def _kernels(text: str, scene: Scene) -> Outcome:
    found = _kernel_kinds(text, scene)
    if not found:
        raise GrammarError(f"no kind {text!r}; there are {', '.join(_kernel_kinds('', scene))}")
    kind = "" if not text.strip() or found[0] == ALL_KERNELS else found[0]
    own = TIMELINE_STATE.of(scene.state)
    return TIMELINE_STATE.put(scene.state, replace(own, kernels=kind))


WINDOW = Question(filters.TITLE, _window, lambda scene: filters.filter_text(scene.session.filter))
FILTER = Question(
    "rows whose name matches (regex, case ignored)   empty: all",
    _filter,
    lambda scene: listing_of(scene.state).pattern,
    previewed=True,
)
ROWS = Question(
    "rows whose name matches (regex, case ignored)   empty: all",
    _rows,
    lambda scene: pane_in_view(scene).row_pattern(scene),
    previewed=True,
)
SEARCH = Question(
    "search names (regex, case ignored)   n N: next, previous   empty: end",
    _search,
    previewed=True,
)
GOTO = Question(TITLE, goto, previewed=True, prefix="g")
RANKS = Question("ranks: 0-7,16   empty: all", _ranks, _ranks_now)
MARK = Question("bookmark: a letter", _mark, single=True)
RETURN = Question(
    "to bookmark (': the view before)",
    _return,
    options=lambda _, scene: sorted(scene.marks),
    single=True,
)
KERNELS = Question("kind of kernels   empty: all", _kernels, options=_kernel_kinds)
VERSUS = Question(
    "compare what is selected with: r3   it 4   r3 it 4   empty: what is offered",
    compare_ranks.parse_versus,
    options=compare_ranks.suggestions,
)
COLUMNS = Question(
    "column to hide (-) or list again (+)   empty: all",
    metric_columns.toggled,
    options=metric_columns.matching,
)
EXPORT = Question("write what is listed to (.csv or .json)", export_to, suggestion)

OF = {
    Effect.PROMPT_WINDOW: WINDOW,
    Effect.PROMPT_FILTER: FILTER,
    Effect.PROMPT_ROWS: ROWS,
    Effect.PROMPT_SEARCH: SEARCH,
    Effect.PROMPT_GOTO: GOTO,
    Effect.PROMPT_RANKS: RANKS,
    Effect.PROMPT_EXPORT: EXPORT,
    Effect.PROMPT_MARK: MARK,
    Effect.PROMPT_RETURN: RETURN,
    Effect.PROMPT_KERNELS: KERNELS,
    Effect.PROMPT_VERSUS: VERSUS,
    Effect.PROMPT_COLUMNS: COLUMNS,
}
"""The question of every prompt."""
