"""A metric whose number comes from a function ``metric_cal`` in a process of its own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from ccltui.metrics.functions.function_process import (
    FunctionFailedError,
    FunctionLimits,
    Returned,
    call,
)
from ccltui.metrics.functions.function_source import FunctionSource
from ccltui.metrics.functions.returned_value import VALUE, read_returned
from ccltui.metrics.metric import Metric
from ccltui.metrics.result import Reason, Result
from ccltui.metrics.unavailable import Refusal, refuse
from ccltui.parsers.names import printable
from ccltui.parsers.safe_text import safe_text

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View
    from ccltui.metrics.view.view_options import ViewOptions

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
