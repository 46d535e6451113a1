"""Answers to what panes ask, computed in a thread from the view behind the findings."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ccltui.tui.detail import detail
from ccltui.tui.events import event_table
from ccltui.tui.hits import hits
from ccltui.tui.queries import Answered, DetailQuery, EventQuery, HitQuery, Query

if TYPE_CHECKING:
    from ccltui.tui.scene import Scene
    from metrics.view import View


def answer(view: View, scene: Scene, query: Query) -> Answered:
    """The answer, or why there is none."""
    try:
        match query:
            case EventQuery():
                return Answered(query, event_table(view, scene, query))
            case HitQuery():
                return Answered(query, hits(view, scene, query))
            case DetailQuery():
                return Answered(query, detail(view, scene, query))
    except (re.error, KeyError, IndexError) as error:
        return Answered(query, problem=f"{type(error).__name__}: {error}")
