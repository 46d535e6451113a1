"""Move the cursor of all panes to a collective, a time or a communicator, or state why not."""

from __future__ import annotations

from msgspec.structs import replace

from ccltui.tui.state.scene import Scene
from ccltui.tui.state.view_state import ViewState


def in_view(state: ViewState, like_ns: int | None = None) -> ViewState:
    """Scroll both viewports to the cursor, placed within its cell as ``like_ns`` was."""
    selection, time = state.selection, state.time
    if selection.time_ns is not None:
        time = time.showing(selection.time_ns, like_ns)
    columns = state.columns if selection.k is None else state.columns.showing(selection.k)
    return replace(state, time=time, columns=columns)


def to_collective(scene: Scene, k: int, *, culprit: bool = False) -> ViewState:
    """Put the cursor on a collective, and with ``culprit`` on the rank that arrived last."""
    communicator = scene.communicator
    if communicator is None:
        return scene.state
    rank = communicator.culprit(k) if culprit else None
    state = scene.state.select(k=k, rank=rank, time_ns=communicator.moment_ns(k))
    like_ns = scene.state.selection.time_ns
    return in_view(replace(state, worst=scene.worst_place(scene.communicator_index, k)), like_ns)


def to_time(scene: Scene, time_ns: int) -> ViewState:
    """Put the cursor on a time and on the collective that runs at that time."""
    state = scene.state
    time_ns = state.time.nearest(time_ns)
    communicator = scene.communicator
    k = None if communicator is None else communicator.nearest(time_ns)
    return in_view(replace(state.select(time_ns=time_ns, k=k), worst=None))


def call_at(scene: Scene, rank: str | None, time_ns: int) -> tuple[int, int] | None:
    """Return communicator and index of the matched collective that a rank is in at a time."""
    calls = scene.findings.calls.get(rank or "")
    row = None if calls is None else calls.before(time_ns + 1)
    if calls is None or row is None:
        return None
    owner, k = int(calls.communicator[row]), int(calls.k[row])
    communicator = (scene.findings.communicators or ())[owner]
    length = communicator.dur_ns[k, communicator.labels.index(str(rank))]
    return (owner, k) if time_ns < calls.start_ns[row] + length else None


def select_at(scene: Scene, rank: str | None, time_ns: int) -> ViewState:
    """Select a rank (None: keep it), a time, and the collective that the rank is in at that time.

    Its communicator is shown, so that all panes explain what the cursor is on. Where the rank is
    in none, the communicator stays, at the collective that runs at that time.
    """
    selection = scene.state.selection
    rank = selection.rank if rank is None else rank
    state = replace(scene.state.select(rank=rank, time_ns=time_ns), worst=None)
    found = call_at(scene, rank, time_ns)
    if found is not None:
        owner, k = found
        if owner != scene.communicator_index:
            state = show_communicator(scene.with_state(state), owner)
        return state.select(k=k)
    communicator = scene.communicator
    if communicator is None or not len(communicator):
        return state
    return state.select(k=communicator.nearest(time_ns))


def show_communicator(scene: Scene, index: int) -> ViewState:
    """Show another communicator at the same moment."""
    communicators = scene.findings.communicators or ()
    chosen = communicators[index]
    state = scene.state
    time_ns = state.selection.time_ns
    k = chosen.nearest(0 if time_ns is None else time_ns)
    view = type(state.columns).whole(len(chosen), state.columns.cells)
    state = replace(state.select(communicator=index, k=k), columns=view, worst=None)
    if state.selection.rank not in chosen.labels and chosen.labels:
        state = state.select(rank=chosen.labels[0])
    return in_view(state)


def no_collectives(scene: Scene) -> str | None:
    """Return the reason when there are no collectives to move between."""
    communicators = scene.findings.communicators
    if communicators is None:
        if not scene.session.busy and not scene.session.ranks_loaded:
            return "no rank is loaded"
        return "the collectives are not matched yet" if scene.session.busy else "still matching"
    if not communicators:
        result = scene.findings.results.get("straggler_lag")
        reason = result.reasons[0].message if result is not None and result.reasons else ""
        return f"no collective is matched across ranks{': ' if reason else ''}{reason}"
    communicator = scene.communicator
    if communicator is not None and not len(communicator):
        return "no collective in the window: ctrl+t clears it"
    return None


def until_read(scene: Scene, waiting: str) -> str:
    """Return the reason why a pane has no rank: ``waiting`` while files are read."""
    if scene.session.busy or scene.session.ranks_loaded:
        return waiting
    return "no rank could be read: 5 lists the files and what is wrong with them"


def no_time(scene: Scene) -> str | None:
    """Return the reason when nothing with a time is loaded."""
    return None if scene.findings.span is not None else "no rank is loaded yet"
