"""What panes ask of workers, and the answers; a query that is equal needs no new answer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

from ccltui.tui.scene import Scene
from ccltui.tui.viewstate import Listing, Pane

if TYPE_CHECKING:
    from ccltui.tui.detail import Detail
    from ccltui.tui.events import EventTable
    from ccltui.tui.hits import Hits


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


Query = EventQuery | DetailQuery | HitQuery


@dataclass(frozen=True, slots=True)
class Answered:
    """What a worker found; ``problem`` says why it could not."""

    query: Query
    answer: EventTable | Detail | Hits | None = None
    problem: str = ""


def wanted(scene: Scene) -> list[Query]:
    """What the panes in view need for this scene."""
    found: list[Query | None] = [event_query(scene), detail_query(scene), hit_query(scene)]
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
    if scene.state.drawer is None or communicator is None or scene.disproved:
        return None
    if not _is_matched(scene) or k is None or k >= len(communicator):
        return None
    row = int(communicator.row[k])
    return DetailQuery(scene.findings.matched, communicator.number, row)


def hit_query(scene: Scene) -> HitQuery | None:
    """What is searched in the pane in view, None without a search."""
    state, rank = scene.state, scene.state.selection.rank
    if not state.search or state.pane in (Pane.SUMMARY, Pane.FILES) or rank is None:
        return None
    if not _is_matched(scene) or rank not in scene.findings.lanes:
        return None
    if state.pane is Pane.ALIGNMENT and scene.communicator is None:
        return None
    # Only what the answer depends on: moving elsewhere must not search again.
    communicator = state.selection.communicator if state.pane is Pane.ALIGNMENT else 0
    listing = state.listing if state.pane is Pane.EVENTS else Listing()
    return HitQuery(scene.findings.matched, state.pane, rank, communicator, listing, state.search)


def _is_matched(scene: Scene) -> bool:
    """Whether the communicators in view are those of the newest findings."""
    findings = scene.findings
    return findings.communicators is not None and findings.matched == findings.generation


def answered(scene: Scene, found: Answered) -> Scene:
    """The scene with an answer; an answer that nobody waits for any more is dropped."""
    if found.query not in wanted(scene):
        return scene
    if found.answer is None:
        return replace(scene, notice=found.problem)
    if isinstance(found.query, EventQuery):
        return replace(scene, events=cast("EventTable", found.answer))
    if isinstance(found.query, HitQuery):
        return replace(scene, hits=cast("Hits", found.answer))
    return replace(scene, detail=cast("Detail", found.answer))
