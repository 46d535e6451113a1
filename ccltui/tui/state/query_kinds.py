"""Kinds of queries, each with the function that answers it in the server process."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ccltui.tui.state.answers import ViewQuery
from ccltui.tui.state.name_search import Search
from ccltui.tui.state.pane_states import Listing
from ccltui.tui.state.view_state import EventTarget, Versus

if TYPE_CHECKING:
    from ccltui.draw.lanes import Track
    from ccltui.metrics.compare.step_diff import StepDiff, Waterfall
    from ccltui.metrics.device.repetition import Block
    from ccltui.metrics.device.work_pivot import PivotColumns
    from ccltui.metrics.findings.causes.instance_report import CausalChain
    from ccltui.metrics.findings.rank_time.step_parts import StepParts
    from ccltui.metrics.findings.slow_steps import StepCulprits
    from ccltui.metrics.inspection.event_facts import EventReport
    from ccltui.metrics.model.launch_site import LaunchSite
    from ccltui.metrics.result import Result
    from ccltui.metrics.view.job_view import View
    from ccltui.tui.state.collective_detail import Detail
    from ccltui.tui.state.event_table import EventTable
    from ccltui.tui.state.job_findings import Findings
    from ccltui.tui.state.rank_lanes import HostLanes, Streams
    from ccltui.tui.state.search_hits import Hits

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
        from ccltui.tui.state.collective_detail import detail  # noqa: PLC0415

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
        from ccltui.tui.state.search_hits import hits  # noqa: PLC0415

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
    from ccltui.metrics.inspection import event_collective  # noqa: PLC0415
    from ccltui.metrics.inspection.event_facts import EventRef  # noqa: PLC0415
    from ccltui.metrics.inspection.event_report import inspect_event  # noqa: PLC0415

    if target.group == "member":
        event = event_collective.event_of_member(view, target.number, target.row, target.rank)
    elif target.group == "call":
        event = event_collective.event_of_call(view, target.rank, target.row)
    else:
        event = EventRef.of(target.rank, target.group, target.row)
    return inspect_event(view, event, with_file=with_file)
