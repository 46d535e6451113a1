"""Why a metric is unavailable: its exception, and reasons merged to sentences."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from ccltui.metrics.result import Code, Reason
from ccltui.parsers.safe_text import listed

if TYPE_CHECKING:
    from ccltui.metrics.result import Reason


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


_MOST_OF_A_CODE: Final = 4
"""Most sentences of one code; those of further ranks are only counted."""
_NUMBER: Final = re.compile(r"\d[\d,.]*")


def merged_reasons(reasons: Sequence[Reason]) -> list[tuple[str, str]]:
    """Return the code and the sentence of each reason, one for all ranks that it is true of.

    Reasons of one code are the same where their sentences are, apart from the rank (or the file)
    that each is about and from numbers: the first of them is given, with the other ranks.
    """
    same: dict[tuple[str, str], list[Reason]] = {}
    for reason in reasons:
        same.setdefault((reason.code, _pattern(reason)), []).append(reason)
    found: list[tuple[str, str]] = []
    dropped: dict[str, int] = {}
    for (code, _), group in same.items():
        if sum(code == known for known, _ in found) >= _MOST_OF_A_CODE and group[0].rank:
            dropped[code] = dropped.get(code, 0) + len(group)
        else:
            found.append((code, _sentence(group)))
    return found + [
        (code, f"and {count} more reasons of this kind") for code, count in dropped.items()
    ]


def _pattern(reason: Reason) -> str:
    """The message without what belongs to one rank; the whole message where it is of no rank."""
    if reason.rank is None:
        return reason.message
    text = reason.message.replace(reason.file, "<file>") if reason.file else reason.message
    text = re.sub(rf"\brank {re.escape(reason.rank)}(?!\w)", "rank <rank>", text)
    return _NUMBER.sub("<number>", text)


def _sentence(group: Sequence[Reason]) -> str:
    others = list(
        dict.fromkeys(one.rank for one in group[1:] if one.rank not in (None, group[0].rank))
    )
    labels = [label for label in others if label is not None]
    if not labels:
        return group[0].message
    plural = "" if len(labels) == 1 else "s"
    return f"{group[0].message} (also rank{plural} {_ranks(labels)})"


def _ranks(labels: Sequence[str]) -> str:
    if len(labels) > 2 and all(label.isdecimal() for label in labels):
        numbers = sorted(int(label) for label in labels)
        if numbers[-1] - numbers[0] == len(numbers) - 1:
            return f"{numbers[0]}-{numbers[-1]}"
    return listed(list(labels))
