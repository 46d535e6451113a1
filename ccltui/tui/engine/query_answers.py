"""Answer the queries of panes from the view behind the findings; runs in a thread."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ccltui.metrics.arrays.sequence_diff import TooDifferentError
from ccltui.metrics.compare.step_diff import Side, step_diff
from ccltui.metrics.device.repetition import NoBlockError, block_of
from ccltui.metrics.device.step_parts import step_parts
from ccltui.tui.state.collective_detail import detail
from ccltui.tui.state.device_streams import kernels_of, streams_of
from ccltui.tui.state.event_table import event_table
from ccltui.tui.state.queries import (
    Answered,
    BlockQuery,
    DetailQuery,
    EventQuery,
    HitQuery,
    KernelQuery,
    Query,
    StepsQuery,
    StreamQuery,
    VersusQuery,
)
from ccltui.tui.state.search_hits import hits

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View
    from ccltui.tui.state.scene import Scene


def answer(view: View, scene: Scene, query: Query) -> Answered:
    """Return the answer, or the problem why there is none."""
    try:
        return Answered(query, _answer(view, scene, query))
    except (NoBlockError, TooDifferentError) as error:
        return Answered(query, problem=str(error))
    except (re.error, KeyError, IndexError) as error:
        return Answered(query, problem=f"{type(error).__name__}: {error}")


def _answer(view: View, scene: Scene, query: Query) -> Any:
    match query:
        case EventQuery():
            return event_table(view, scene, query)
        case HitQuery():
            return hits(view, scene, query)
        case DetailQuery():
            return detail(view, scene, query)
        case StepsQuery():
            return step_parts(view.with_options(steps=None))
        case StreamQuery():
            return streams_of(view, query.ranks)
        case KernelQuery():
            return kernels_of(view, query.category)
        case BlockQuery():
            return block_of(view, query.rank, query.row)
        case VersusQuery():
            one, other = Side(*query.versus.one), Side(*query.versus.other)
            return step_diff(view, one, other)
