"""Protocols of the application and its screen, as far as input handling uses them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from ccltui.tui.options import ExplorerOptions
from ccltui.tui.state.pane import Pane
from ccltui.tui.state.scene import Scene
from ccltui.tui.state.session import Session

if TYPE_CHECKING:
    from ccltui.draw.planes import Planes
    from ccltui.tui.input.prompted_list import PromptedList


class Screen(Protocol):
    """Which pane is where on the screen, and what covers the panes."""

    help: int | None
    """First line of the help while it covers the panes."""
    commands: PromptedList | None
    """The command line while it covers the panes."""

    def under(self, x: int, y: int) -> tuple[Pane, Planes, int, int] | None:
        """The pane at a place of the screen, its picture, and the place in it."""

    def tab_at(self, scene: Scene, x: int, y: int) -> Pane | None:
        """The pane whose tab is at a place of the screen."""


class Host(Protocol):
    """The application that owns the scene: what keys ask of it beyond another view."""

    scene: Scene
    options: ExplorerOptions

    @property
    def is_replaying(self) -> bool:
        """Whether recorded keys are replayed: then nothing is written or copied."""

    def replace_session(self, session: Session) -> None:
        """Show another session; what was computed for the one before is computed again."""

    def open_capture(self, capture: str, pane: str) -> None:
        """Load another capture of the same directory; the view begins anew in a pane."""

    def export(self, path: str) -> None:
        """Write what is in view to a file."""

    def copy_text(self, text: str) -> None:
        """Put a text on the clipboard of the user's terminal."""

    def take_picture(self) -> None:
        """Write a picture of the screen."""

    def stop_loading(self) -> bool:
        """Stop loading; whether anything was loaded."""

    def repaint(self) -> None:
        """Send every cell again."""

    def action_suspend_process(self) -> None:
        """Give the terminal back to the shell until the process is continued."""

    def leave(self) -> None:
        """End the application."""
