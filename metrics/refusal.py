"""How a metric says no: with a reason, before it computes anything."""

from __future__ import annotations

from metrics.result import Code, Reason


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
