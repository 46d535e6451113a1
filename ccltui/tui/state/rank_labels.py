"""Width of the rank labels at the left of a chart."""

from __future__ import annotations

from ccltui.tui.state.scene import Scene, rank_name

_LEAST = 8
_MOST = 24


def gutter(scene: Scene) -> int:
    """Return the columns for labels, one width for all charts so that their cells line up."""
    longest = max((len(rank_name(label)) for label in scene.findings.lanes), default=0)
    named = max((len(scene.row_name(label)) for label in scene.findings.lanes), default=0)
    return min(max(2 * longest + 3, named + 2, _LEAST), _MOST)
