"""What panes ask of workers, and the answers; a query that is equal needs no new answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from ccltui.tui.state import side_tables
from ccltui.tui.state.scene import Scene
from ccltui.tui.state.side_tables import ClusterQuery, ReportsQuery, RunsQuery, SideQuery
from ccltui.tui.state.view_state import CHARTS, SEARCHED, WITH_DRAWER, Listing, Pane, Shown, Versus

if TYPE_CHECKING:
    from ccltui.metrics.device.step_parts import StepParts
    from ccltui.tui.state.collective_detail import Detail
    from ccltui.tui.state.event_table import EventTable
    from ccltui.tui.state.search_hits import Hits


@dataclass(frozen=True, slots=True)
class EventQuery:
    """The events of a rank, in an order and filtered."""

    generation: int
    rank: str
    listing: Listing


@dataclass(frozen=True, slots=True)
class DetailQuery:
    """Everything about one collective: ``row`` of a matched group by its ``number``."""

    generation: int
    number: int
    row: int


@dataclass(frozen=True, slots=True)
class HitQuery:
    """Where a pattern matches in what a pane shows."""

    generation: int
    pane: Pane
    rank: str
    communicator: int
    listing: Listing
    pattern: str


@dataclass(frozen=True, slots=True)
class StepsQuery:
    """The parts of every step, whatever steps are selected."""

    generation: int


@dataclass(frozen=True, slots=True)
class StreamQuery:
    """The device work of some ranks, stream by stream."""

    generation: int
    ranks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class KernelQuery:
    """When kernels of a category run, on every rank."""

    generation: int
    category: str


@dataclass(frozen=True, slots=True)
class BlockQuery:
    """The block that a kernel begins: ``row`` of the device work of a rank."""

    generation: int
    rank: str
    row: int


@dataclass(frozen=True, slots=True)
class VersusQuery:
    """Two ranks or steps laid over each other."""

    generation: int
    versus: Versus


Query = (
    EventQuery
    | DetailQuery
    | HitQuery
    | StepsQuery
    | StreamQuery
    | KernelQuery
    | BlockQuery
    | VersusQuery
    | RunsQuery
    | ClusterQuery
    | ReportsQuery
)


@dataclass(frozen=True, slots=True)
class Answered:
    """What a worker found; ``problem`` says why it could not."""

    query: Query
    answer: Any = None
    problem: str = ""


def of_collectives(query: Query) -> bool:
    """Whether a query is about matched collectives, beyond what each rank says."""
    return isinstance(query, EventQuery | DetailQuery | HitQuery)


def wanted(scene: Scene) -> list[Query]:
    """What the panes in view need for this scene."""
    found: list[Query | None] = [
        event_query(scene),
        detail_query(scene),
        hit_query(scene),
        steps_query(scene),
        stream_query(scene),
        kernel_query(scene),
        block_query(scene),
        versus_query(scene),
        side_tables.wanted(scene),
    ]
    return [query for query in found if query is not None]


def event_query(scene: Scene) -> EventQuery | None:
    """Which list of events is in view, None when none is."""
    rank = scene.state.selection.rank
    if scene.state.pane is not Pane.EVENTS or rank is None or rank not in scene.findings.lanes:
        return None
    if not _is_matched(scene):
        return None
    return EventQuery(scene.findings.matched, rank, scene.state.listing)


def detail_query(scene: Scene) -> DetailQuery | None:
    """Which collective the drawer shows, None when it is closed or nothing is selected."""
    communicator, k = scene.communicator, scene.state.selection.k
    if not _shows(scene, Shown.COLLECTIVE) or communicator is None or scene.disproved:
        return None
    if not _is_matched(scene) or k is None or k >= len(communicator):
        return None
    row = int(communicator.row[k])
    return DetailQuery(scene.findings.matched, communicator.number, row)


def hit_query(scene: Scene) -> HitQuery | None:
    """What is searched in the pane in view, None without a search."""
    state, rank = scene.state, scene.state.selection.rank
    if not state.search or state.pane not in SEARCHED or rank is None:
        return None
    if not _is_matched(scene) or rank not in scene.findings.lanes:
        return None
    if state.pane is Pane.ALIGNMENT and scene.communicator is None:
        return None
    # Only what the answer depends on: moving elsewhere must not search again.
    communicator = state.selection.communicator if state.pane is Pane.ALIGNMENT else 0
    listing = state.listing if state.pane is Pane.EVENTS else Listing()
    return HitQuery(scene.findings.matched, state.pane, rank, communicator, listing, state.search)


def steps_query(scene: Scene) -> StepsQuery | None:
    """The steps, None unless they are in view."""
    if scene.state.pane is not Pane.STEPS or not scene.findings.steps:
        return None
    return StepsQuery(scene.findings.generation)


def stream_query(scene: Scene) -> StreamQuery | None:
    """Whose streams are unfolded, None without any."""
    ranks = tuple(sorted(set(scene.state.unfolded) & set(scene.findings.lanes)))
    if scene.state.pane not in CHARTS or not ranks:
        return None
    return StreamQuery(scene.findings.generation, ranks)


def kernel_query(scene: Scene) -> KernelQuery | None:
    """Which category of kernels the timeline is limited to, None without one."""
    if scene.state.pane not in CHARTS or not scene.state.kernels or not scene.findings.lanes:
        return None
    return KernelQuery(scene.findings.generation, scene.state.kernels)


def block_query(scene: Scene) -> BlockQuery | None:
    """Whose block the drawer shows, None when it shows none."""
    block = scene.state.block
    if not _shows(scene, Shown.BLOCK) or block is None or block[0] not in scene.findings.lanes:
        return None
    return BlockQuery(scene.findings.generation, *block)


def versus_query(scene: Scene) -> VersusQuery | None:
    """What the drawer lays over each other, None when it does not."""
    versus, lanes = scene.state.versus, scene.findings.lanes
    if not _shows(scene, Shown.VERSUS) or versus is None:
        return None
    if versus.one[0] not in lanes or versus.other[0] not in lanes:
        return None
    return VersusQuery(scene.findings.generation, versus)


def _shows(scene: Scene, shown: Shown) -> bool:
    """Whether the drawer is there and shows this."""
    drawer = scene.state.drawer
    return drawer is not None and drawer.shown is shown and scene.state.pane in WITH_DRAWER


def _is_matched(scene: Scene) -> bool:
    """Whether the communicators in view are those of the newest findings."""
    findings = scene.findings
    return findings.communicators is not None and findings.matched == findings.generation


def answered(scene: Scene, found: Answered) -> Scene:
    """The scene with an answer; an answer that nobody waits for any more is dropped."""
    if found.query not in wanted(scene):
        return scene
    if not isinstance(found.query, EventQuery | HitQuery | DetailQuery):
        return replace(scene, told={**scene.told, type(found.query).__name__: found})
    if found.answer is None:
        return replace(scene, notice=found.problem)
    if isinstance(found.query, EventQuery):
        return replace(scene, events=cast("EventTable", found.answer))
    if isinstance(found.query, HitQuery):
        return replace(scene, hits=cast("Hits", found.answer))
    return replace(scene, detail=cast("Detail", found.answer))


def told(scene: Scene, query: Query | None) -> Answered | None:
    """What was found out about a query, None while it is not known."""
    if query is None:
        return None
    known = scene.told.get(type(query).__name__)
    return known if known is not None and known.query == query else None


def steps_told(scene: Scene) -> StepParts | None:
    """The steps; until those of newer findings are there, those of before."""
    known = scene.told.get(StepsQuery.__name__)
    return None if known is None else cast("StepParts | None", known.answer)


def side_answer(scene: Scene, query: SideQuery, cancelled: Callable[[], bool]) -> Answered | None:
    """Rows of what lies beside the traces; runs in a worker, and needs no trace."""
    job = scene.session.job
    return None if job is None else Answered(query, side_tables.rows_of(job, query, cancelled))


def is_waiting(scene: Scene) -> bool:
    """Whether anything that is in view is still being found out."""
    shown = [one.query for one in (scene.events, scene.detail, scene.hits) if one is not None]
    return any(query not in shown and told(scene, query) is None for query in wanted(scene))
