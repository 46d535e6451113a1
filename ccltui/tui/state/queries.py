"""Queries about traces that several panes and the drawer make, and how answers reach the scene."""

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
    from ccltui.metrics.compare.step_diff import StepDiff
    from ccltui.metrics.device.repetition import Block
    from ccltui.metrics.device.step_parts import StepParts
    from ccltui.metrics.view.job_view import View
    from ccltui.tui.state.collective_detail import Detail
    from ccltui.tui.state.device_streams import Streams
    from ccltui.tui.state.event_table import EventTable
    from ccltui.tui.state.job_findings import Findings
    from ccltui.tui.state.search_hits import Hits

# The answers import metrics, which the process with the screen does not need.


@dataclass(frozen=True, slots=True)
class EventQuery(ViewQuery["EventTable"]):
    """The events of a rank, in an order and filtered."""

    of_collectives = True
    keeps_last = True

    generation: int
    rank: str
    listing: Listing

    def answer(self, view: View, findings: Findings) -> EventTable:
        """The table of these events."""
        from ccltui.tui.state.event_table import event_table  # noqa: PLC0415

        return event_table(view, findings, self.rank, self.listing)


@dataclass(frozen=True, slots=True)
class DetailQuery(ViewQuery["Detail"]):
    """Everything about one collective: ``row`` of a matched group by its ``number``."""

    of_collectives = True
    keeps_last = True

    generation: int
    number: int
    row: int

    def answer(self, view: View, findings: Findings) -> Detail:
        """The collective as the metrics describe it."""
        from ccltui.tui.state.collective_detail import detail  # noqa: PLC0415

        return detail(view, findings, self.number, self.row)


@dataclass(frozen=True, slots=True)
class HitQuery(ViewQuery["Hits"]):
    """Where a pattern matches in what a pane shows."""

    of_collectives = True
    keeps_last = True

    generation: int
    search: Search

    def answer(self, view: View, findings: Findings) -> Hits:
        """The places of the matches."""
        from ccltui.tui.state.search_hits import hits  # noqa: PLC0415

        return hits(view, findings, self.search)


@dataclass(frozen=True, slots=True)
class StepsQuery(ViewQuery["StepParts"]):
    """The parts of every step, whatever steps are selected."""

    generation: int

    def answer(self, view: View, findings: Findings) -> StepParts:
        """The parts of all steps on all ranks."""
        from ccltui.metrics.device.step_parts import step_parts  # noqa: PLC0415

        return step_parts(view.with_options(steps=None))


@dataclass(frozen=True, slots=True)
class StreamQuery(ViewQuery["Streams"]):
    """The device work of some ranks, stream by stream."""

    generation: int
    ranks: tuple[str, ...]

    def answer(self, view: View, findings: Findings) -> Streams:
        """The streams of each rank."""
        from ccltui.tui.state.device_streams import streams_of  # noqa: PLC0415

        return streams_of(view, self.ranks)


@dataclass(frozen=True, slots=True)
class KernelQuery(ViewQuery["Mapping[str, Track]"]):
    """When kernels of a category run, on every rank."""

    generation: int
    category: str

    def answer(self, view: View, findings: Findings) -> Mapping[str, Track]:
        """The track of these kernels by rank."""
        from ccltui.tui.state.device_streams import kernels_of  # noqa: PLC0415

        return kernels_of(view, self.category)


@dataclass(frozen=True, slots=True)
class BlockQuery(ViewQuery["Block"]):
    """The block that a kernel begins: ``row`` of the device work of a rank."""

    generation: int
    rank: str
    row: int

    def answer(self, view: View, findings: Findings) -> Block:
        """The repeating block of kernels."""
        from ccltui.metrics.device.repetition import block_of  # noqa: PLC0415

        return block_of(view, self.rank, self.row)


@dataclass(frozen=True, slots=True)
class VersusQuery(ViewQuery["StepDiff"]):
    """Two ranks or steps laid over each other."""

    generation: int
    versus: Versus

    def answer(self, view: View, findings: Findings) -> StepDiff:
        """The differences between both sides."""
        from ccltui.metrics.compare.step_diff import Side, step_diff  # noqa: PLC0415

        return step_diff(view, Side(*self.versus.one), Side(*self.versus.other))


def wanted(scene: Scene) -> list[Query[Any]]:
    """All queries whose answers the panes on the screen and the drawer need for this scene."""
    return list(_wanted(scene))


def _wanted(scene: Scene) -> Iterator[Query[Any]]:
    shown = pane_in_view(scene)
    for pane in all_panes():  # a wide screen shows all charts
        if pane is shown or (pane.is_chart and shown.is_chart):
            yield from pane.queries(scene)
    found = (detail_query(scene), hit_query(scene), block_query(scene), versus_query(scene))
    yield from (query for query in found if query is not None)


def detail_query(scene: Scene) -> DetailQuery | None:
    """Which collective the drawer shows, None when it is closed or nothing is selected."""
    communicator, k = scene.communicator, scene.state.selection.k
    if not drawer_shows(scene, Shown.COLLECTIVE) or communicator is None or scene.disproved:
        return None
    if not scene.findings.is_matched or k is None or k >= len(communicator):
        return None
    row = int(communicator.row[k])
    return DetailQuery(scene.findings.matched, communicator.number, row)


def hit_query(scene: Scene) -> HitQuery | None:
    """What is searched in the pane in view, None without a search."""
    among, state, rank = pane_in_view(scene).among, scene.state, scene.state.selection.rank
    if not state.search or among is None or rank is None:
        return None
    if not scene.findings.is_matched or rank not in scene.findings.lanes:
        return None
    if among is Among.COLLECTIVES and scene.communicator is None:
        return None
    # Only what the answer depends on: moving elsewhere must not search again.
    communicator = state.selection.communicator if among is Among.COLLECTIVES else 0
    listing = listing_of(state) if among is Among.ROWS else Listing()
    search = Search(among, rank, communicator, listing, state.search)
    return HitQuery(scene.findings.matched, search)


def stream_query(scene: Scene) -> StreamQuery | None:
    """Whose streams are unfolded, None without any."""
    ranks = tuple(sorted(set(scene.state.unfolded) & set(scene.findings.lanes)))
    return StreamQuery(scene.findings.generation, ranks) if ranks else None


def kernel_query(scene: Scene) -> KernelQuery | None:
    """Which category of kernels the rows are limited to, None without one."""
    kernels = TIMELINE_STATE.of(scene.state).kernels
    if not kernels or not scene.findings.lanes:
        return None
    return KernelQuery(scene.findings.generation, kernels)


def block_query(scene: Scene) -> BlockQuery | None:
    """Whose block the drawer shows, None when it shows none."""
    block = scene.state.block
    if not drawer_shows(scene, Shown.BLOCK) or block is None:
        return None
    return BlockQuery(scene.findings.generation, *block) if _is_rank(scene, block[0]) else None


def versus_query(scene: Scene) -> VersusQuery | None:
    """What the drawer lays over each other, None when it does not."""
    versus = scene.state.versus
    if not drawer_shows(scene, Shown.VERSUS) or versus is None:
        return None
    if not _is_rank(scene, versus.one[0]) or not _is_rank(scene, versus.other[0]):
        return None
    return VersusQuery(scene.findings.generation, versus)


def _is_rank(scene: Scene, label: str) -> bool:
    return label in scene.findings.lanes


def hits_in_view(scene: Scene, among: Among) -> Hits | None:
    """Hits of the search in the pane in view, None unless it looks through this."""
    query = hit_query(scene)
    if query is None or query.search.among is not among:
        return None
    found = scene.answers.to(query)
    return None if found is None else found.answer


def listed_events(scene: Scene) -> EventTable | None:
    """The newest list of events, None before there is one."""
    return scene.answers.latest(EventQuery)


def parts_of_steps(scene: Scene) -> StepParts | None:
    """The parts of the steps; until those of newer findings are there, those of before."""
    return scene.answers.latest(StepsQuery)


def answered(scene: Scene, found: Answered[Any]) -> Scene:
    """The scene with an answer; an answer to a query that is no longer needed is dropped."""
    if found.query not in wanted(scene):
        return scene
    if found.query.keeps_last and found.answer is None:
        return replace(scene, notice=found.problem)
    return replace(scene, answers=scene.answers.with_result(found))


def side_answer(
    scene: Scene, query: FileQuery[Any], cancelled: Callable[[], bool]
) -> Answered[Any] | None:
    """Rows of what lies beside the traces; runs in a worker, and needs no trace."""
    job = scene.session.job
    return None if job is None else Answered(query, query.answer(job, cancelled))


def is_waiting(scene: Scene) -> bool:
    """Whether any answer that is needed for what is in view is not known yet."""
    return any(scene.answers.to(query) is None for query in wanted(scene))
