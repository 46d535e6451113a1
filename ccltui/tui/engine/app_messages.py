"""The message that carries facts to the application."""

from __future__ import annotations

from textual.message import Message

from ccltui.tui.engine.messages import Fact, LoadProgress


class Report(Message, bubble=False):
    """Carries a fact from a worker to the application; a newer progress replaces an older."""

    def __init__(self, fact: Fact, load: int = 0) -> None:
        """``load``: the number of the load that tells it, where it is about loading."""
        super().__init__()
        self.fact = fact
        self.load = load

    def can_replace(self, message: Message) -> bool:
        """Whether ``message``, still queued, may be dropped for this one."""
        return (
            isinstance(message, Report)
            and isinstance(self.fact, LoadProgress)
            and isinstance(message.fact, LoadProgress)
        )
