"""Format numbers for people: fixed digits, always a unit, commas between thousands."""

from __future__ import annotations

_UNITS = ((1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us"))


def duration(ns: int) -> str:
    """Format a duration in its natural unit, two decimals: ``20.29ms``, ``-3.10us``, ``17ns``."""
    for factor, unit in _UNITS:
        if abs(ns) >= factor:
            return f"{ns / factor:.2f}{unit}"
    return f"{ns}ns"


def signed_duration(ns: int) -> str:
    """Format a difference: ``+20.29ms``; zero has no sign."""
    return duration(ns) if ns <= 0 else f"+{duration(ns)}"


def short_duration(ns: int) -> str:
    """Format a round duration without trailing zeros, for ticks: ``2ms``, ``1.5us``."""
    for factor, unit in _UNITS:
        if abs(ns) >= factor:
            return f"{ns / factor:.6f}".rstrip("0").rstrip(".") + unit
    return f"{ns}ns"


def instant(ns: int, step_ns: int) -> str:
    """Format a time with enough digits to distinguish times ``step_ns`` apart: ``1.2345s``."""
    if ns == 0:
        return "0"
    for factor, unit in _UNITS:
        if abs(ns) >= factor:
            digits, size = 0, factor
            while size > max(step_ns, 1) and digits < 9:
                digits, size = digits + 1, size // 10
            return f"{ns / factor:.{digits}f}{unit}"
    return f"{ns}ns"


def count(value: int) -> str:
    """Format an integer with commas."""
    return f"{value:,}"


def counted(number: int, noun: str, plural: str = "") -> str:
    """Format a number of things: ``1 rank``, ``3 ranks``; ``plural`` where it is not noun + s."""
    return f"{count(number)} {noun if number == 1 else plural or f'{noun}s'}"


def decimal_size(size_bytes: int) -> str:
    """Format a file size in powers of 1000: ``41.0 GB``."""
    value = float(size_bytes)
    for unit in ("B", "kB", "MB", "GB"):
        if abs(value) < 1000:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} TB"


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
