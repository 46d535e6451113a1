"""User selections: a window of time, ranges of ranks and steps; units of time and size.

Also the ranks of a job that have no trace, as ranges: a file may state a world of any size.

Two tables of time units exist because two grammars do: what a report's column header may
say (NVIDIA's ``--timeunit`` and its older spellings) and what a window may say (``nsys
stats --filter-time``), which knows minutes and hours but no ``seconds``.
"""

from __future__ import annotations

import itertools
import re
from bisect import bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, overload

from ccltui.parsers.errors import GrammarError

MOST_RANKS: Final = 1 << 20
"""More than any job has: a number from here on is not that of a rank, whatever a file states."""
INT64_MIN: Final = -(2**63)
INT64_MAX: Final = 2**63 - 1

_NS, _US, _MS, _S = 1, 1_000, 1_000_000, 1_000_000_000

_TIME_UNITS_NS: Final = {
    **{"ns": _NS, "nsec": _NS, "us": _US, "usec": _US},
    **{"ms": _MS, "msec": _MS, "s": _S, "sec": _S},
}
DURATION_UNITS_NS: Final[Mapping[str, int]] = MappingProxyType(
    {**_TIME_UNITS_NS, "m": 60 * _S, "min": 60 * _S, "h": 3600 * _S, "hour": 3600 * _S}
)
"""Units of the window grammar, in ns."""
COLUMN_UNITS_NS: Final[Mapping[str, int]] = MappingProxyType(
    {**_TIME_UNITS_NS, "nanoseconds": _NS, "seconds": _S}
)
"""Units of time in a report's column header, in ns."""

SIZE_UNITS_BYTES: Final[Mapping[str, int]] = MappingProxyType(
    {
        "B": 1,
        "KB": 1_000,
        "KiB": 1 << 10,
        "MB": 1_000_000,
        "MiB": 1 << 20,
        "GB": 1_000_000_000,
        "GiB": 1 << 30,
    }
)
"""Units of size in a report's column header, in bytes."""

_NUMBER = r"0x[0-9a-fA-F]+|[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?"
_TERM = re.compile(rf"(?P<sign>[+-]?)(?P<number>{_NUMBER})(?P<unit>[a-zA-Zµ]*)")
_FORMAT_UNITS = (("s", _S), ("ms", _MS), ("us", _US), ("ns", _NS))
_HUGE_EXPONENT = 40  # far beyond int64 in any unit, and far below 1 ns


def parse_duration(text: str) -> int:
    """Time in ns of terms like ``4s420ms``: signed, additive, in any order, default unit ns.

    Numbers are decimal (``1.5``, ``15e-1``) or hexadecimal (``0x10``); a fraction of a
    nanosecond is cut off in its term. Raises GrammarError with the reason. Source: the
    documented and observed grammar of ``nsys stats --filter-time``.
    """
    if not text:
        raise GrammarError("the time is empty")
    total = 0
    position = 0
    while position < len(text):
        match = _TERM.match(text, position)
        if match is None:
            raise GrammarError(_why_no_term(text, position))
        total += _term_ns(match["sign"], match["number"], match["unit"])
        position = match.end()
    if not INT64_MIN <= total <= INT64_MAX:
        raise GrammarError(f"{_shown(text)} does not fit in 64 bits of nanoseconds (292 years)")
    return total


def format_duration(time_ns: int) -> str:
    """Shortest exact text of ``time_ns`` in s, ms, us and ns; parse_duration reads it back."""
    sign = "-" if time_ns < 0 else ""
    rest = abs(time_ns)
    terms = []
    for unit, unit_ns in _FORMAT_UNITS:
        count, rest = divmod(rest, unit_ns)
        if count:
            terms.append(f"{sign}{count}{unit}")
    return "".join(terms) or "0s"


def _term_ns(sign: str, number: str, unit: str) -> int:
    unit_ns = _NS if not unit else DURATION_UNITS_NS.get(unit)
    if unit_ns is None:
        raise GrammarError(_why_no_unit(unit))
    amount_ns = _amount_ns(number, unit_ns)
    return -amount_ns if sign == "-" else amount_ns


def _amount_ns(number: str, unit_ns: int) -> int:
    if number.startswith("0x"):
        return int(number, 16) * unit_ns
    from decimal import Decimal, InvalidOperation  # noqa: PLC0415  (few command lines have a time)
    from fractions import Fraction  # noqa: PLC0415

    try:
        value = Decimal(number)
    except InvalidOperation:  # an exponent beyond what Decimal holds
        value = Decimal(0) if "e-" in number.lower() else Decimal(10) ** (_HUGE_EXPONENT + 1)
    if not value or value.adjusted() < -_HUGE_EXPONENT:
        return 0
    if value.adjusted() > _HUGE_EXPONENT:
        return INT64_MAX + 1
    return int(Fraction(value) * unit_ns)


def _why_no_unit(unit: str) -> str:
    known = ", ".join(DURATION_UNITS_NS)
    if unit.lower() in DURATION_UNITS_NS:
        return f"units are lower case: {unit.lower()}, not {unit}"
    return f"unknown unit {_shown(unit)}; known are {known}"


def _why_no_term(text: str, position: int) -> str:
    rest = text[position:]
    if rest[0].isspace():
        return "blanks are not allowed"
    if rest[0] == ".":
        return "a decimal point needs digits on both sides, as in 0.5s"
    if rest[0] == ",":
        return "the decimal sign is a point, not a comma, as in 0.5s"
    return f"{_shown(rest)} is not a number with an optional unit, as in 5ms"


def _shown(text: str) -> str:
    """The user's text in quotes, escapes made visible and cut to a line."""
    return repr(text if len(text) <= 60 else f"{text[:57]}...")


_RANKS = re.compile(r"([0-9]+)(?:-([0-9]+))?")
_MAX_RANK = MOST_RANKS - 1


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


MAX_LISTED: Final = 4096
"""Most ranks that documents list one by one; their number is stated beside them."""


class MissingRanks(Sequence[int]):
    """Sorted ranks from 0 to ``world_size`` that are not in ``present``; equal to a tuple of them.

    Memory and time grow with the ranks that are present, whatever size a file states. ``unread``
    are ranks that have a file which is not read: missing also beyond the world that files state.
    """

    def __init__(
        self, world_size: int, present: Collection[int | None], unread: Collection[int] = ()
    ) -> None:
        inside = sorted({r for r in present if r is not None and 0 <= r < world_size})
        gaps = itertools.pairwise((-1, *inside, world_size))
        self._ranges = [range(a + 1, b) for a, b in gaps if b - a > 1]
        beyond = {rank for rank in unread if rank >= world_size}
        self._ranges += _ranges_of(sorted(beyond.difference(present)))
        self._ends = list(itertools.accumulate(map(len, self._ranges)))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __iter__(self) -> Iterator[int]:
        return itertools.chain.from_iterable(self._ranges)

    @overload
    def __getitem__(self, index: int) -> int: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[int]: ...

    def __getitem__(self, index: int | slice) -> int | Sequence[int]:
        if isinstance(index, slice):
            return tuple(self[place] for place in range(*index.indices(len(self))))
        place = range(len(self))[index]
        part = bisect_right(self._ends, place)
        return self._ranges[part][place - self._ends[part]]

    def __eq__(self, other: object) -> bool:
        if isinstance(other, MissingRanks):
            return self._ranges == other._ranges
        return isinstance(other, tuple) and len(self) == len(other) and tuple(self) == other

    def __hash__(self) -> int:
        return hash(tuple(self._ends))

    @property
    def ranges(self) -> Sequence[range]:
        """The ranks as ranges, in order."""
        return self._ranges


MAX_RANGES: Final = 8
"""Most ranges that a sentence lists; the number of the other ranks is stated."""


def ranges_text(ranks: Sequence[int], most: int = MAX_RANGES) -> str:
    """Format sorted ranks on one line: ``0-15, 48-1023``, or ``1, 3, 5 and 61 more up to 127``."""
    ranges = ranks.ranges if isinstance(ranks, MissingRanks) else _ranges_of(ranks)
    shown = [str(one[0]) if len(one) == 1 else f"{one[0]}-{one[-1]}" for one in ranges[:most]]
    left = sum(map(len, ranges[most:]))
    more = f" and {left} more up to {ranges[-1][-1]}" if left else ""
    return ", ".join(shown) + more


def _ranges_of(ranks: Sequence[int]) -> list[range]:
    found: list[range] = []
    for rank in ranks:
        if found and found[-1].stop == rank:
            found[-1] = range(found[-1].start, rank + 1)
        else:
            found.append(range(rank, rank + 1))
    return found
