"""The Textual message that carries facts from workers to the application."""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.message import Message

if TYPE_CHECKING:
    from ccltui.tui.engine.messages import Fact


class FactPosted(Message, bubble=False):
    """A fact from a worker; newer progress replaces older progress that is still queued."""

    def __init__(self, fact: Fact, load: int = 0) -> None:
        """Make a message.

        Args:
            fact: What the worker posts.
            load: Number of the load that posts it, 0 where it is not about loading.
        """
        super().__init__()
        self.fact = fact
        self.load = load

    def can_replace(self, message: Message) -> bool:
        """Whether ``message``, still queued, may be dropped for this one."""
        from ccltui.tui.engine.messages import LoadProgress  # noqa: PLC0415  (after the first paint)

        return (
            isinstance(message, FactPosted)
            and isinstance(self.fact, LoadProgress)
            and isinstance(message.fact, LoadProgress)
        )
