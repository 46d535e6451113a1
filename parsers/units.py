"""Units of time and size as people and tools write them, and exact amounts of time.

Two tables of time units exist because two grammars do: what a report's column header may
say (NVIDIA's ``--timeunit`` and its older spellings) and what a window may say (``nsys
stats --filter-time``), which knows minutes and hours but no ``seconds``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from ccltui.parsers.errors import GrammarError

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
