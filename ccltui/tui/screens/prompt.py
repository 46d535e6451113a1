"""One line to type into, above the key line; the panes stay in view."""

from __future__ import annotations

from collections.abc import Callable

from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, Label

Check = Callable[[str], str | None]
"""Why a text cannot be used, None when it can."""


class PromptScreen(ModalScreen[str | None]):
    """Asks for a text; enter gives it back, esc gives None. Says at once what is wrong with it."""

    def __init__(self, title: str, value: str, check: Check) -> None:
        super().__init__()
        self._title = title
        self._value = value
        self._check = check

    def compose(self) -> ComposeResult:
        """Title, line and complaint."""
        entry = Input(self._value, compact=True, select_on_focus=True)
        entry.cursor_blink = False
        with Vertical(id="prompt"):
            yield Label(self._title, id="prompt-title", markup=False)
            yield entry
            yield Label("", id="prompt-problem", markup=False)

    def on_mount(self) -> None:
        """Type right away."""
        self.query_one(Input).focus()

    def on_input_changed(self) -> None:
        """Take the complaint back: the text is another now."""
        self.query_one("#prompt-problem", Label).update("")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Give a usable text back, or say why it is none."""
        problem = self._check(event.value)
        if problem is None:
            self.dismiss(event.value)
        else:
            self.query_one("#prompt-problem", Label).update(problem)

    def on_key(self, event: events.Key) -> None:
        """Leave without a change."""
        if event.key == "escape":
            event.stop()
            self.dismiss(None)
