"""A one-line text input, and the base of lists that such a text limits.

Words fit a text at the beginning of its words, within them, or abbreviated.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from enum import Enum, auto
from typing import TYPE_CHECKING, ClassVar, Final, Self

from msgspec import Struct, field
from msgspec.structs import replace

from ccltui.draw.palette import Ink
from ccltui.draw.text import Line
from ccltui.tui.chrome_lines import cut
from ccltui.tui.state.pane_states import Value

if TYPE_CHECKING:
    from ccltui.tui.action import Action, Bindings
    from ccltui.tui.state.scene import Picked, Scene
    from ccltui.tui.state.view_state import ViewState

_MARK = " > "


class PromptEnd(Enum):
    """Outcome of a prompt."""

    ACCEPTED = auto()
    CANCELLED = auto()


class Prompt(Struct, frozen=True):
    """A title, the text, the position of the cursor, and the problem of the last answer."""

    title: str
    text: str = ""
    cursor: int = 0
    problem: str = ""

    @classmethod
    def asking(cls, title: str, text: str) -> Prompt:
        """Return a prompt with a text to edit, the cursor at its end."""
        return cls(title, text, len(text))

    def insert(self, text: str) -> Prompt:
        """Insert text at the cursor, as typed or pasted."""
        whole = self.text[: self.cursor] + text + self.text[self.cursor :]
        return Prompt(self.title, whole, self.cursor + len(text))

    def press(self, key: str, character: str | None) -> Prompt | PromptEnd:
        """Return the prompt after a key, or how it ended."""
        if key == "enter":
            return PromptEnd.ACCEPTED
        if key in ("escape", "ctrl+c"):
            return PromptEnd.CANCELLED
        if character is not None and character.isprintable():
            return self.insert(character)
        return self._edited(key)

    def _edited(self, key: str) -> Prompt:
        at, text = self.cursor, self.text
        match key:
            case "backspace" if at:
                return Prompt(self.title, text[: at - 1] + text[at:], at - 1)
            case "delete":
                return Prompt(self.title, text[:at] + text[at + 1 :], at)
            case "ctrl+u":
                return Prompt(self.title, text[at:], 0)
            case "left":
                return replace(self, cursor=max(at - 1, 0))
            case "right":
                return replace(self, cursor=min(at + 1, len(text)))
            case "home" | "ctrl+a":
                return replace(self, cursor=0)
            case "end" | "ctrl+e":
                return replace(self, cursor=len(text))
            case _:
                return self

    def refused(self, problem: str) -> Prompt:
        """Return the prompt with the same text and the reason why it is invalid."""
        return replace(self, problem=problem)

    def lines(self, width: int) -> list[Line]:
        """Return two lines: the title or the problem, and the text, scrolled to its cursor."""
        above = (f" ! {self.problem}", Ink.WARNING) if self.problem else (f" {self.title}", Ink.DIM)
        room = max(width - len(_MARK) - 1, 1)
        first = max(self.cursor - room, 0)
        shown = self.text[first : first + room] + " "
        at = self.cursor - first
        below: Line = [
            (_MARK, Ink.KEY),
            (shown[:at], Ink.TEXT),
            (shown[at], Ink.CURSOR),
            (shown[at + 1 :], Ink.TEXT),
        ]
        return [cut([above], width, Ink.TEXT), cut(below, width, Ink.TEXT)]


_WORD: Final = re.compile(r"[a-z0-9]+")


def misfit(words: str, text: str) -> int | None:
    """Return how badly words fit a text, 0 for best; None where a word does not fit at all.

    Each word, in any order and case, counts 0 if it is a word of the text, 1 if one begins with it,
    2 if it is within the text, and 3 if it abbreviates a word or has the initials of several.
    """
    if not words:  # nothing is typed yet: ten thousand kernels are not to be taken apart
        return 0
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


class Entry(Struct, frozen=True):
    """A row to choose.

    Attributes:
        name: its name.
        choose: returns what choosing it does.
        values: what its columns print; None where it is not known.
        why_not: reason why it cannot be chosen now, "" where it can.
        is_here: whether it is in view already.
    """

    name: str
    choose: Callable[[], Chosen]
    values: tuple[Value, ...] = ()
    why_not: str = ""
    is_here: bool = False


class PromptedList(Struct, frozen=True):
    """The typed text, and the selected row of the entries that match it."""

    hint: ClassVar[str]
    """What keys do, above the line to type into."""
    lines_above: ClassVar[int] = 1
    """Lines of `drawn` above the entries."""

    prompt: Prompt = field(default_factory=lambda: Prompt(""))
    row: int = 0

    @property
    def picking(self) -> Picked | None:
        """Kind of places that are listed, None where actions are."""
        return None

    def entries(self, scene: Scene, bindings: Bindings) -> list[Entry]:
        """Return the entries that match, those that match best first."""
        raise NotImplementedError

    def nothing(self, scene: Scene) -> str:
        """Return the reason why no entry is listed."""
        raise NotImplementedError

    def drawn(
        self, scene: Scene, number: int, shown: Sequence[Entry], at: int, width: int
    ) -> list[Line]:
        """Return `lines_above` lines, and one for each entry in view.

        ``number`` entries match; ``at`` is the place of the selected one among those ``shown``.
        """
        raise NotImplementedError

    def page(self, scene: Scene, bindings: Bindings, width: int, height: int) -> list[Line]:
        """Return the lines of the entries around the selected one, above a line to type into."""
        entries = self.entries(scene, bindings)
        room = max(height - 2 - self.lines_above, 1)
        row = min(self.row, max(len(entries) - 1, 0))
        first = max(min(row - room // 2, len(entries) - room), 0)
        lines = self.drawn(scene, len(entries), entries[first : first + room], row - first, width)
        lines += [cut([], width, Ink.TEXT)] * (height - 2 - len(lines))
        return [*lines, *replace(self.prompt, title=self.hint).lines(width)]

    def accepted(self, scene: Scene, bindings: Bindings) -> Self | Chosen:
        """Return what enter chooses, or the list with the reason why there is nothing."""
        entries = self.entries(scene, bindings)
        if not entries:
            return self.refused(self.nothing(scene))
        entry = entries[min(self.row, len(entries) - 1)]
        return self.refused(entry.why_not) if entry.why_not else entry.choose()

    def press(
        self, key: str, character: str | None, scene: Scene, bindings: Bindings
    ) -> Self | Chosen | None:
        """Return the list after a key, what was chosen, or None when it is closed."""
        if key in STEPS:
            last = max(len(self.entries(scene, bindings)) - 1, 0)
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
