"""Reasons why an action is unavailable, as sentences for the user; None where it is available."""

from __future__ import annotations

from collections.abc import Callable

from ccltui.tui.moves import time_moves, view_moves
from ccltui.tui.moves.cursor import no_collectives, no_time
from ccltui.tui.state.pane import Axis, pane_in_view
from ccltui.tui.state.scene import Scene

WhyNot = Callable[[Scene], str | None]


def nothing_to_write(scene: Scene) -> str | None:
    """Return the reason when there is nothing to export."""
    return pane_in_view(scene).why_no_export(scene)


def chart_is_empty(scene: Scene) -> str | None:
    """Return the reason when the chart in view is empty."""
    return no_time(scene) if pane_in_view(scene).axis is Axis.TIME else no_collectives(scene)


def no_rows_to_filter(scene: Scene) -> str | None:
    """Return the reason when there is no row that a filter could keep."""
    pane = pane_in_view(scene)
    return None if pane.row_pattern(scene) else view_moves.why_none(scene)


def no_worst(scene: Scene) -> str | None:
    """Return the reason when no rank can be blamed in any communicator."""
    communicators = scene.findings.communicators
    if not communicators or not any(len(one) for one in communicators):
        return no_collectives(scene)
    if scene.disproved:
        return f"nobody can be blamed: {scene.disproved}"
    if not scene.num_worst:
        return "no rank is late by more than the error of the clocks"
    return None


def no_other_communicator(scene: Scene) -> str | None:
    """Return the reason when there is no second communicator."""
    communicators = scene.findings.communicators
    if communicators is not None and len(communicators) == 1:
        return f"{communicators[0].name} is the only communicator"
    return None if communicators else no_collectives(scene)


def none_over_floor(direction: int) -> WhyNot:
    """Return the check for a further lag above the floor in a direction."""

    def why_not(scene: Scene) -> str | None:
        empty = no_collectives(scene)
        if empty is None and scene.disproved:
            return f"nobody can be blamed: {scene.disproved}"
        if empty is not None or view_moves.next_over_floor(scene, direction) is not None:
            return empty
        return f"no {'later' if direction > 0 else 'earlier'} lag over the floor: < lowers it"

    return why_not


def no_event(direction: int) -> WhyNot:
    """Return the check for a further collective of the rank, or edge to measure up to."""

    def why_not(scene: Scene) -> str | None:
        empty = no_time(scene) if time_moves.is_measuring(scene) else no_collectives(scene)
        return time_moves.why_no_event(scene, direction) if empty is None else empty

    return why_not


def no_iteration(direction: int) -> WhyNot:
    """Return the check for a further step in a direction."""

    def why_not(scene: Scene) -> str | None:
        if not scene.findings.steps:
            return "the traces have no step markers"
        if time_moves.next_iteration(scene, direction) is None:
            return f"no {'later' if direction > 0 else 'earlier'} iteration"
        return None

    return why_not


def no_window(scene: Scene) -> str | None:
    """Return the reason when no window is set."""
    return None if scene.session.filter.limits_time else "no window is set: t sets one"


def no_view_before(scene: Scene) -> str | None:
    """Return the reason when this is the first view."""
    return None if scene.history.before else "no view before this one"


def no_view_after(scene: Scene) -> str | None:
    """Return the reason when this is the last view."""
    return None if scene.history.after else "no view after this one: backspace goes back"


def no_window_here(scene: Scene) -> str | None:
    """Return the reason when the area in view makes no window."""
    from ccltui.tui.moves import time_moves  # noqa: PLC0415

    return time_moves.why_no_window(scene)


def nothing_to_go_back(scene: Scene) -> str | None:
    """Return the reason when nothing is open that could be closed."""
    if view_moves.is_open(scene) or scene.session.busy:
        return None
    return "nothing is open: q quits"
