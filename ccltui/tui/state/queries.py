"""Queries about traces that several panes and the drawer share, and handling of their answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ccltui.tui.state.answers import Answered, FileQuery, Query, ViewQuery
from ccltui.tui.state.name_search import Among, Search
from ccltui.tui.state.own.chart_state import TIMELINE_STATE
from ccltui.tui.state.own.event_listing import Listing, listing_of
from ccltui.tui.state.pane import all_panes, drawer_shows, pane_in_view
from ccltui.tui.state.scene import Scene
from ccltui.tui.state.view_state import Shown, Versus

if TYPE_CHECKING:
    from ccltui.draw.lanes import Track
    from ccltui.metrics.collectives.reports.step_roots import StepCulprits
    from ccltui.metrics.compare.step_diff import StepDiff
    from ccltui.metrics.compare.step_waterfall import Waterfall
    from ccltui.metrics.device.pivot_columns import PivotColumns
    from ccltui.metrics.device.repetition import Block
    from ccltui.metrics.device.step_parts import StepParts
    from ccltui.metrics.result import Result
    from ccltui.metrics.view.job_view import View
    from ccltui.tui.state.collective_detail import Detail
    from ccltui.tui.state.device_streams import Streams
    from ccltui.tui.state.event_table import EventTable
    from ccltui.tui.state.job_findings import Findings
    from ccltui.tui.state.search_hits import Hits

# Answers import metrics in methods: the process with the screen does not need them.


@dataclass(frozen=True, slots=True)
class EventQuery(ViewQuery["EventTable"]):
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


@dataclass(frozen=True, slots=True)
class DetailQuery(ViewQuery["Detail"]):
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


@dataclass(frozen=True, slots=True)
class HitQuery(ViewQuery["Hits"]):
    """Query for the matches of a pattern in the contents of a pane."""

    of_collectives = True
    keeps_last = True

    generation: int
    search: Search

    def answer(self, view: View, findings: Findings) -> Hits:
        """Return the places of the matches."""
        from ccltui.tui.state.search_hits import hits  # noqa: PLC0415

        return hits(view, findings, self.search)


@dataclass(frozen=True, slots=True)
class StepsQuery(ViewQuery["StepParts"]):
    """Query for the parts of all steps, whatever steps are selected."""

    generation: int

    def answer(self, view: View, findings: Findings) -> StepParts:
        """Return the parts of all steps on all ranks."""
        from ccltui.metrics.device.step_parts import step_parts  # noqa: PLC0415

        return step_parts(view.with_options(steps=None))


@dataclass(frozen=True, slots=True)
class CulpritsQuery(ViewQuery["StepCulprits"]):
    """Query for the rank that keeps the others waiting in each step, whatever is selected."""

    of_collectives = True
    keeps_last = True

    generation: int

    def answer(self, view: View, findings: Findings) -> StepCulprits:
        """Return the culprits of all steps."""
        from ccltui.metrics.collectives.reports.step_roots import step_culprits  # noqa: PLC0415

        return step_culprits(view.with_options(steps=None))


@dataclass(frozen=True, slots=True)
class StreamQuery(ViewQuery["Streams"]):
    """Query for the device work of some ranks, stream by stream."""

    generation: int
    ranks: tuple[str, ...]

    def answer(self, view: View, findings: Findings) -> Streams:
        """Return the streams of each rank."""
        from ccltui.tui.state.device_streams import streams_of  # noqa: PLC0415

        return streams_of(view, self.ranks)


@dataclass(frozen=True, slots=True)
class KernelQuery(ViewQuery["Mapping[str, Track]"]):
    """Query for the times of kernels of a category, on every rank."""

    generation: int
    category: str

    def answer(self, view: View, findings: Findings) -> Mapping[str, Track]:
        """Return the track of these kernels by rank."""
        from ccltui.tui.state.device_streams import kernels_of  # noqa: PLC0415

        return kernels_of(view, self.category)


@dataclass(frozen=True, slots=True)
class PivotQuery(ViewQuery["PivotColumns"]):
    """Query for the table of device work of all ranks by name, operator, ...: ``by``."""

    keeps_last = True

    generation: int
    by: str

    def answer(self, view: View, findings: Findings) -> PivotColumns:
        """Return the rows with the most time."""
        from ccltui.metrics.device.pivot_columns import pivot_columns  # noqa: PLC0415

        found = pivot_columns(view, self.by)
        if findings.complete:  # what was computed for this table alone is not kept
            view.forget_details()
        return found


@dataclass(frozen=True, slots=True)
class ParallelismQuery(ViewQuery["Result"]):
    """Query for the metric `parallelism`: communication by dimension and group."""

    keeps_last = True

    generation: int

    def answer(self, view: View, findings: Findings) -> Result:
        """Return the result of the metric; it is computed here where it is not there yet."""
        from ccltui.metrics.registry import find  # noqa: PLC0415

        known = findings.results.get("parallelism")
        return find("parallelism").run(view) if known is None else known


@dataclass(frozen=True, slots=True)
class BlockQuery(ViewQuery["Block"]):
    """Query for the block that a kernel begins: ``row`` of the device work of a rank."""

    generation: int
    rank: str
    row: int

    def answer(self, view: View, findings: Findings) -> Block:
        """Return the repeating block of kernels."""
        from ccltui.metrics.device.repetition import block_of  # noqa: PLC0415

        return block_of(view, self.rank, self.row)


@dataclass(frozen=True, slots=True)
class VersusQuery(ViewQuery["StepDiff"]):
    """Query for the comparison of two ranks or steps."""

    generation: int
    versus: Versus

    def answer(self, view: View, findings: Findings) -> StepDiff:
        """Return the differences between both sides."""
        from ccltui.metrics.compare.step_diff import Side, step_diff  # noqa: PLC0415

        return step_diff(view, Side(*self.versus.one), Side(*self.versus.other))


@dataclass(frozen=True, slots=True)
class WaterfallQuery(ViewQuery["Waterfall"]):
    """Query for the difference in time of two ranks or steps, divided completely into parts."""

    generation: int
    versus: Versus

    def answer(self, view: View, findings: Findings) -> Waterfall:
        """Return the parts of the difference."""
        from ccltui.metrics.compare.step_diff import Side  # noqa: PLC0415
        from ccltui.metrics.compare.step_waterfall import step_waterfall  # noqa: PLC0415

        return step_waterfall(view, Side(*self.versus.one), Side(*self.versus.other))


def wanted(scene: Scene) -> list[Query[Any]]:
    """Return all queries that the panes on the screen and the drawer need for this scene."""
    return list(_wanted(scene))


def _wanted(scene: Scene) -> Iterator[Query[Any]]:
    shown = pane_in_view(scene)
    for pane in all_panes():  # all panes, as a wide screen shows all charts
        if pane is shown or (pane.is_chart and shown.is_chart):
            yield from pane.queries(scene)
    found = (
        *(detail_query(scene), hit_query(scene), block_query(scene)),
        *(versus_query(scene), waterfall_query(scene)),
    )
    yield from (query for query in found if query is not None)


def detail_query(scene: Scene) -> DetailQuery | None:
    """Return the query for the drawer's collective, None when closed or nothing is selected."""
    communicator, k = scene.communicator, scene.state.selection.k
    if not drawer_shows(scene, Shown.COLLECTIVE) or communicator is None or scene.disproved:
        return None
    if not scene.findings.is_matched or k is None or k >= len(communicator):
        return None
    row = int(communicator.row[k])
    return DetailQuery(scene.findings.matched, communicator.number, row)


def hit_query(scene: Scene) -> HitQuery | None:
    """Return the query for the search in the pane in view, None without a search."""
    among, state, rank = pane_in_view(scene).among, scene.state, scene.state.selection.rank
    if not state.search or among is None or rank is None:
        return None
    if not scene.findings.is_matched or rank not in scene.findings.lanes:
        return None
    if among is Among.COLLECTIVES and scene.communicator is None:
        return None
    # Only the inputs of the answer: other moves must not start the search again.
    communicator = state.selection.communicator if among is Among.COLLECTIVES else 0
    listing = listing_of(state) if among is Among.ROWS else Listing()
    search = Search(among, rank, communicator, listing, state.search)
    return HitQuery(scene.findings.matched, search)


def stream_query(scene: Scene) -> StreamQuery | None:
    """Return the query for streams of unfolded ranks, None without any."""
    ranks = tuple(sorted(set(scene.state.unfolded) & set(scene.findings.lanes)))
    return StreamQuery(scene.findings.generation, ranks) if ranks else None


def kernel_query(scene: Scene) -> KernelQuery | None:
    """Return the query for the category that rows are limited to, None without one."""
    kernels = TIMELINE_STATE.of(scene.state).kernels
    if not kernels or not scene.findings.lanes:
        return None
    return KernelQuery(scene.findings.generation, kernels)


def block_query(scene: Scene) -> BlockQuery | None:
    """Return the query for the block in the drawer, None when it shows none."""
    block = scene.state.block
    if not drawer_shows(scene, Shown.BLOCK) or block is None:
        return None
    return BlockQuery(scene.findings.generation, *block) if _is_rank(scene, block[0]) else None


def versus_query(scene: Scene) -> VersusQuery | None:
    """Return the query for the comparison in the drawer, None when it shows none."""
    versus = scene.state.versus
    if not drawer_shows(scene, Shown.VERSUS) or versus is None:
        return None
    if not _is_rank(scene, versus.one[0]) or not _is_rank(scene, versus.other[0]):
        return None
    return VersusQuery(scene.findings.generation, versus)


def waterfall_query(scene: Scene) -> WaterfallQuery | None:
    """Return the query for the parts of the compared difference, None when nothing is compared."""
    versus = versus_query(scene)
    return None if versus is None else WaterfallQuery(versus.generation, versus.versus)


def _is_rank(scene: Scene, label: str) -> bool:
    return label in scene.findings.lanes


def hits_in_view(scene: Scene, among: Among) -> Hits | None:
    """Return hits of the search in the pane in view, None if it covers other names."""
    query = hit_query(scene)
    if query is None or query.search.among is not among:
        return None
    found = scene.answers.to(query)
    return None if found is None else found.answer


def listed_events(scene: Scene) -> EventTable | None:
    """Return the newest list of events, None before the first."""
    return scene.answers.latest(EventQuery)


def parts_of_steps(scene: Scene) -> StepParts | None:
    """Return the parts of the steps; the previous ones until those of newer findings arrive."""
    return scene.answers.latest(StepsQuery)


def culprits_of_steps(scene: Scene) -> StepCulprits | None:
    """Return who keeps the others waiting in each step, None before the first answer."""
    return scene.answers.latest(CulpritsQuery)


def answered(scene: Scene, found: Answered[Any]) -> Scene:
    """Return the scene with an answer; drop an answer to a query that is no longer needed."""
    if found.query not in wanted(scene):
        return scene
    if found.query.keeps_last and found.answer is None:
        return replace(scene, notice=found.problem)
    return replace(scene, answers=scene.answers.with_result(found))


def side_answer(
    scene: Scene, query: FileQuery[Any], cancelled: Callable[[], bool]
) -> Answered[Any] | None:
    """Return rows of files beside the traces; runs in a worker, and needs no trace."""
    job = scene.session.job
    return None if job is None else Answered(query, query.answer(job, cancelled))


def is_waiting(scene: Scene) -> bool:
    """Return whether an answer that is needed for the view is not known yet."""
    return any(scene.answers.to(query) is None for query in wanted(scene))
