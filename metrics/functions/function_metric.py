"""A metric whose number comes from a function ``metric_cal`` in a process of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from ccltui.metrics.functions.function_process import (
    FunctionFailedError,
    FunctionLimits,
    FunctionSource,
    Returned,
    call,
)
from ccltui.metrics.metric import Metric
from ccltui.metrics.result import Reason, Result, unit_of
from ccltui.metrics.unavailable import Refusal, refuse
from ccltui.parsers.safe_text import listed, printable, safe_text

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View
    from ccltui.metrics.view.view_options import ViewOptions


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


CATEGORY: Final = "functions"
_UNIT: Final = "as returned"


class FunctionCompute(Struct, frozen=True):
    """Computes a metric by a function; it is sent between processes without any code."""

    name: str
    source: FunctionSource
    limits: FunctionLimits

    def __call__(self, view: View) -> Result:
        """Run the function on the directory of a view.

        Raises:
            Refusal: The view is a part of the directory, or the function returned no number.
        """
        directory = _directory_of(view)
        _check_whole(view.options)
        try:
            returned = call(self.source, directory, view.options.profile_mode, self.limits)
        except FunctionFailedError as error:
            raise self._failed(str(error)) from None
        reading = read_returned(self.name, returned.value, returned.not_finite)
        if reading.problem:
            raise self._failed(reading.problem)
        reasons = [Reason("function_partial", reading.reservation)] if reading.reservation else []
        return Result(
            metric=self.name,
            unit=reading.unit,
            definition=definition_of(self.source),
            status="partial" if reasons else "ok",
            value=reading.value,
            details=reading.details,
            reasons=reasons,
            warnings=_warnings(returned, view),
            source="function",
            basis={} if reading.key is None else {"value": f"the entry {reading.key}"},
            inputs=_inputs(self.source, directory, view),
        )

    def _failed(self, problem: str) -> Refusal:
        shown = self.source.shown
        message = f"{printable(Path(shown).name)}: {safe_text(problem)}"
        return refuse("function_failed", message, file=shown)


def metric_of(name: str, source: FunctionSource, limits: FunctionLimits) -> Metric:
    """Return the metric of a function under a name."""
    return Metric(
        name=name,
        unit=_UNIT,
        definition=definition_of(source),
        needs=("whatever the function reads",),
        keys=(VALUE,),
        headline=VALUE,
        compute=FunctionCompute(name, source, limits),
        label=name,
        category=CATEGORY,
        needs_traces=False,
        lists_measured=False,
    )


def definition_of(source: FunctionSource) -> str:
    """Definition by the documentation of the function, and where it is."""
    origin = f"The number that metric_cal of {printable(source.shown)} returns."
    return f"{source.summary} {origin}" if source.summary else origin


def _directory_of(view: View) -> str:
    path = Path(view.job.path)
    if not path.is_dir():
        raise refuse("not_applicable", f"the function measures a directory; {path} is a file")
    return str(path)


def _check_whole(options: ViewOptions) -> None:
    """Refuse a selection, which a function is not told of."""
    chosen: Sequence[tuple[str, Any]] = (
        ("--window", options.window),
        ("--steps", options.steps),
        ("--ranks", options.ranks),
        ("--group", options.group),
        ("--raw-clocks", options.raw_clocks),
        ("--set, --batch-size and --seq-len", options.overrides),
        ("--span", options.span != "steps"),
    )
    unusable = [option for option, value in chosen if value]
    if unusable:
        raise refuse(
            "not_applicable",
            f"the function measures the whole directory; it does not follow {', '.join(unusable)}",
        )


def _warnings(returned: Returned, view: View) -> list[str]:
    found = []
    if not returned.takes_mode and view.options.profile_mode != "auto":
        found.append("the function takes no profile mode: it chooses the files itself")
    if len(view.job.discovery.captures) > 1:
        found.append("the function is given the directory with all of its captures")
    return found


def _inputs(source: FunctionSource, directory: str, view: View) -> dict[str, Any]:
    return {
        "function": source.shown,
        "directory": directory,
        "profile_mode": view.options.profile_mode,
    }
