"""Rows of Kernels: their order, the selected row, and its longest instance."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

from ccltui.tui.moves import drawer
from ccltui.tui.moves.cursor import in_view
from ccltui.tui.moves.missing_data import no_time
from ccltui.tui.state.against.second_path import compared
from ccltui.tui.state.own.event_listing import EVENTS_STATE, EventsState, Listed, Listing
from ccltui.tui.state.own.kernel_listing import KERNELS_STATE, By, Column
from ccltui.tui.state.own.pane_names import TIMELINE
from ccltui.tui.state.own.sorting import Sorting
from ccltui.tui.state.pane import drawer_has_keys
from ccltui.tui.state.queries.query_kinds import PivotQuery
from ccltui.tui.state.scene import Scene
from ccltui.tui.state.view_state import ViewState

if TYPE_CHECKING:
    from ccltui.metrics.device.pivot_columns import PivotColumns
    from ccltui.parsers.array_types import F64, I64
    from ccltui.tui.state.against.compared import Compared, TimeOf

_CELLS = 4
"""Least width of the longest instance on the timeline."""


def columns(scene: Scene) -> PivotColumns | None:
    """Return the newest table of the kind in view, None before the first."""
    found = scene.answers.latest(PivotQuery)
    return (
        found if found is not None and found.by == KERNELS_STATE.of(scene.state).by.value else None
    )


def order(scene: Scene) -> tuple[int, ...]:
    """Return the rows of the table that match the filter, in order."""
    found, own = columns(scene), KERNELS_STATE.of(scene.state)
    if found is None:
        return ()
    sides = compared(scene)
    if own.sort in (Column.OF_B, Column.DELTA) and sides is not None:
        return _order_of_b(found, sides, own.sort, own.pattern, reverse=own.reverse)
    return _order(found, own.sort, own.pattern, reverse=own.reverse)


@lru_cache(maxsize=4)
def _order_of_b(
    found: PivotColumns, sides: Compared, sort: Column, pattern: str, *, reverse: bool
) -> tuple[int, ...]:
    """Return the rows by the time in B, or by the size of the difference; unknown ones last."""
    rows = _order(found, Column.TOTAL, pattern, reverse=False)
    sizes = [_size(_aligned(sides, found, row), sort) for row in rows]
    return tuple(rows[place] for place in Sorting(reverse=reverse).order(sizes))


def _size(work: TimeOf | None, sort: Column) -> float | None:
    if work is None or work.delta_ms is None:
        return None
    return abs(work.delta_ms) if sort is Column.DELTA else work.b_ms


def of_b(scene: Scene, found: PivotColumns, row: int) -> TimeOf | None:
    """Return the times of a row on both paths, aligned by name and class or shapes.

    None without a second path, and for rows that are neither names nor operators.
    """
    sides = compared(scene)
    return None if sides is None else _aligned(sides, found, row)


def _aligned(sides: Compared, found: PivotColumns, row: int) -> TimeOf | None:
    tables = {By.NAME.value: sides.kernels, By.OPERATOR.value: sides.operators}
    return tables[found.by].get(found.key[row]) if found.by in tables else None


@lru_cache(maxsize=4)
def _order(found: PivotColumns, sort: Column, pattern: str, *, reverse: bool) -> tuple[int, ...]:
    import numpy as np  # noqa: PLC0415  (after the first paint)

    rows = list(range(len(found)))
    if pattern:
        matches = re.compile(pattern, re.IGNORECASE).search
        rows = [row for row in rows if matches(found.name[row]) or matches(found.detail[row])]
    if sort is Column.NAME:
        rows.sort(key=lambda row: (found.name[row].lower(), found.detail[row]))
    else:
        key = np.nan_to_num(-_values(found, sort)[rows], nan=np.inf)
        rows = [rows[place] for place in np.argsort(key, kind="stable").tolist()]
    return tuple(reversed(rows) if reverse else rows)


def _values(found: PivotColumns, sort: Column) -> F64:
    """Return the column that the rows are sorted by, NaN where unknown."""
    columns: dict[Column, F64 | I64] = {
        Column.TOTAL: found.total_ns,
        Column.CALLS: found.calls,
        Column.MEAN: found.mean_ns,
        Column.MAX: found.max_ns,
        Column.P95: found.p95_ns,
        Column.EXPOSED: found.exposed_ns,
        Column.IMBALANCE: found.imbalance,
        Column.TFLOPS: found.tflops,
        Column.TBPS: found.tbps,
        Column.ROOFLINE: found.roofline,
    }
    return columns[sort].astype(float)


def place(scene: Scene) -> int:
    """Return the place of the cursor in the list."""
    return max(min(KERNELS_STATE.of(scene.state).row, len(order(scene)) - 1), 0)


def chosen(scene: Scene) -> int | None:
    """Return the row of the table under the cursor, None where there is none."""
    rows = order(scene)
    return rows[place(scene)] if rows else None


def to_row(scene: Scene, row: int) -> ViewState:
    """Put the cursor on a place of the list."""
    return KERNELS_STATE.put(scene.state, replace(KERNELS_STATE.of(scene.state), row=row))


def sort(step: int) -> Callable[[Scene], ViewState]:
    """Return a change to the next column, or the previous for -1."""

    def move(scene: Scene) -> ViewState:
        own = KERNELS_STATE.of(scene.state)
        after = own.sorted_next(step, compares=scene.other is not None)
        return KERNELS_STATE.put(scene.state, after)

    return move


def reverse(scene: Scene) -> ViewState:
    """Turn the order round."""
    own = KERNELS_STATE.of(scene.state)
    return KERNELS_STATE.put(scene.state, replace(own, reverse=not own.reverse, row=0))


def next_pivot(scene: Scene) -> ViewState:
    """Change to the next kind of rows."""
    return KERNELS_STATE.put(scene.state, KERNELS_STATE.of(scene.state).grouped_next())


def why_none(scene: Scene) -> str | None:
    """Return the reason when no row is listed."""
    missing = no_time(scene)
    if missing is not None:
        return missing
    found = columns(scene)
    if found is None:
        return "still summing the device work"
    if not len(found):
        return "no kernel was recorded in the window"
    return None if order(scene) else "no row is listed: / changes the filter"


def why_no_longest(scene: Scene) -> str | None:
    """Return the reason when :func:`to_longest` leads nowhere."""
    if drawer_has_keys(scene):
        return drawer.why_not_enter(scene)
    missing = why_none(scene)
    if missing is not None:
        return missing
    return None if _longest(scene) is not None else "no call of this row begins in the window"


def _longest(scene: Scene) -> tuple[str, int, int, int] | None:
    """Return rank, row, start since the job's origin and length of the longest instance."""
    found, row = columns(scene), chosen(scene)
    if found is None or row is None or found.longest_row[row] < 0:
        return None
    label = found.longest_rank[row]
    lane = scene.findings.lanes.get(label)
    if lane is None:
        return None
    start_ns = lane.shared(int(found.longest_start_ns[row])) - scene.findings.origin_ns
    return label, int(found.longest_row[row]), start_ns, int(found.longest_ns[row])


def longest_event(scene: Scene) -> tuple[str, int] | None:
    """Return rank and row of ``gpu`` of the longest instance of the selected row."""
    longest = _longest(scene)
    return None if longest is None else longest[:2]


def to_longest(scene: Scene) -> ViewState:
    """Show the longest instance of the row on the timeline, and in Events among device work.

    Where the inspector has the keys, its link is followed.
    """
    if drawer_has_keys(scene):
        return drawer.enter(scene)
    longest = _longest(scene)
    if longest is None:
        return scene.state
    rank, row, start_ns, dur_ns = longest
    state = replace(scene.state.select(rank=rank, time_ns=start_ns), pane=TIMELINE, worst=None)
    communicator = scene.communicator
    if communicator is not None and len(communicator):
        state = state.select(k=communicator.nearest(start_ns))
    state = in_view(EVENTS_STATE.put(state, EventsState(Listing(Listed.DEVICE), row)))
    time = state.time
    while time.cell_ns * _CELLS > dur_ns and (nearer := time.zoom_in(start_ns)) != time:
        time = nearer
    return replace(state, time=time)
