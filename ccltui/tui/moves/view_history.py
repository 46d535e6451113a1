"""Bookmarks and history of views."""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from ccltui.tui.state.scene import Scene
from ccltui.tui.state.view_state import History, ViewState


class Mark(Struct, frozen=True):
    """Request to store this view under a letter."""

    letter: str


class Return(Struct, frozen=True):
    """Request to show a view again: that of a letter, or "" for the previous one."""

    letter: str


def settled(scene: Scene, wish: Mark | Return) -> Scene:
    """Return the scene with a bookmark added, or at the bookmarked view."""
    if isinstance(wish, Mark):
        said = f"bookmark {wish.letter}: '{wish.letter} comes back here"
        return replace(scene, marks={**scene.marks, wish.letter: scene.state}, said=said)
    if not wish.letter:
        return back(scene)
    there = restored(scene, scene.marks[wish.letter])
    return replace(there, history=scene.history.left(scene.state, there.state, "find.return"))


def back(scene: Scene) -> Scene:
    """Return the scene at the previous view."""
    past = scene.history
    if not past.before:
        return scene
    moved = History(past.before[:-1], (*past.after, scene.state))
    return replace(restored(scene, past.before[-1]), history=moved)


def forward(scene: Scene) -> Scene:
    """Return the scene at the following view, after :func:`back`."""
    past = scene.history
    if not past.after:
        return scene
    moved = History((*past.before, scene.state), past.after[:-1])
    return replace(restored(scene, past.after[-1]), history=moved)


def restored(scene: Scene, state: ViewState) -> Scene:
    """Restore an earlier view, as far as what it showed still exists."""
    span = scene.findings.span
    time = state.time.resized(scene.state.time.cells)
    if span is not None:
        time = time.bounded(span.start_ns, span.end_ns)
    selection = state.selection
    if selection.communicator >= len(scene.findings.communicators or ()):
        selection = replace(selection, communicator=0)
    state = replace(
        state, time=time, rows=scene.state.rows, floor_ns=scene.state.floor_ns, selection=selection
    )
    communicator, k = scene.with_state(state).communicator, selection.k
    count = 0 if communicator is None else len(communicator)
    columns = replace(state.columns, count=count).resized(scene.state.columns.cells)
    selection = replace(selection, k=min(k, count - 1) if count and k is not None else None)
    return scene.with_state(
        replace(state, selection=selection, columns=columns.pan(0) if count else columns)
    )
