"""Base of lists that a typed text limits: press keys, choose a row, or close it.

Words fit a text at the beginning of its words, within them, or abbreviated.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, Self

from msgspec import Struct, field
from msgspec.structs import replace

from ccltui.tui.input.prompt_line import Prompt, PromptEnd

if TYPE_CHECKING:
    from ccltui.tui.actions.action import Action, Bindings
    from ccltui.tui.state.scene import Picked, Scene
    from ccltui.tui.state.view_state import ViewState
    from ccltui.tui.styled_text import Line


_WORD: Final = re.compile(r"[a-z0-9]+")


def misfit(words: str, text: str) -> int | None:
    """Return how badly words fit a text, 0 for best; None where a word does not fit at all.

    Each word, in any order and case, counts 0 if it is a word of the text, 1 if one begins with it,
    2 if it is within the text, and 3 if it abbreviates a word or has the initials of several.
    """
    text = text.lower()
    parts = _WORD.findall(text)
    total = 0
    for word in words.lower().split():
        found = _misfit(word, text, parts)
        if found is None:
            return None
        total += found
    return total


def _misfit(word: str, text: str, parts: list[str]) -> int | None:
    if word in parts:
        return 0
    if any(part.startswith(word) for part in parts):
        return 1
    if word in text:
        return 2
    if not word.isalpha():  # numbers are not abbreviated
        return None
    initials = "".join(part[0] for part in parts)
    return 3 if word in initials or any(_abbreviates(word, part) for part in parts) else None


def _abbreviates(word: str, part: str) -> bool:
    """Return whether a word has the first letter of another, and letters of it in their order."""
    letters = iter(part)
    return word[0] == part[0] and all(letter in letters for letter in word)


STEPS: Final = {"up": -1, "down": 1, "ctrl+p": -1, "ctrl+n": 1, "pageup": -10, "pagedown": 10}
"""Rows that a key moves the selection by."""


class Chosen(Struct, frozen=True):
    """The user's choice: an action and its number of repetitions, or a view to show."""

    action: Action | None = None
    times: int = 1
    state: ViewState | None = None


class PromptedList(Struct, frozen=True):
    """The typed text, and the selected row of the entries that match it."""

    prompt: Prompt = field(default_factory=lambda: Prompt(""))
    row: int = 0

    @property
    def picking(self) -> Picked | None:
        """Kind of places that are listed, None where actions are."""
        return None

    def count(self, scene: Scene, bindings: Bindings) -> int:
        """Return the number of entries that match."""
        raise NotImplementedError

    def accepted(self, scene: Scene, bindings: Bindings) -> Self | Chosen:
        """Return what enter chooses, or the list with the reason why there is nothing."""
        raise NotImplementedError

    def page(self, scene: Scene, bindings: Bindings, width: int, height: int) -> list[Line]:
        """Return the lines of the entries around the selected one, above a line to type into."""
        raise NotImplementedError

    def press(
        self, key: str, character: str | None, scene: Scene, bindings: Bindings
    ) -> Self | Chosen | None:
        """Return the list after a key, what was chosen, or None when it is closed."""
        if key in STEPS:
            last = max(self.count(scene, bindings) - 1, 0)
            return replace(self, row=min(max(self.row + STEPS[key], 0), last))
        if key == "backspace" and not self.prompt.text:
            return None
        typed = self.prompt.press(key, character)
        if typed is PromptEnd.CANCELLED:
            return None
        if typed is PromptEnd.ACCEPTED:
            return self.accepted(scene, bindings)
        return replace(self, prompt=typed, row=self.row if typed.text == self.prompt.text else 0)

    def pasted(self, text: str) -> Self:
        """Return the list after text was pasted."""
        return replace(self, prompt=self.prompt.insert(text), row=0)

    def refused(self, problem: str) -> Self:
        """Return the list with the reason why nothing can be chosen."""
        return replace(self, prompt=self.prompt.refused(problem))
