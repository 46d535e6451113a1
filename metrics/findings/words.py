"""Numbers, ranks and names as a person says them: ``2.2 s``, ``68 %``, ``ranks 0-5 and 7``."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from ccltui.parsers.missing_ranks import ranges_text
from ccltui.parsers.names import natural_key

_LONG_S: Final = 120.0
"""Seconds from which on minutes are easier to read."""
_LONGEST_NAME: Final = 48
"""Characters of a kernel's name in a sentence; names of templates have thousands."""


def time_text(ms: float) -> str:
    """Return a time in the unit that a person would use, three digits: ``749 ms``, ``2.2 s``."""
    seconds = abs(ms) / 1000
    sign = "-" if ms < 0 else ""
    if seconds >= _LONG_S:
        return sign + _clock(round(seconds))
    if seconds >= 1:
        return f"{sign}{_digits(seconds)} s"
    if seconds >= 0.001 or not ms:
        return f"{sign}{_digits(seconds * 1000)} ms"
    return f"{sign}{_digits(seconds * 1e6)} us"


def _clock(seconds: int) -> str:
    minutes, rest = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    return f"{minutes} min {rest} s" if rest else f"{minutes} min"


def _digits(value: float) -> str:
    """Three significant digits, without a trailing zero behind the point."""
    if value >= 100:
        return f"{value:,.0f}"
    shown = f"{value:.2f}" if value < 10 else f"{value:.1f}"
    return shown.rstrip("0").rstrip(".")


def percent(share: float) -> str:
    """Return a share: ``68 %``, ``8.5 %`` below ten, ``less than 0.1 %``."""
    value = 100 * share
    if 0 < value < 0.1:
        return "less than 0.1 %"
    if value >= 99.5:
        return "100 %" if share > 0.9995 else f"{min(value, 99.9):.1f} %"
    return f"{value:.0f} %" if value >= 10 else f"{value:.1f} %"


def factor(value: float) -> str:
    """Return how many times as long something takes as words: ``6 % longer``, ``2.2 times``."""
    if value < 1.5:
        return f"{percent(value - 1)} longer".replace(".0 %", " %")
    return f"{_digits(value)} times as long"


_MOST_PARTS: Final = 4
"""Parts of a list in a sentence: what a reader takes in at once."""


def count(number: int, noun: str, plural: str = "") -> str:
    """Return ``1 rank``, ``4 ranks``, ``42,748 ranks``."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def ranks_text(labels: Collection[str]) -> str:
    """Return ``rank 2``, ``ranks 0 and 6``, ``ranks 0-5 and 7``; long lists as a number."""
    ordered = sorted(labels, key=natural_key)
    if len(ordered) == 1:
        return f"rank {ordered[0]}"
    return f"ranks {numbers_text(ordered)}"


def numbers_text(labels: Sequence[str]) -> str:
    """Return numbers as ranges, other labels one by one, at most four parts."""
    numbers = [int(one) for one in labels if one.isascii() and one.isdecimal()]
    parts = list(labels)
    if len(numbers) == len(labels):
        ordered = sorted(set(numbers))
        parts = ranges_text(ordered, most=_MOST_PARTS).split(", ")
        if " more up to " in parts[-1]:
            return ranges_text(ordered, most=_MOST_PARTS - 1)
    if len(parts) > _MOST_PARTS:
        return f"{', '.join(parts[:3])} and {len(parts) - 3} more"
    return " and ".join(filter(None, [", ".join(parts[:-1]), parts[-1]]))


def short_name(name: str) -> str:
    """Return a name for a sentence: cut at the length that reads well."""
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}…"


def sentence(text: str) -> str:
    """Return a text that begins with a capital letter and ends with one full stop."""
    stripped = text.strip().rstrip(".")
    return f"{stripped[:1].upper()}{stripped[1:]}." if stripped else ""
