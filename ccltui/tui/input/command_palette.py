"""The command palette: choose an action by name, with a count, or a place to go to."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import field

from ccltui.draw.palette import Ink
from ccltui.parsers.errors import GrammarError
from ccltui.tui.actions.action import Action, Bindings, keys_of, shown
from ccltui.tui.actions.action_list import all_actions
from ccltui.tui.chrome.chrome_lines import cut
from ccltui.tui.input.keymap import MAX_COUNT, works_in
from ccltui.tui.input.prompt_line import Prompt
from ccltui.tui.input.prompted_list import Chosen, Entry, PromptedList, misfit
from ccltui.tui.input.prompts import goto
from ccltui.tui.state.pane import all_panes
from ccltui.tui.state.scene import Scene
from ccltui.tui.styled_text import Line

TITLE: Final = "Commands"
_COUNT: Final = re.compile(r"(\d{1,9})\s*(?=\D)")
_ID, _KEYS, _HELP = 28, 14, 36
_REASONS_FROM = _ID + _KEYS + _HELP + 20
"""Width from which there is room for the reasons why actions cannot be done now."""
_SCATTERED: Final = 10
"""Added where only help, id and group together have all words."""


class Commands(PromptedList, frozen=True):
    """Actions that the typed text names, and places."""

    hint = "↑↓ choose   enter do   esc close"

    prompt: Prompt = field(default_factory=lambda: Prompt(TITLE))
    uses: Mapping[str, int] = field(default_factory=dict)
    """How often each action was used in this session, by its id."""

    def entries(self, scene: Scene, bindings: Bindings) -> list[Entry]:
        """Return a place that the text names, then matching actions, those of this pane first.

        Those that the words fit better come first, then those that are used more.
        """
        text = self.prompt.text.strip()
        counted = _COUNT.match(text)
        times = 1 if counted is None else min(max(int(counted[1]), 1), MAX_COUNT)
        words = text if counted is None else text[counted.end() :]
        place = _place(text, scene)
        found = []
        for action in all_actions():
            bad = _misfit(action, words, bindings)
            if bad is not None:
                exact = words in keys_of(action, bindings)
                is_elsewhere = not action.works_in(scene.state.pane)
                named = words.lower() in (action.help.split(" ")[0], *action.id.split("."))
                uses = self.uses.get(action.id, 0)
                key = (not exact or is_elsewhere, is_elsewhere, bad, not named, -uses)
                found.append((key, action))
        found.sort(key=lambda pair: pair[0])
        return place + [_entry(action, times, scene, bindings) for _, action in found]

    def nothing(self, scene: Scene) -> str:
        """Return the reason why no action is listed."""
        return f"no command or place is called {self.prompt.text!r}"

    def drawn(
        self, scene: Scene, number: int, shown: Sequence[Entry], at: int, width: int
    ) -> list[Line]:
        """Return the title with the number of actions, and a line for each entry."""
        count = f"  {number} of {len(all_actions())}   5] counts   r16, k 4705, 12.5s: go there"
        title: Line = [(f" {TITLE}", Ink.HEADER), (count, Ink.HEADER_DIM)]
        lines = [_line(entry, width, on=index == at) for index, entry in enumerate(shown)]
        return [cut(title, width, Ink.HEADER_DIM), *lines]


def _place(text: str, scene: Scene) -> list[Entry]:
    """Return an entry for the place that the text names, an empty list if it names none."""
    if not text or scene.findings.span is None:
        return []
    try:
        state = goto(text, scene)
    except GrammarError:
        return []
    values = ("the place that this names", "")
    return [Entry(f"go to {text}", lambda: Chosen(state=state), values)]


def _misfit(action: Action, words: str, bindings: Bindings) -> int | None:
    """Return how badly words fit an action, None where they do not; its own words count most."""
    if words in keys_of(action, bindings):
        return 0
    found = [misfit(words, action.help), misfit(words, action.id)]
    known = [bad for bad in found if bad is not None]
    if known:
        return min(known)
    together = misfit(words, f"{action.help} {action.id} {action.group}")
    return None if together is None else together + _SCATTERED


def _entry(action: Action, times: int, scene: Scene, bindings: Bindings) -> Entry:
    if not action.works_in(scene.state.pane):
        why = works_in([pane for pane in all_panes() if action.where(pane)])
    else:
        why = action.why_not(scene) or ""
    keys = " ".join(shown(key) for key in keys_of(action, bindings))
    name = action.id if times == 1 else f"{times:,} x {action.id}"
    return Entry(name, lambda: Chosen(action, times), (action.help, keys), why)


def _line(entry: Entry, width: int, *, on: bool) -> Line:
    ink, dim = (Ink.LABEL_ON, Ink.LABEL_ON) if on else (Ink.TEXT, Ink.DIM)
    name_ink = ink if on or not entry.why_not else Ink.DIM
    what, keys = map(str, entry.values)
    pieces: Sequence[tuple[str, int]] = (
        ("▶" if on else " ", ink),
        (_column(what, _HELP), name_ink),
        (_column(keys, _KEYS), ink if on else Ink.KEY),
        (_column(entry.name, _ID), dim),
        (entry.why_not if width >= _REASONS_FROM else "", dim),
    )
    return cut(pieces, width, ink)


def _column(text: str, width: int) -> str:
    return text[: width - 1].ljust(width)
