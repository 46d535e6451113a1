"""Numbers as text for people: times, shares, counts and sizes, always with their unit.

The only place where they are formatted: sentences, tables and charts show one number alike.
"""

from __future__ import annotations

from typing import Final

_UNITS: Final = ((1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us"))
_LONG_S: Final = 120
"""Seconds from which on minutes are easier to read."""
_MANY_HOURS: Final = 48
"""Hours from which on days are easier to read."""


def duration(ns: float) -> str:
    """Return a time in the unit that a person would use, three digits: ``749 ms``, ``2.2 s``."""
    sign, size = "-" if ns < 0 else "", abs(ns)
    if size >= _LONG_S * 1_000_000_000:
        return sign + _clock(round(size / 1e9))
    for factor, unit in _UNITS:
        if size >= 0.9995 * factor:  # what three digits would round to 1,000 of the next unit
            return f"{sign}{_digits(size / factor)} {unit}"
    return f"{sign}{_digits(size)} ns" if size else "0 s"


def time_text(ms: float) -> str:
    """Return a time in ms as `duration` does one in ns."""
    return duration(ms * 1e6)


def signed_duration(ns: float) -> str:
    """Return a difference of times: ``+20.3 ms``; zero has no sign."""
    return duration(ns) if ns <= 0 else f"+{duration(ns)}"


def compact_duration(ns: float) -> str:
    """Return a time as `duration` does, without a blank, for scales in narrow places: ``2ms``."""
    return duration(ns).replace(" ", "")


def instant(ns: int, step_ns: int) -> str:
    """Return a time with the digits that tell times ``step_ns`` apart: ``1.2345 s``."""
    if ns == 0:
        return "0"
    for factor, unit in _UNITS:
        if abs(ns) >= factor:
            digits, size = 0, factor
            while size > max(step_ns, 1) and digits < 9:
                digits, size = digits + 1, size // 10
            return f"{ns / factor:.{digits}f} {unit}"
    return f"{ns} ns"


def percent(share: float) -> str:
    """Return a share: ``68 %``, ``8.5 %`` below ten, ``less than 0.1 %``."""
    value = 100 * share
    if 0 < value < 0.1:
        return "less than 0.1 %"
    if value >= 99.5:
        return "100 %" if share > 0.9995 else f"{min(value, 99.9):.1f} %"
    # what one decimal would round to 10.0 has none either
    return f"{value:.0f} %" if value >= 9.95 else f"{value:.1f} %"


def percent_in_six(share: float) -> str:
    """Return a share as `percent` does, in six characters at most: ``<0.1 %``."""
    return percent(share).replace("less than ", "<")


def percent_cell(share: float) -> str:
    """Return a share for a column of a table, one decimal in every row: ``68.2 %``."""
    return f"{100 * share:.1f} %"


def _clock(seconds: int) -> str:
    minutes, rest = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    if hours >= _MANY_HOURS:
        return f"{hours / 24:,.0f} days"
    if hours:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    return f"{minutes} min {rest} s" if rest else f"{minutes} min"


def _digits(value: float) -> str:
    """Three significant digits, without a trailing zero behind the point."""
    if value >= 99.95:
        return f"{value:,.0f}"
    shown = f"{value:.2f}" if value < 9.995 else f"{value:.1f}"
    return shown.rstrip("0").rstrip(".")


def count(value: int) -> str:
    """Format an integer with commas."""
    return f"{value:,}"


def counted(number: int, noun: str, plural: str = "") -> str:
    """Format a number of things: ``1 rank``, ``3 ranks``; ``plural`` where it is not noun + s."""
    return f"{count(number)} {noun if number == 1 else plural or f'{noun}s'}"


def decimal_size(size_bytes: float) -> str:
    """Return a size of files or memory in powers of 1000: ``999 B``, ``1.5 MB``, ``41.2 GB``."""
    sign, size = "-" if size_bytes < 0 else "", abs(size_bytes)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 999.5:
            return f"{sign}{_digits(size) if unit != 'B' else f'{size:.0f}'} {unit}"
        size /= 1000
    return f"{sign}{_digits(size)} TB"


def binary_size(size_bytes: int) -> str:
    """Format a message size in powers of 1024: ``256 MiB``, ``1.5 KiB``."""
    value = float(size_bytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(value) < 1024:
            return f"{value:.4g} {unit}"
        value /= 1024
    return f"{value:.4g} TiB"


def quantity(value: float | None) -> str:
    """Format the value of a metric with four significant digits; ``--`` for None."""
    if value is None:
        return "--"
    if isinstance(value, int):
        return count(value)
    size = abs(value)
    if size >= 10_000:
        return f"{value:,.0f}"
    if size >= 1_000:
        return f"{value:,.1f}"
    if size >= 100:
        return f"{value:.1f}"
    if size >= 10:
        return f"{value:.2f}"
    return f"{value:.3f}" if size >= 0.001 or size == 0 else f"{value:.3g}"


def signed_quantity(value: float) -> str:
    """Format a difference of metrics: ``+20.29``; zero has no sign."""
    return quantity(value) if value <= 0 else f"+{quantity(value)}"
