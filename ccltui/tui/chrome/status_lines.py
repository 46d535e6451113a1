"""The two lines about the cursor."""

from __future__ import annotations

import re
from typing import Final

from ccltui.draw.palette import Ink
from ccltui.draw.text import ELLIPSIS, clean, wrap
from ccltui.tui.chrome.chrome_lines import cut, message_line, spread
from ccltui.tui.moves.loss_list import place_text
from ccltui.tui.moves.search_steps import count_text
from ccltui.tui.state.own.pane_names import OVERVIEW
from ccltui.tui.state.pane import pane_in_view
from ccltui.tui.state.scene import Scene
from ccltui.tui.styled_text import Line

_BETWEEN: Final = re.compile(r"(?<=\S)(?: {2,}|; )(?=\S)")
"""What is between two facts of a line."""


def status(scene: Scene, width: int) -> list[Line]:
    """Return the two lines about the cursor.

    A notice replaces the second, or both where it is longer than a line. Of facts that do not
    fit, the last are left out whole.
    """
    above, below = _status(scene, width)
    message = message_line(scene)
    if message is not None:
        (text, style), *_ = message
        first, *rest = wrap(text.strip(), width - 2, most=2, indent="  ") or [""]
        below = [(f" {rest[0] if rest else first}", style)]
        above = [(f" {first}", style)] if rest else above
    session, findings = scene.session, scene.findings
    current = findings.complete and findings.generation == session.generation
    waiting = not current and session.ranks_loaded + session.ranks_partly > 0
    search = count_text(scene)
    right: Line = [(f" {search} ", Ink.HIT)] if search else []
    place = "" if scene.state.pane == OVERVIEW else place_text(scene)
    right += [(f" {place} ", Ink.HIT)] if place else []
    right += [("computing ", Ink.DIM)] if waiting else []
    taken = sum(len(text) for text, _ in right)
    above, below = whole_facts(above, width), whole_facts(below, width - taken)
    return [cut(above, width, Ink.TEXT), spread(below, right, width, Ink.TEXT)]


def whole_facts(line: Line, width: int) -> Line:
    """Return the facts of a line that fit as a whole, and an ellipsis for the others.

    A line whose first fact takes more than half of the width is returned as it is.
    """
    text = "".join(clean(part) for part, _ in line).rstrip()
    if len(text) <= width:
        return line
    ends = [found.start() for found in _BETWEEN.finditer(text)]
    end = max((end for end in ends if width // 2 <= end <= width - 2), default=None)
    if end is None:
        return line
    kept: Line = []
    for part, style in line:
        shown = clean(part)[:end]
        end -= len(shown)
        if shown:
            kept.append((shown, style))
    return [*kept, (f" {ELLIPSIS}", Ink.DIM)]


def _status(scene: Scene, width: int) -> tuple[Line, Line]:
    if scene.session.phase == "failed":
        return [(f" x {scene.session.problem}", Ink.ERROR)], []
    return pane_in_view(scene).status(scene, width)
