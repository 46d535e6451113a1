"""Convert decimal microseconds, as written in the file, to exact integer nanoseconds."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal, InvalidOperation

LIMIT_NS = 1 << 61
"""Largest time accepted, so that the sum of a time and the base time fits into int64."""


def nanoseconds(microseconds: object) -> int | None:
    """Return the nanoseconds of a JSON number (int, or the text of a float), None if unusable.

    More than three decimals round half away from zero. The text is never converted to a double,
    which would be off by up to 253 ns at today's epoch.
    """
    value: int | None
    if isinstance(microseconds, int):
        value = None if isinstance(microseconds, bool) else microseconds * 1000
    elif isinstance(microseconds, str):
        whole, _, fraction = microseconds.partition(".")
        try:
            value = int(whole + fraction) if len(fraction) == 3 else _rounded(microseconds)
        except ValueError:
            value = _rounded(microseconds)
    else:
        return None
    return value if value is not None and -LIMIT_NS < value < LIMIT_NS else None


def is_late(microseconds: object) -> bool:
    """Whether a value is a number of microseconds beyond ``LIMIT_NS``, as nanoseconds are."""
    if isinstance(microseconds, bool) or not isinstance(microseconds, int | str):
        return False
    try:
        return Decimal(microseconds) * 1000 >= LIMIT_NS
    except (InvalidOperation, ValueError):
        return False


def _rounded(text: str) -> int | None:
    try:
        number = Decimal(text)
        if not number.is_finite() or number.adjusted() > 25:
            return None
        return int((number * 1000).quantize(Decimal(1), rounding=ROUND_HALF_UP))
    except InvalidOperation:
        return None
