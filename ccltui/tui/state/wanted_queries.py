"""Queries that a scene needs, and the answers that it has."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from ccltui.tui.state.answers import Answered, FileQuery, Query
from ccltui.tui.state.pane import all_panes, drawer_shows, pane_in_view, pane_named
from ccltui.tui.state.pane_states import STEPS, TIMELINE_STATE, Among, Listing, Search, listing_of
from ccltui.tui.state.query_kinds import (
    BlockQuery,
    ChainQuery,
    CulpritsQuery,
    DetailQuery,
    EventColumnsQuery,
    EventFileQuery,
    EventQuery,
    HitQuery,
    HostQuery,
    KernelQuery,
    LaunchQuery,
    NamesQuery,
    StepsQuery,
    StreamQuery,
    VersusQuery,
    WaterfallQuery,
)
from ccltui.tui.state.scene import Picked, Scene
from ccltui.tui.state.session import AlertsQuery
from ccltui.tui.state.view_state import Shown

if TYPE_CHECKING:
    from ccltui.metrics.findings.rank_time.step_parts import StepParts
    from ccltui.metrics.findings.slow_steps import StepCulprits
    from ccltui.report.gates import Verdict
    from ccltui.tui.state.event_table import EventTable, Hits

# Answers import metrics in methods: the process with the screen does not need them.


def wanted(scene: Scene) -> list[Query[Any]]:
    """Return all queries that the panes on the screen and the drawer need for this scene."""
    return list(_wanted(scene))


def _wanted(scene: Scene) -> Iterator[Query[Any]]:
    shown = pane_in_view(scene)
    for pane in all_panes():  # all panes, as a wide screen shows all charts
        if pane is shown or (pane.is_chart and shown.is_chart):
            yield from pane.queries(scene)
    found = (
        *(detail_query(scene), chain_query(scene), hit_query(scene), block_query(scene)),
        *(versus_query(scene), waterfall_query(scene), alerts_query(scene)),
    )
    yield from event_queries(scene)
    yield from picking_queries(scene)
    yield from (query for query in found if query is not None)


def picking_queries(scene: Scene) -> Iterable[Query[Any]]:
    """Return the queries for the figures of the places that are being chosen from."""
    if scene.picking is Picked.STEPS:
        return pane_named(STEPS).queries(scene)
    if scene.picking is Picked.KERNELS and scene.findings.lanes:
        return (NamesQuery(scene.findings.generation, "name"),)
    return ()


def detail_query(scene: Scene) -> DetailQuery | None:
    """Return the query for the drawer's collective, None when closed or nothing is selected."""
    found = _collective(scene, Shown.COLLECTIVE)
    return None if found is None else DetailQuery(scene.findings.matched, *found)


def chain_query(scene: Scene) -> ChainQuery | None:
    """Return the query for the chain in the drawer, None when it shows none."""
    found = _collective(scene, Shown.CHAIN)
    return None if found is None else ChainQuery(scene.findings.matched, *found)


def _collective(scene: Scene, shown: Shown) -> tuple[int, int] | None:
    """Number of the group and row of the selected collective if the drawer has this content."""
    if scene.collective is None or not drawer_shows(scene, shown):
        return None
    if scene.disproved or not scene.findings.is_matched:
        return None
    communicator, k = scene.collective
    return communicator.number, int(communicator.row[k])


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


def host_query(scene: Scene) -> HostQuery | None:
    """Return the query for the hosts of ranks whose host is unfolded, None without any."""
    unfolded = TIMELINE_STATE.of(scene.state).hosts
    ranks = tuple(sorted(set(unfolded) & set(scene.findings.lanes)))
    return HostQuery(scene.findings.generation, ranks) if ranks else None


def launch_query(scene: Scene) -> LaunchQuery | None:
    """Return the query for the launch of the work at the cursor, None where no lane shows it."""
    rank = scene.state.selection.rank
    if rank is None or rank not in TIMELINE_STATE.of(scene.state).hosts:
        return None
    from ccltui.tui.state.event_table import row_at_cursor  # noqa: PLC0415  (imports numpy)

    row = row_at_cursor(scene)
    return None if row is None else LaunchQuery(scene.findings.generation, rank, row)


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


def event_queries(scene: Scene) -> tuple[EventFileQuery, EventColumnsQuery] | tuple[()]:
    """Return the queries for the event in the drawer, none when it shows none."""
    event, findings = scene.state.event, scene.findings
    if not drawer_shows(scene, Shown.EVENT) or event is None or not findings.is_matched:
        return ()
    if not _is_rank(scene, event.rank):
        return ()
    return EventFileQuery(findings.matched, event), EventColumnsQuery(findings.matched, event)


def _is_rank(scene: Scene, label: str) -> bool:
    return label in scene.findings.lanes


def hits_in_view(scene: Scene, among: Among) -> Hits | None:
    """Return hits of the search in the pane in view, None if it covers other names."""
    query = hit_query(scene)
    if query is None or query.search.among is not among:
        return None
    return scene.answers.answer(query)


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
    if isinstance(found.query, AlertsQuery):
        scene = _judged(scene, found.answer or ())
    return replace(scene, answers=scene.answers.with_result(found))


def _judged(scene: Scene, verdicts: tuple[Verdict, ...]) -> Scene:
    """Return the scene after the alerts were judged; a notice tells of those that became true."""
    if scene.followed is None:
        return scene
    followed = scene.followed.judged(verdicts)
    new = followed.became_true(scene.followed)
    texts = [f"{one.gate.text} (it is {one.value})" for one in new]
    notice = f"alert: {'; '.join(texts)}" if new else scene.notice
    return replace(scene, followed=followed, notice=notice)


def alerts_query(scene: Scene) -> AlertsQuery | None:
    """Return the query for the alerts, None without any, or before all that is read is measured."""
    followed, findings, session = scene.followed, scene.findings, scene.session
    if followed is None or not followed.alerts or session.busy:
        return None
    if not findings.complete or findings.generation != session.generation:
        return None
    texts = tuple(gate.text for gate in followed.alerts)
    return AlertsQuery(findings.generation, texts, followed.chosen)


def side_answer(
    scene: Scene, query: FileQuery[Any], cancelled: Callable[[], bool]
) -> Answered[Any] | None:
    """Return rows of files beside the traces; runs in a worker, and needs no trace."""
    job = scene.session.job
    return None if job is None else Answered(query, query.answer(job, cancelled))


def is_waiting(scene: Scene) -> bool:
    """Return whether an answer that is needed for the view is not known yet."""
    return any(scene.answers.to(query) is None for query in wanted(scene))
