"""The two lines about the cursor."""

from __future__ import annotations

from ccltui.draw.palette import Ink
from ccltui.tui.chrome.chrome_lines import cut, message_line, spread
from ccltui.tui.moves.search_steps import count_text
from ccltui.tui.state.pane import pane_in_view
from ccltui.tui.state.scene import Scene
from ccltui.tui.styled_text import Line


def status(scene: Scene, width: int) -> list[Line]:
    """Return the two lines about the cursor; a notice replaces the second."""
    above, below = _status(scene, width)
    below = message_line(scene) or below
    session, findings = scene.session, scene.findings
    current = findings.complete and findings.generation == session.generation
    waiting = not current and session.ranks_loaded + session.ranks_partly > 0
    search = count_text(scene)
    right: Line = [(f" {search} ", Ink.HIT)] if search else []
    right += [("computing ", Ink.DIM)] if waiting else []
    return [cut(above, width, Ink.TEXT), spread(below, right, width, Ink.TEXT)]


def _status(scene: Scene, width: int) -> tuple[Line, Line]:
    if scene.session.phase == "failed":
        return [(f" x {scene.session.problem}", Ink.ERROR)], []
    return pane_in_view(scene).status(scene, width)
