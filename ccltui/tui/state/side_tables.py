"""Tables of files beside the traces: reading and export of their rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from msgspec import structs

from ccltui.tui.state.pane import Record

if TYPE_CHECKING:
    from ccltui.metrics.metric import Metric
    from ccltui.parsers.job import Job

R = TypeVar("R")

_SHORT_BYTES: Final = 1_000_000
"""Most bytes of text read within a frame or two; longer texts must not delay the keys."""
_CATEGORIES: Final = frozenset({"runs", "cluster"})


def of_traces() -> dict[str, Metric]:
    """Return the metrics of the Overview; those of runs and machines have their own panes."""
    from ccltui.metrics.registry import metrics  # noqa: PLC0415  (after the first paint)

    found = metrics().items()
    return {name: one for name, one in found if one.in_all and one.category not in _CATEGORIES}


def has_short_texts(job: Job) -> bool:
    """Return whether the texts of a directory are short enough to read without delaying keys."""
    text = sum(file.size_bytes for file in job.discovery.files if file.format.read_by_line)
    return text <= _SHORT_BYTES


def made_in_process(make: Callable[[], Sequence[R]], cancelled: Callable[[], bool]) -> Sequence[R]:
    """Return the rows, made in a separate process; none once ``cancelled``: that process ends."""
    from ccltui.tui.subprocess_task import run_in_process  # noqa: PLC0415  (after the first paint)

    return run_in_process(make, cancelled) or ()


def records_of(rows: Sequence[Any]) -> Iterator[Record]:
    """Convert rows, which are structs, for export; curves are left out."""
    for one in rows:
        values = structs.asdict(one)
        values.pop("loss_curve", None)
        values.pop("rate_curve", None)
        done = values.pop("completeness", None)
        if done is not None:
            values |= {"state": done.state, "missing": ", ".join(done.missing)}
        remarks = values.pop("remarks", None)
        if remarks is not None:
            values["remarks"] = "; ".join(remarks)
        yield values
