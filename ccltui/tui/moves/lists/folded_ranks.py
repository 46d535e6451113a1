"""Rows of Ranks: nodes, groups or shares of the ranks, and the ranks of unfolded ones."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Final, TypeVar

from ccltui.tui.moves.missing_data import no_time
from ccltui.tui.state.own.pane_names import TIMELINE
from ccltui.tui.state.own.rank_listing import RANKS_STATE, SINGLE, RanksState
from ccltui.tui.state.own.sorting import Sorting, Value
from ccltui.tui.state.queries.rank_query import RanksQuery
from ccltui.tui.state.scene import Scene
from ccltui.tui.state.view_state import ViewState

if TYPE_CHECKING:
    from ccltui.metrics.findings.waits.rank_lateness import Fold, RankTable, RankWaits

Row = tuple["Fold | None", "RankWaits | None"]
"""A fold, or a rank and the fold that it is listed below, None where ranks are not folded."""
One = TypeVar("One", "Fold", "RankWaits")
COLUMNS: Final = ("name", "ranks", "caused", "own wait", "worst")
"""Columns of the list; the heading of the first is the kind of the rows."""


def table(scene: Scene) -> RankTable | None:
    """Return the newest table of the ranks, None before the first."""
    return scene.answers.latest(RanksQuery)


def kinds(scene: Scene) -> tuple[str, ...]:
    """Return the kinds of rows, single ranks last."""
    found = table(scene)
    return (SINGLE,) if found is None else (*found.kinds, SINGLE)


def kind(scene: Scene) -> str:
    """Return the kind of rows in view."""
    wanted, there = RANKS_STATE.of(scene.state).kind, kinds(scene)
    return wanted if wanted in there else there[0]


def rows(scene: Scene) -> tuple[Row, ...]:
    """Return the listed rows, those that cause most wait first unless sorted by a column.

    Ranks of an unfolded row stay below it, in the same order. A filter lists folds whose name
    matches, and ranks whose name, number or host does.
    """
    found = table(scene)
    own = RANKS_STATE.of(scene.state)
    if found is None:
        return ()
    return _listed(found, kind(scene), own.unfolded, own.pattern, own.sorting)


@lru_cache(maxsize=8)  # asked for several times for each key
def _listed(
    found: RankTable, by: str, unfolded: frozenset[str], pattern: str, sorting: Sorting
) -> tuple[Row, ...]:
    from ccltui.metrics.findings.waits.rank_lateness import badness  # noqa: PLC0415

    matches = re.compile(pattern, re.IGNORECASE).search
    if by == SINGLE:
        ranks = _sorted(sorted(found.ranks.values(), key=badness), sorting)
        return tuple((None, one) for one in ranks if matches(text_of(one)))
    listed: list[Row] = []
    for fold in _sorted(found.folds(by), sorting):
        chosen = _sorted(fold.ranks, sorting)
        if pattern and not matches(fold.name):
            chosen = [one for one in chosen if matches(text_of(one))]
            if chosen:
                listed += [(fold, None), *((fold, one) for one in chosen)]
            continue
        listed.append((fold, None))
        if fold.name in unfolded:
            listed += [(fold, one) for one in chosen]
    return tuple(listed)


def _sorted(rows: Sequence[One], sorting: Sorting) -> Sequence[One]:
    if not sorting.column:
        return rows[::-1] if sorting.reverse else rows
    return [rows[place] for place in sorting.order([_key(one, sorting.column) for one in rows])]


def _key(row: Fold | RankWaits, column: str) -> Value:
    """Return what a row is sorted by; a rank has its number for a name, and is its worst."""
    from ccltui.metrics.findings.waits.rank_lateness import RankWaits  # noqa: PLC0415

    if column == "own wait":
        return row.suffered_us
    if isinstance(row, RankWaits):
        if column == "name":
            return int(row.label) if row.label.isdecimal() else row.label
        return 1 if column == "ranks" else row.caused_us
    if column == "worst":
        return row.ranks[0].caused_us if row.ranks else None
    if column == "caused":
        return row.caused_us
    return row.name if column == "name" else len(row.ranks)


def text_of(rank: RankWaits) -> str:
    """Return the text of a rank that the filter searches: ``r17 rank 17 node-2``."""
    return f"r{rank.label} rank {rank.label} {rank.host}"


def place(scene: Scene) -> int:
    """Return the place of the cursor in the list."""
    return max(min(RANKS_STATE.of(scene.state).row, len(rows(scene)) - 1), 0)


def chosen(scene: Scene) -> Row | None:
    """Return the row under the cursor, None where there is none."""
    listed = rows(scene)
    return listed[place(scene)] if listed else None


def to_row(scene: Scene, row: int) -> ViewState:
    """Put the cursor on a row; on a rank the cursor of all panes goes to it."""
    own = RANKS_STATE.of(scene.state)
    state = RANKS_STATE.put(scene.state, replace(own, row=row))
    listed = rows(scene)
    rank = listed[row][1] if row < len(listed) else None
    if rank is None or rank.label not in scene.findings.lanes:
        return state
    return replace(state, selection=replace(state.selection, rank=rank.label))


def next_kind(scene: Scene) -> ViewState:
    """Fold by the next kind."""
    there = kinds(scene)
    after = there[(there.index(kind(scene)) + 1) % len(there)]
    own = RANKS_STATE.of(scene.state)
    return RANKS_STATE.put(scene.state, RanksState(after, pattern=own.pattern, sorting=own.sorting))


def enter(scene: Scene) -> ViewState:
    """Unfold or fold the row of several ranks; show a rank in Timeline."""
    row = chosen(scene)
    if row is None:
        return scene.state
    fold, rank = row
    if rank is not None:
        return replace(to_row(scene, place(scene)), pane=TIMELINE)
    assert fold is not None
    own = RANKS_STATE.of(scene.state)
    return RANKS_STATE.put(scene.state, replace(own, unfolded=own.unfolded ^ {fold.name}))


def why_none(scene: Scene) -> str | None:
    """Return the reason when no row is listed."""
    missing = no_time(scene)
    if missing is not None:
        return missing
    if table(scene) is None:
        return "the ranks are still being collected"
    if not rows(scene):
        return "no row is listed: / changes the filter"
    return None
