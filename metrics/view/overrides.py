"""Read overrides of the user that must be numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ccltui.metrics.unavailable import refuse

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View


def positive_number(view: View, name: str) -> float | None:
    """Return an override that must be a number above 0, None where it is not given.

    Raises:
        Refusal: the override is no such number.
    """
    text = view.card.text(name)
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf"):
        raise refuse("card_invalid", f"{name} = {text!r} is not a number above 0")
    return value
