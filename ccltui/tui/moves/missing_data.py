"""Reasons why there are no collectives or times to move to; None where there are."""

from __future__ import annotations

from ccltui.tui.state.scene import Scene


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


def no_time(scene: Scene) -> str | None:
    """Return the reason when nothing with a time is loaded."""
    return None if scene.findings.span is not None else "no rank is loaded yet"
