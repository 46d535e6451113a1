"""A one-line text input below the panes, as a value that each key replaces."""

from __future__ import annotations

from enum import Enum, auto

from msgspec import Struct
from msgspec.structs import replace

from ccltui.draw.palette import Ink
from ccltui.tui.chrome.chrome_lines import cut
from ccltui.tui.styled_text import Line

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
