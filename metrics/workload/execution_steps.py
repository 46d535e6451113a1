"""Step times of jobs with execution traces alone, which contain steps without times.

An execution trace contains the times at which its observer began and ended. The steps took that
long in total, the observer's own work included. Traces that were merged with a Kineto trace have
times of step markers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ccltui.metrics.result import Reason
from ccltui.metrics.unavailable import refuse
from ccltui.parsers.errors import TraceError, contained
from ccltui.parsers.execution import EXECUTION_TRACE

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View
    from ccltui.parsers.execution.execution_reader import ExecutionTrace

_MARKED: Final = "length of the step markers that the execution traces were merged with"
_OBSERVED: Final = (
    "time from begin to end of the execution trace over its steps: no node has a time, and the "
    "observer's own work counts"
)


@dataclass(frozen=True, slots=True)
class ExecutionTimes:
    """Step times of the execution traces; ``slowest_ns`` is the maximum over files of each step."""

    slowest_ns: tuple[int, ...]
    files: tuple[str, ...]
    basis: str
    reasons: tuple[Reason, ...]


def has_only_execution_traces(view: View) -> bool:
    """Return whether the job has execution traces and no trace with times."""
    return not view.job.ranks and bool(view.job.discovery.files_of(EXECUTION_TRACE))


def execution_times(view: View) -> ExecutionTimes:
    """Return the step times of all execution traces.

    Raises:
        Refusal: no trace can be read, marks a step or contains a time.
    """
    traces, reasons = _read(view)
    marked = [trace for trace in traces if trace.steps]
    if not marked:
        if reasons and not traces:
            raise refuse("no_trace", "; ".join(reason.message for reason in reasons))
        raise refuse("no_step_markers", "no ProfilerStep in any execution trace")
    numbers = set.intersection(*({s.number for s in trace.steps} for trace in marked))
    timed = all(s.dur_us > 0 for trace in marked for s in trace.steps if s.number in numbers)
    if not numbers:
        raise refuse("no_step_markers", "no step is marked in all execution traces")
    slowest = _timed(marked, numbers) if timed else _observed(marked, len(numbers))
    text = "no Kineto trace: steps and times are those of execution traces"
    return ExecutionTimes(
        slowest_ns=slowest,
        files=tuple(trace.path for trace in marked),
        basis=_MARKED if timed else _OBSERVED,
        reasons=(Reason("no_trace", text), *reasons),
    )


def _read(view: View) -> tuple[list[ExecutionTrace], list[Reason]]:
    from ccltui.parsers.execution.execution_reader import read_execution_trace  # noqa: PLC0415 - few have any

    traces, reasons = [], []
    for file in view.job.discovery.files_of(EXECUTION_TRACE):
        try:
            with contained(file.path):
                traces.append(read_execution_trace(Path(file.real_path), shown=file.path))
        except TraceError as error:
            reasons.append(Reason("no_trace", str(error), file=file.path))
    return traces, reasons


def _timed(traces: Sequence[ExecutionTrace], numbers: set[int]) -> tuple[int, ...]:
    """Length of each step that all traces have, on the slowest rank."""
    return tuple(
        max(round(s.dur_us * 1000) for trace in traces for s in trace.steps if s.number == number)
        for number in sorted(numbers)
    )


def _observed(traces: Sequence[ExecutionTrace], count: int) -> tuple[int, ...]:
    """Mean step length of the slowest rank, repeated for each step."""
    spans = [
        (trace.finish_ms - trace.start_ms) * 1_000_000 / len(trace.steps)
        for trace in traces
        if 0 <= trace.start_ms < trace.finish_ms
    ]
    if not spans:
        raise refuse("no_step_markers", "execution traces without times: no step has a length")
    return (round(max(spans)),) * count
