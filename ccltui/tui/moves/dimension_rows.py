"""Rows of Parallelism: dimensions, the groups of unfolded ones, and the way to a collective."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from ccltui.tui.moves import loss_list
from ccltui.tui.moves.cursor import show_communicator
from ccltui.tui.moves.missing_data import no_time
from ccltui.tui.state.against.second_path import compared
from ccltui.tui.state.own.dimension_listing import DIMENSIONS_STATE, Sort
from ccltui.tui.state.own.pane_names import ALIGNMENT
from ccltui.tui.state.queries.query_kinds import ParallelismQuery
from ccltui.tui.state.scene import Scene
from ccltui.tui.state.view_state import ViewState

if TYPE_CHECKING:
    from ccltui.metrics.result import Result
    from ccltui.tui.state.against.compared import DimensionOf

Row = Mapping[str, Any]
"""Row of the metric: a dimension where ``group`` is None, else one of its groups."""

FEW_GROUPS: Final = 16
"""Groups are listed below their dimensions from the start if the job has no more than this."""

KEYS: Final = {
    Sort.CALLS: "calls",
    Sort.BYTES: "message_bytes",
    Sort.BUSBW: "busbw_GBps",
    Sort.EXPOSED: "exposed_ms",
    Sort.HIDDEN: "hidden_ratio",
    Sort.WAIT: "wait_ratio",
    Sort.SKEW: "mean_lag_us",
}
"""Keys of the metric by column."""


def result(scene: Scene) -> Result | None:
    """Return the newest result of the metric, None before the first."""
    return scene.answers.latest(ParallelismQuery)


def details(scene: Scene) -> Mapping[str, Any]:
    """Return the details of the metric, empty where there are none."""
    found = result(scene)
    return {} if found is None or found.status == "unavailable" else found.details


def rows(scene: Scene) -> list[Row]:
    """Return the listed rows: every dimension, followed by its groups where it is unfolded.

    A filter lists dimensions that match, and groups that match below theirs, folded or not.
    """
    matches = re.compile(DIMENSIONS_STATE.of(scene.state).pattern, re.IGNORECASE).search
    listed: list[Row] = []
    for row in _sorted(scene, details(scene).get("dimensions") or ()):
        groups = groups_of(scene, row["dim"])
        if not matches(row["dim"]):
            found = [one for one in groups if matches(one["group"])]
            listed += [row, *_sorted(scene, found)] if found else []
            continue
        listed.append(row)
        if is_unfolded(scene, row["dim"]):
            listed += _sorted(scene, groups)
    return listed


def is_unfolded(scene: Scene, dim: str) -> bool:
    """Return whether the groups of a dimension are listed.

    By default those of a job with few groups; one group alone has the numbers of its dimension.
    """
    few = len(details(scene).get("groups") or ()) <= FEW_GROUPS
    by_default = few and len(groups_of(scene, dim)) > 1
    return by_default != (dim in DIMENSIONS_STATE.of(scene.state).toggled)


def groups_of(scene: Scene, dim: str) -> list[Row]:
    """Return the groups of a dimension in the order of the metric."""
    return [row for row in details(scene).get("groups") or () if row["dim"] == dim]


def _sorted(scene: Scene, found: Sequence[Row]) -> list[Row]:
    own = DIMENSIONS_STATE.of(scene.state)
    if own.sort is Sort.NAME:
        ordered = list(found)
        return ordered[::-1] if own.reverse else ordered
    values = [_sorted_by(scene, row) for row in found]
    known = [place for place, value in enumerate(values) if value is not None]
    known.sort(key=lambda place: values[place] or 0.0, reverse=not own.reverse)
    unknown = [place for place, value in enumerate(values) if value is None]
    return [found[place] for place in (*known, *unknown)]


def _sorted_by(scene: Scene, row: Row) -> float | None:
    """Return the number of a row in the column that the list is sorted by."""
    sort = DIMENSIONS_STATE.of(scene.state).sort
    if sort is not Sort.DELTA:
        value: float | None = row[KEYS[sort]]
        return value
    other = of_b(scene, row)
    delta = None if other is None else other.delta(KEYS[compared_column(scene)])
    return None if delta is None else abs(delta)


def compared_column(scene: Scene) -> Sort:
    """Return the column whose values of a second path are shown: that of the order, or exposed."""
    sort = DIMENSIONS_STATE.of(scene.state).sort
    return Sort.EXPOSED if sort in (Sort.NAME, Sort.DELTA) else sort


def of_b(scene: Scene, row: Row) -> DimensionOf | None:
    """Return a row on both paths, aligned by the names of dimension and group."""
    sides = compared(scene)
    return None if sides is None else sides.dimensions.get((row["dim"], row["group"]))


def place(scene: Scene) -> int:
    """Return the place of the cursor in the list."""
    return max(min(DIMENSIONS_STATE.of(scene.state).row, len(rows(scene)) - 1), 0)


def chosen(scene: Scene) -> Row | None:
    """Return the row under the cursor, None where there is none."""
    listed = rows(scene)
    return listed[place(scene)] if listed else None


def to_row(scene: Scene, row: int) -> ViewState:
    """Put the cursor on a place of the list."""
    return DIMENSIONS_STATE.put(scene.state, replace(DIMENSIONS_STATE.of(scene.state), row=row))


def sort(step: int) -> Callable[[Scene], ViewState]:
    """Return a change to the next column, or the previous for -1."""

    def move(scene: Scene) -> ViewState:
        own = DIMENSIONS_STATE.of(scene.state)
        after = own.sorted_next(step, compares=scene.other is not None)
        return DIMENSIONS_STATE.put(scene.state, after)

    return move


def reverse(scene: Scene) -> ViewState:
    """Turn the order round."""
    own = DIMENSIONS_STATE.of(scene.state)
    return DIMENSIONS_STATE.put(scene.state, replace(own, reverse=not own.reverse, row=0))


def fold(scene: Scene) -> ViewState:
    """Fold or unfold the dimension of the selected row; the cursor moves to the dimension."""
    row = chosen(scene)
    if row is None:
        return scene.state
    own = DIMENSIONS_STATE.of(scene.state)
    own = replace(own, toggled=own.toggled ^ {row["dim"]})
    scene = scene.with_state(DIMENSIONS_STATE.put(scene.state, own))
    dims = [(one["dim"], one["group"]) for one in rows(scene)]
    return to_row(scene, dims.index((row["dim"], None)))


def why_none(scene: Scene) -> str | None:
    """Return the reason when no row is listed."""
    missing = no_time(scene)
    if missing is not None:
        return missing
    found = result(scene)
    if found is None:
        return "still summing the communication"
    if found.status == "unavailable":
        return found.reasons[0].message if found.reasons else "the metric has no value"
    if DIMENSIONS_STATE.of(scene.state).pattern and not rows(scene):
        return "no row is listed: / changes the filter"
    return None if rows(scene) else "no collective in the selection"


def why_not_open(scene: Scene) -> str | None:
    """Return the reason when :func:`to_worst` leads nowhere."""
    missing = why_none(scene)
    row = chosen(scene)
    if missing is not None or row is None:
        return missing
    if row["worst"] is not None or _communicator(scene, row) is not None:
        return None
    reason: str | None = row["why"].get("wait_ratio")
    return reason or "nobody is late at any of its collectives"


def to_worst(scene: Scene) -> ViewState:
    """Show the collective with most waiting of the row, else its communicator, in Alignment."""
    row = chosen(scene)
    if row is None:
        return scene.state
    worst = row["worst"]
    if worst is not None:
        shown = loss_list.to_instance(scene, worst["group_number"], worst["index"])
        if shown is not None:
            return shown
    index = _communicator(scene, row)
    if index is None:
        return scene.state
    return replace(show_communicator(scene, index), pane=ALIGNMENT)


def _communicator(scene: Scene, row: Row) -> int | None:
    """Return the matched communicator of a group, None where it has none."""
    names = [one.name for one in scene.findings.communicators or ()]
    return names.index(row["group"]) if row["group"] in names else None
