"""The questions of all prompts: titles, initial texts, options, and what an answer leads to.

Answers name a window, or a place: a collective, a rank, an iteration or a time. While a question is
being answered, keys change the text, and the view if it is previewed.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from ccltui.metrics.view.view_options import ViewOptions
from ccltui.parsers import numbers
from ccltui.parsers.errors import GrammarError
from ccltui.parsers.window import (
    Window,
    format_ranks,
    format_window,
    parse_duration,
    parse_ranks,
    parse_steps,
    parse_window,
)
from ccltui.tui.action import Effect
from ccltui.tui.export import Export, export_to, suggestion
from ccltui.tui.input.prompted_list import Prompt, PromptEnd
from ccltui.tui.moves import drawer
from ccltui.tui.moves.cursor import to_collective, to_time
from ccltui.tui.moves.time_moves import window
from ccltui.tui.moves.view_moves import Mark, Return
from ccltui.tui.panes.list_pane import matching_columns, with_column
from ccltui.tui.state.pane import pane_in_view
from ccltui.tui.state.pane_states import TIMELINE_STATE
from ccltui.tui.state.rank_lanes import COMMUNICATION, COPIES
from ccltui.tui.state.scene import Scene, rank_name
from ccltui.tui.state.session import Session
from ccltui.tui.state.view_state import ViewState

GOTO_TITLE = "go to: k 4705   r16   it 42   12.5s   (g: first row)"
_COLLECTIVE = re.compile(r"(?:k|#)\s*([\d,]+)", re.IGNORECASE)
_RANK = re.compile(r"r\s*(\S.*)", re.IGNORECASE)
_ITERATION = re.compile(r"it(?:er)?\s*(\d+)", re.IGNORECASE)


def goto(text: str, scene: Scene) -> ViewState:
    """Return the view at the place that a text names.

    Raises:
        GrammarError: The text names no place, or one that does not exist.
    """
    text = text.strip()
    collective = _COLLECTIVE.fullmatch(text)
    if collective is not None:
        return _collective(int(collective[1].replace(",", "")), scene)
    iteration = _ITERATION.fullmatch(text)
    if iteration is not None:
        return _iteration(int(iteration[1]), scene)
    rank = _RANK.fullmatch(text)
    if rank is not None:
        return _rank(rank[1], scene)
    if scene.findings.span is None:
        raise GrammarError("no rank is loaded yet")
    return to_time(scene, parse_duration(text))


def _collective(k: int, scene: Scene) -> ViewState:
    communicator = scene.communicator
    if communicator is None or not len(communicator):
        raise GrammarError("no collective is matched across ranks")
    if k >= len(communicator):
        last = numbers.count(len(communicator) - 1)
        raise GrammarError(f"{communicator.name} has collectives 0 to {last}")
    return to_collective(scene, k)


def _rank(text: str, scene: Scene) -> ViewState:
    for label in scene.findings.lanes:
        if text in (label, rank_name(label)):
            return scene.state.select(rank=label)
    ranks = ", ".join(list(scene.findings.lanes)[:8])
    raise GrammarError(f"no rank {text!r}; there are {ranks or 'none yet'}")


def _iteration(number: int, scene: Scene) -> ViewState:
    steps = scene.findings.steps
    for step in steps:
        if step.id == number:
            return to_time(scene, step.start_ns)
    if not steps:
        raise GrammarError("the traces have no step markers")
    raise GrammarError(f"no such step: there are {steps[0].id} to {steps[-1].id}")


WINDOW_TITLE = "window: 4s420ms/35s390ms   iter 12-98   +2s from the cursor   empty: everything"
_STEPS = re.compile(r"\s*it(?:er(?:ations?)?)?\s+(.*)", re.IGNORECASE)


def filter_text(chosen: ViewOptions) -> str:
    """Return the filter as it would be typed."""
    if chosen.steps is not None:
        first, last = chosen.steps
        return f"iter {first}-{last}"
    return "" if chosen.window is None else format_window(chosen.window)


def parse_filter(text: str, scene: Scene) -> ViewOptions:
    """Return the filter that a text describes, with the ranks of the present one.

    Raises:
        GrammarError: The text describes no filter.
    """
    everything = scene.session.filter.changed(window=None, steps=None)
    text = text.strip()
    if not text:
        return everything
    steps = _STEPS.fullmatch(text)
    if steps is not None:
        return everything.changed(steps=parse_steps(steps[1].strip()))
    if text.startswith("+") and "/" not in text:
        start = scene.state.selection.time_ns or 0
        return everything.changed(window=Window(start, start + parse_duration(text[1:])))
    return everything.changed(window=parse_window(text))


def problem_with(text: str, scene: Scene) -> str | None:
    """Return why a text is no valid filter for this job, None when it is valid."""
    try:
        chosen = parse_filter(text, scene)
    except GrammarError as error:
        return str(error)
    known = [step.id for step in scene.findings.steps]
    if chosen.steps is not None:
        if not known:
            return "the traces have no step markers: give a window of time"
        first, last = chosen.steps
        if not any(first <= step <= last for step in known):
            return f"no such step: there are {min(known)} to {max(known)}"
    return None


def windowed(scene: Scene) -> Session:
    """Return the session whose window is the measured area, else the visible time."""
    here = window(scene)
    chosen = None if here is None else Window(here.start_ns, here.end_ns)
    return scene.session.filtered(scene.session.filter.changed(window=chosen, steps=None))


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
    problem = problem_with(text, scene)
    if problem is not None:
        raise GrammarError(problem)
    return parse_filter(text, scene)


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise GrammarError(f"no regular expression: {error}") from error
    return text


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


WINDOW = Question(WINDOW_TITLE, _window, lambda scene: filter_text(scene.session.filter))
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
GOTO = Question(GOTO_TITLE, goto, previewed=True, prefix="g")
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
    drawer.parse_versus,
    options=drawer.suggestions,
)
COLUMNS = Question(
    "column to hide (-) or list again (+)   empty: all",
    with_column,
    options=matching_columns,
)
EXPORT = Question("write what is listed to (.csv or .json)", export_to, suggestion)

OF = {
    Effect.PROMPT_WINDOW: WINDOW,
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


class KeyOutcome(Struct, frozen=True):
    """State after a key: the question if it is still open, a view to preview, or the outcome."""

    asking: PromptSession | None = None
    state: ViewState | None = None
    outcome: Outcome | None = None


class PromptSession(Struct, frozen=True):
    """A question, the text so far, and the view to restore when it is cancelled."""

    question: Question
    prompt: Prompt
    before: ViewState

    @classmethod
    def of(cls, question: Question, scene: Scene) -> PromptSession:
        """Open a question."""
        start = question.start(scene)
        return cls(question, Prompt.asking(question.heading(start, scene), start), scene.state)

    def may_be_stroke(self) -> bool:
        """Whether the next key may be the second of two strokes instead of text."""
        return bool(self.question.prefix) and not self.prompt.text

    def press(self, key: str, character: str | None, scene: Scene) -> KeyOutcome:
        """Return the state after a key."""
        scene = scene.with_state(self.before)
        options = self.question.options(self.prompt.text, scene)
        if key == "tab":
            text = options[0] if options else self.prompt.text
            return self._typed(Prompt.asking(self.prompt.title, text), scene)
        typed = self.prompt.press(key, character)
        if typed is PromptEnd.CANCELLED:
            return KeyOutcome()
        if typed is PromptEnd.ACCEPTED:
            return self._answered(self.prompt, scene)
        if self.question.single and typed.text:
            return self._answered(typed, scene)
        return self._typed(typed, scene)

    def pasted(self, text: str, scene: Scene) -> PromptSession:
        """Return the question after text was pasted."""
        typed = self.prompt.insert(text)
        return self._typed(typed, scene.with_state(self.before)).asking or self

    def _answered(self, prompt: Prompt, scene: Scene) -> KeyOutcome:
        try:
            return KeyOutcome(outcome=self.question.answer(prompt.text, scene))
        except GrammarError as problem:
            text = "" if self.question.single else prompt.text
            again = Prompt.asking(prompt.title, text).refused(str(problem))
            return KeyOutcome(replace(self, prompt=again))

    def _typed(self, prompt: Prompt, scene: Scene) -> KeyOutcome:
        title = self.question.heading(prompt.text, scene)
        asking = replace(self, prompt=replace(prompt, title=title))
        if not self.question.previewed:
            return KeyOutcome(asking)
        try:
            found = self.question.answer(prompt.text, scene)
        except GrammarError:  # no valid answer yet: it is still being typed
            return KeyOutcome(asking)
        return KeyOutcome(asking, found if isinstance(found, ViewState) else None)
