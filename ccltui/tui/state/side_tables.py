"""Tables of files beside the traces, read in a process of its own that cancelling ends.

A ``ProcessPoolExecutor`` cannot end work that has begun, and ``multiprocessing.Pool`` does not
notice that a worker has died: a process and a pipe do both.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from msgspec import structs

from ccltui.parsers.ingest.rank_worker import ignore_sigint
from ccltui.parsers.ingest.worker_pool import starting
from ccltui.tui.state.pane import Record
from ccltui.tui.terminal import compat

if TYPE_CHECKING:
    from ccltui.metrics.metric import Metric
    from ccltui.parsers.job import Job


T = TypeVar("T")

_POLL_S: Final = 0.1


def run_in_process(make: Callable[[], T], cancelled: Callable[[], bool]) -> T | None:
    """Return what ``make`` returns in a spawned process; None once cancelled.

    Raises:
        RuntimeError: The process ended before it was done.
        Exception: Any exception that ``make`` raises.
    """
    compat.prepare_for_processes()
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_make, args=(make, sender), daemon=True)
    with sender, starting():
        process.start()
    try:
        while not receiver.poll(_POLL_S):
            if cancelled():
                return None
        made = receiver.recv()
    except EOFError:
        raise RuntimeError("the process that reads has ended early") from None
    finally:
        process.terminate()
        process.join()
        receiver.close()
    if isinstance(made, Exception):
        raise made
    return cast("T", made)


def _make(make: Callable[[], object], sender: Connection) -> None:
    ignore_sigint()
    try:
        sender.send(make())
    except Exception as error:  # raised again in the explorer, which has the screen
        sender.send(error)


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
