"""Answer the queries of panes from the view behind the findings; runs in a thread."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ccltui.metrics.arrays.sequence_diff import TooDifferentError
from ccltui.metrics.device.repetition import NoBlockError
from ccltui.metrics.unavailable import Refusal
from ccltui.tui.state.answers import Answered, ViewQuery

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View
    from ccltui.tui.state.scene import Scene


def answer(view: View, scene: Scene, query: ViewQuery[Any]) -> Answered[Any]:
    """Return the answer, or the problem why there is none."""
    try:
        return Answered(query, query.answer(view, scene.findings))
    except (NoBlockError, TooDifferentError, Refusal) as error:
        return Answered(query, problem=str(error))
    except (re.error, KeyError, IndexError) as error:
        return Answered(query, problem=f"{type(error).__name__}: {error}")
