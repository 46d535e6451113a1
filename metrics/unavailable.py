"""Exception raised when a metric is unavailable."""

from __future__ import annotations

from ccltui.metrics.result import Code, Reason


class Refusal(Exception):  # noqa: N818 - a result, not an error
    """The metric is unavailable; ``reasons`` are those that its result lists."""

    def __init__(self, *reasons: Reason) -> None:
        self.reasons = reasons
        super().__init__("; ".join(reason.message for reason in reasons))


def refuse(
    code: Code, message: str, *, rank: str | None = None, file: str | None = None
) -> Refusal:
    """Return the exception for a single reason."""
    return Refusal(Reason(code, message, rank=rank, file=file))


def unknown_wire_bytes(*, sized: bool) -> Refusal:
    """Return the refusal where the bytes on the wire are unknown for every collective.

    Args:
        sized: Whether message sizes are known, so that only the number of ranks is missing.
    """
    if sized:
        return refuse("no_process_groups", "no collective states how many ranks take part in it")
    return refuse("no_message_size", "no collective states the size of its message")
