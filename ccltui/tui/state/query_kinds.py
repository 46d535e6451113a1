"""Kinds of queries, each with the function that answers it in the server process.

Tables of files beside the traces are read in a process of their own, which cancelling ends. A
``ProcessPoolExecutor`` cannot end work that has begun, and ``multiprocessing.Pool`` does not notice
that a worker has died: a process and a pipe do both.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator, Mapping, Sequence
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from msgspec import Struct, structs

from ccltui.parsers.ingest.rank_worker import ignore_sigint
from ccltui.parsers.ingest.worker_pool import prepare_for_processes, starting
from ccltui.tui.state.answers import Findings, ViewQuery
from ccltui.tui.state.pane import Record
from ccltui.tui.state.pane_states import Listing, Search
from ccltui.tui.state.view_state import EventTarget, Versus

if TYPE_CHECKING:
    from ccltui.draw.timeline_chart import Track
    from ccltui.metrics.compare.step_diff import StepDiff, Waterfall
    from ccltui.metrics.device.repetition import Block
    from ccltui.metrics.device.work_pivot import PivotColumns
    from ccltui.metrics.findings.causes.cause_search import Link
    from ccltui.metrics.findings.causes.instance_report import CausalChain, Instance, LagHistory
    from ccltui.metrics.findings.rank_time.step_parts import StepParts
    from ccltui.metrics.findings.slow_steps import StepCulprits
    from ccltui.metrics.inspection.event_facts import EventReport
    from ccltui.metrics.metric import Metric
    from ccltui.metrics.model.launch_site import LaunchSite
    from ccltui.metrics.result import Result
    from ccltui.metrics.view.job_view import View
    from ccltui.parsers.job import Job
    from ccltui.tui.state.event_table import EventTable, Hits
    from ccltui.tui.state.rank_lanes import HostLanes, Streams

T = TypeVar("T")

_POLL_S: Final = 0.1


def run_in_process(make: Callable[[], T], cancelled: Callable[[], bool]) -> T | None:
    """Return what ``make`` returns in a spawned process; None once cancelled.

    Raises:
        RuntimeError: The process ended before it was done.
        Exception: Any exception that ``make`` raises.
    """
    prepare_for_processes()
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


class Stop(Struct, frozen=True):
    """Position of a link of the chain: rank and time, and a collective where one is in view."""

    label: str
    time_ns: int
    communicator: int | None = None
    k: int | None = None


class Detail(Struct, frozen=True):
    """Details of a collective; ``stops`` are the links of its chain, in order.

    ``history`` is the usual lag of ranks at such a collective.
    """

    instance: Instance
    stops: tuple[Stop, ...]
    history: LagHistory | None = None


def detail(view: View, findings: Findings, number: int, row: int) -> Detail:
    """Compute the details of a collective. Raises IndexError when it does not exist."""
    from ccltui.metrics.findings.causes.instance_report import (  # noqa: PLC0415  (server process)
        describe,
        lag_history,
    )

    found = describe(view, number, row)
    history = lag_history(view.arrivals.groups[number], row)
    return Detail(found, tuple(_stop(view, findings, link) for link in found.chain), history)


def _stop(view: View, findings: Findings, link: Link) -> Stop:
    if link.number < 0:  # a transfer between two ranks, which is a call of its own
        start_ns = view.facts.named_calls[link.label].start_ns[link.row : link.row + 1]
        return Stop(link.label, int(view.on_job_clock(link.label, start_ns)[0]) - view.origin_ns)
    arrived = view.arrivals.groups[link.number]
    start = int(arrived.start_ns[link.row, arrived.labels.index(link.label)])
    stop = Stop(link.label, start - view.origin_ns)
    for index, communicator in enumerate(findings.communicators or ()):
        if communicator.number == link.number:
            places = (communicator.row == link.row).nonzero()[0]
            if len(places):
                return Stop(stop.label, stop.time_ns, index, int(places[0]))
    return stop


# Answers import metrics in methods: the process with the screen does not need them.


class EventQuery(ViewQuery["EventTable"], frozen=True):
    """Query for the events of a rank, sorted and filtered."""

    of_collectives = True
    keeps_last = True

    generation: int
    rank: str
    listing: Listing

    def answer(self, view: View, findings: Findings) -> EventTable:
        """Return the table of these events."""
        from ccltui.tui.state.event_table import event_table  # noqa: PLC0415

        return event_table(view, findings, self.rank, self.listing)


class DetailQuery(ViewQuery["Detail"], frozen=True):
    """Query for all details of one collective: ``row`` of a matched group by its ``number``."""

    of_collectives = True
    keeps_last = True

    generation: int
    number: int
    row: int

    def answer(self, view: View, findings: Findings) -> Detail:
        """Return the details of the collective from the metrics."""
        return detail(view, findings, self.number, self.row)


class ChainQuery(ViewQuery["CausalChain"], frozen=True):
    """Query for the chain of events behind a late collective, over all ranks."""

    of_collectives = True

    generation: int
    number: int
    row: int

    def answer(self, view: View, findings: Findings) -> CausalChain:
        """Return the chain from the metrics."""
        from ccltui.metrics.findings.causes.instance_report import (  # noqa: PLC0415
            causal_chain,
        )

        return causal_chain(view, self.number, self.row)


class HitQuery(ViewQuery["Hits"], frozen=True):
    """Query for the matches of a pattern in the contents of a pane."""

    of_collectives = True
    keeps_last = True

    generation: int
    search: Search

    def answer(self, view: View, findings: Findings) -> Hits:
        """Return the places of the matches."""
        from ccltui.tui.state.event_table import hits  # noqa: PLC0415

        return hits(view, findings, self.search)


class StepsQuery(ViewQuery["StepParts"], frozen=True):
    """Query for the parts of all steps, whatever steps are selected."""

    generation: int

    def answer(self, view: View, findings: Findings) -> StepParts:
        """Return the parts of all steps on all ranks."""
        from ccltui.metrics.findings.rank_time.step_parts import step_parts  # noqa: PLC0415

        return step_parts(view.with_options(steps=None))


class CulpritsQuery(ViewQuery["StepCulprits"], frozen=True):
    """Query for the rank that keeps the others waiting in each step, whatever is selected."""

    of_collectives = True
    keeps_last = True

    generation: int

    def answer(self, view: View, findings: Findings) -> StepCulprits:
        """Return the culprits of all steps."""
        from ccltui.metrics.findings.slow_steps import step_culprits  # noqa: PLC0415

        return step_culprits(view.with_options(steps=None))


class StreamQuery(ViewQuery["Streams"], frozen=True):
    """Query for idle time of some ranks by cause, device work by stream, and device counters."""

    generation: int
    ranks: tuple[str, ...]

    def answer(self, view: View, findings: Findings) -> Streams:
        """Return the streams of each rank."""
        from ccltui.tui.state.rank_lanes import (  # noqa: PLC0415
            counter_lanes_of,
            idle_lane,
            streams_of,
        )

        idle = {rank.label: idle_lane(rank) for rank in view.ranks if rank.label in self.ranks}
        counters = counter_lanes_of(view, self.ranks)
        return {
            label: (
                *([lane] if (lane := idle.get(label)) is not None else []),
                *streams,
                *counters[label],
            )
            for label, streams in streams_of(view, self.ranks).items()
        }


class HostQuery(ViewQuery["Mapping[str, HostLanes]"], frozen=True):
    """Query for the ranges, operators and runtime calls of some ranks, thread by thread."""

    generation: int
    ranks: tuple[str, ...]

    def answer(self, view: View, findings: Findings) -> Mapping[str, HostLanes]:
        """Return the lanes of the host of each rank."""
        from ccltui.tui.state.rank_lanes import host_lanes_of  # noqa: PLC0415

        return host_lanes_of(view, self.ranks)


class LaunchQuery(ViewQuery["LaunchSite | None"], frozen=True):
    """Query for the launch of device work: ``row`` of the device work of a rank."""

    generation: int
    rank: str
    row: int

    def answer(self, view: View, findings: Findings) -> LaunchSite | None:
        """Return the runtime call and its operator, None where no launch is recorded."""
        from ccltui.metrics.model.launch_site import launch_site  # noqa: PLC0415

        return launch_site(view.facts.ranks[self.rank].trace, self.row)


class KernelQuery(ViewQuery["Mapping[str, Track]"], frozen=True):
    """Query for the times of kernels of a category, on every rank."""

    generation: int
    category: str

    def answer(self, view: View, findings: Findings) -> Mapping[str, Track]:
        """Return the track of these kernels by rank."""
        from ccltui.tui.state.rank_lanes import kernels_of  # noqa: PLC0415

        return kernels_of(view, self.category)


class PivotQuery(ViewQuery["PivotColumns"], frozen=True):
    """Query for the table of device work of all ranks by name, operator, ...: ``by``."""

    keeps_last = True

    generation: int
    by: str

    def answer(self, view: View, findings: Findings) -> PivotColumns:
        """Return the rows with the most time."""
        from ccltui.metrics.device.work_pivot import pivot_columns  # noqa: PLC0415

        found = pivot_columns(view, self.by)
        if findings.complete:  # what was computed for this table alone is not kept
            view.forget_details()
        return found


class NamesQuery(PivotQuery, frozen=True):
    """Query for the table by name, for a list to choose from beside the table in view."""


class ParallelismQuery(ViewQuery["Result"], frozen=True):
    """Query for the metric `parallelism`: communication by dimension and group."""

    keeps_last = True

    generation: int

    def answer(self, view: View, findings: Findings) -> Result:
        """Return the result of the metric; it is computed here where it is not there yet."""
        from ccltui.metrics.registry import find  # noqa: PLC0415

        known = findings.results.get("parallelism")
        return find("parallelism").run(view) if known is None else known


class BlockQuery(ViewQuery["Block"], frozen=True):
    """Query for the block that a kernel begins: ``row`` of the device work of a rank."""

    generation: int
    rank: str
    row: int

    def answer(self, view: View, findings: Findings) -> Block:
        """Return the repeating block of kernels."""
        from ccltui.metrics.device.repetition import block_of  # noqa: PLC0415

        return block_of(view, self.rank, self.row)


class VersusQuery(ViewQuery["StepDiff"], frozen=True):
    """Query for the comparison of two ranks or steps."""

    generation: int
    versus: Versus

    def answer(self, view: View, findings: Findings) -> StepDiff:
        """Return the differences between both sides."""
        from ccltui.metrics.compare.step_diff import Side, step_diff  # noqa: PLC0415

        return step_diff(view, Side(*self.versus.one), Side(*self.versus.other))


class WaterfallQuery(ViewQuery["Waterfall"], frozen=True):
    """Query for the difference in time of two ranks or steps, divided completely into parts."""

    generation: int
    versus: Versus

    def answer(self, view: View, findings: Findings) -> Waterfall:
        """Return the parts of the difference."""
        from ccltui.metrics.compare.step_diff import Side, step_waterfall  # noqa: PLC0415

        return step_waterfall(view, Side(*self.versus.one), Side(*self.versus.other))


class EventColumnsQuery(ViewQuery["EventReport"], frozen=True):
    """Query for what the columns hold of an event, and of the events related to it."""

    of_collectives = True
    keeps_last = True

    generation: int
    target: EventTarget

    def answer(self, view: View, findings: Findings) -> EventReport:
        """Return the report without what is read from the file."""
        return _inspected(view, self.target, with_file=False)


class EventFileQuery(ViewQuery["EventReport"], frozen=True):
    """Query for all that is recorded of an event, its file included."""

    of_collectives = True

    generation: int
    target: EventTarget

    def answer(self, view: View, findings: Findings) -> EventReport:
        """Return the report with the fields of the file."""
        return _inspected(view, self.target, with_file=True)


def _inspected(view: View, target: EventTarget, *, with_file: bool) -> EventReport:
    from ccltui.metrics.inspection import event_report  # noqa: PLC0415
    from ccltui.metrics.inspection.event_facts import EventRef  # noqa: PLC0415
    from ccltui.metrics.inspection.event_report import inspect_event  # noqa: PLC0415

    if target.group == "member":
        event = event_report.event_of_member(view, target.number, target.row, target.rank)
    elif target.group == "call":
        event = event_report.event_of_call(view, target.rank, target.row)
    else:
        event = EventRef.of(target.rank, target.group, target.row)
    return inspect_event(view, event, with_file=with_file)
