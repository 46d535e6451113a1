"""The number and the details in what a function ``metric_cal`` returned."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec import Struct

from ccltui.metrics.key_units import unit_of
from ccltui.parsers.names import listed

VALUE: Final = "value"
"""Key of the number in the details of every function's result."""
_ENVELOPE: Final = frozenset(
    ("metric", "schema", "status", "reason", "reasons", "source", "basis", "inputs", "warnings")
)
"""Keys of the document that a result becomes; returned ones get a prefix."""
_UNITS: Final = ("unit", "units")
_NOTES: Final = ("error", "errors", "reason", "message")
_PREFIX: Final = "returned_"


class Reading(Struct, frozen=True):
    """What a returned value means.

    Attributes:
        value: The number, None where there is none.
        unit: Its unit as stated, or by its key; "" where neither tells.
        details: The returned dictionary with the number under ``value``.
        key: Key of the number, None where the function returned nothing but a number.
        problem: Reason why there is no number; "" where there is one.
        reservation: Reason why the number covers a part of the input only; "" without one.
    """

    value: float | int | None
    unit: str = ""
    details: Mapping[str, Any] = {}
    key: str | None = None
    problem: str = ""
    reservation: str = ""


def read_returned(name: str, returned: Any, not_finite: tuple[str, ...] = ()) -> Reading:
    """Find the number of a returned value.

    It is the returned number itself; of a dictionary the entry ``value``, ``metric_value`` or that
    of the metric's name, else the first entry that is a number or null. A later number never
    replaces a null: it would be another quantity.

    Args:
        name: Name of the metric.
        returned: A value of JSON.
        not_finite: Places whose numbers were not finite.
    """
    if _is_number(returned):
        return Reading(returned, details={VALUE: returned})
    if not isinstance(returned, Mapping):
        bad = f"{', '.join(not_finite)} is not finite" if not_finite else _kind(returned)
        return Reading(None, problem=f"returned no number: {bad}")
    key = _headline(name, returned)
    value = None if key is None else returned[key]
    if not _is_number(value):
        return Reading(None, key=key, problem=_no_number(returned, key, not_finite))
    details = {VALUE: value, **_renamed(returned, key)}
    reservation = _reservation(returned, not_finite)
    return Reading(value, _unit(returned, key), details, key, reservation=reservation)


def _headline(name: str, returned: Mapping[str, Any]) -> str | None:
    for key in (VALUE, "metric_value", name):
        if key in returned:
            return key
    entries = ((key, item) for key, item in returned.items() if key not in _ENVELOPE)
    return next((key for key, item in entries if item is None or _is_number(item)), None)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _kind(value: Any) -> str:
    return "nothing" if value is None else f"a {type(value).__name__}"


def _no_number(returned: Mapping[str, Any], key: str | None, not_finite: tuple[str, ...]) -> str:
    if key in not_finite:
        why = f"{key} is not finite"
    elif key is not None:
        why = f"{key} is {'null' if returned[key] is None else _kind(returned[key])}"
    else:
        why = f"none of {listed(list(returned))} is one" if returned else "the dictionary is empty"
    notes = [f"{note}: {returned[note]}" for note in _NOTES if returned.get(note)]
    return "; ".join([f"returned no number: {why}", *notes])


def _renamed(returned: Mapping[str, Any], key: str | None) -> dict[str, Any]:
    """The entries, except the number itself where it is called ``value`` already."""
    return {
        _PREFIX + name if name in _ENVELOPE or (name == VALUE and key != VALUE) else name: item
        for name, item in returned.items()
        if not (name == key == VALUE)
    }


def _unit(returned: Mapping[str, Any], key: str | None) -> str:
    stated = next((returned[name] for name in _UNITS if isinstance(returned.get(name), str)), "")
    return stated or ("" if key is None else unit_of(key))


def _reservation(returned: Mapping[str, Any], not_finite: tuple[str, ...]) -> str:
    parts = []
    if returned.get("status") in ("partial", "unavailable"):
        notes = [f"{note}: {returned[note]}" for note in _NOTES if returned.get(note)]
        parts.append("; ".join([f"the function states status {returned['status']}", *notes]))
    if not_finite:
        parts.append(f"not finite, and null here: {listed(list(not_finite))}")
    return "; ".join(parts)
