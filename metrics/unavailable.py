"""How a metric says no: with a reason, before it computes anything."""

from __future__ import annotations

from ccltui.metrics.result import Code, Reason


class Refusal(Exception):  # noqa: N818 - an answer, not an error
    """A metric cannot answer; carries the reasons that its result will list."""

    def __init__(self, *reasons: Reason) -> None:
        self.reasons = reasons
        super().__init__("; ".join(reason.message for reason in reasons))


def refuse(
    code: Code, message: str, *, rank: str | None = None, file: str | None = None
) -> Refusal:
    """The exception to raise for a single reason."""
    return Refusal(Reason(code, message, rank=rank, file=file))


def nothing_on_the_wire(*, sized: bool) -> Refusal:
    """Why no collective tells what it sends: no size, or a size among nobody knows how many."""
    if sized:
        return refuse("no_process_groups", "no collective tells how many ranks take part in it")
    return refuse("no_message_size", "no collective states the size of its message")
