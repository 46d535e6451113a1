"""User selections: a window of time, a set of ranks, a range of steps."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ccltui.parsers.errors import GrammarError
from ccltui.parsers.units import INT64_MAX, format_duration, parse_duration

_RANKS = re.compile(r"([0-9]+)(?:-([0-9]+))?")
_MAX_RANK = (1 << 20) - 1


@dataclass(frozen=True, slots=True)
class Window:
    """Half-open interval in ns from the job's origin; None is an open side."""

    start_ns: int | None
    end_ns: int | None


def parse_window(text: str) -> Window:
    """Window of ``START/END`` with the grammar of ``nsys stats --filter-time``.

    Either side may be empty, not both. Raises GrammarError "Illegal window …: why".
    """
    sides = text.split("/")
    if len(sides) != 2:
        why = "no slash between start and end" if len(sides) < 2 else "more than one slash"
        raise _illegal_window(text, why)
    if not any(sides):
        raise _illegal_window(text, "start and end are both empty")
    try:
        start_ns, end_ns = (parse_duration(side) if side else None for side in sides)
    except GrammarError as error:
        raise _illegal_window(text, error.message) from None
    if start_ns is not None and end_ns is not None and start_ns > end_ns:
        raise _illegal_window(text, "the start is after the end")
    return Window(start_ns, end_ns)


def format_window(window: Window) -> str:
    """Text that parse_window reads back; ValueError when both sides are open."""
    sides = [
        "" if side is None else format_duration(side) for side in (window.start_ns, window.end_ns)
    ]
    if not any(sides):
        raise ValueError("a window open on both sides selects everything and has no text")
    return "/".join(sides)


def parse_ranks(text: str) -> frozenset[int]:
    """Ranks of a list like ``0-7,16``. Raises GrammarError "Illegal rank list …: why"."""
    ranks: set[int] = set()
    for part in text.split(","):
        ranks.update(_rank_range(text, part.strip()))
    return frozenset(ranks)


def format_ranks(ranks: frozenset[int]) -> str:
    """Shortest text that parse_ranks reads back; "" for no rank."""
    parts: list[tuple[int, int]] = []
    for rank in sorted(ranks):
        if parts and parts[-1][1] == rank - 1:
            parts[-1] = (parts[-1][0], rank)
        else:
            parts.append((rank, rank))
    return ",".join(_format_range(first, last) for first, last in parts)


def parse_steps(text: str) -> tuple[int, int]:
    """First and last step, both included, of ``12-98`` or ``5``.

    Raises GrammarError "Illegal steps …: why".
    """
    match = _RANKS.fullmatch(text)
    if match is None:
        raise _illegal("steps", text, "it is not I-J or I", "12-98 or 5")
    first, last = _ends(match)
    if first > last:
        raise _illegal("steps", text, "the first is after the last", f"{last}-{first}")
    if last == INT64_MAX:
        raise _illegal("steps", text, "the number is too large", "12-98 or 5")
    return first, last


def format_steps(steps: tuple[int, int]) -> str:
    """Text that parse_steps reads back."""
    return _format_range(*steps)


def _rank_range(text: str, part: str) -> range:
    match = _RANKS.fullmatch(part)
    if match is None:
        why = "an entry is empty" if not part else f"{part!r} is neither a rank nor a range"
        raise _illegal("rank list", text, why, "0-7,16")
    first, last = _ends(match)
    if first > last:
        raise _illegal("rank list", text, f"{part} counts down", f"{last}-{first}")
    if last > _MAX_RANK:
        raise _illegal("rank list", text, f"ranks end at {_MAX_RANK}", "0-7,16")
    return range(first, last + 1)


def _ends(match: re.Match[str]) -> tuple[int, int]:
    return _number(match[1]), _number(match[2] or match[1])


def _number(digits: str) -> int:
    significant = digits.lstrip("0")
    return int(significant or "0") if len(significant) <= 18 else INT64_MAX


def _format_range(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}-{last}"


def _illegal_window(text: str, why: str) -> GrammarError:
    return _illegal("window", text, why, "4s420ms/35s390ms, 2s/ or /1m")


def _illegal(what: str, text: str, why: str, example: str) -> GrammarError:
    shown = text if len(text) <= 60 else f"{text[:57]}..."
    return GrammarError(f"Illegal {what} {shown!r}: {why}; write for example {example}")
