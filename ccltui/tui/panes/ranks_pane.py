"""The Ranks pane: who makes others wait, by node, by process group, by share, or rank by rank."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from ccltui.draw.palette import Ink
from ccltui.draw.text import fit_middle
from ccltui.parsers import numbers
from ccltui.tui.panes.cursor_text import as_many
from ccltui.tui.state.answers import Query
from ccltui.tui.state.own.pane_names import RANKS as NAME
from ccltui.tui.state.own.rank_listing import RANKS_STATE, SINGLE
from ccltui.tui.state.own.sorting import Sorting
from ccltui.tui.state.pane import Pane, Record
from ccltui.tui.state.scene import Scene, rank_name
from ccltui.tui.state.view_state import ViewState
from ccltui.tui.styled_text import Line

if TYPE_CHECKING:
    from ccltui.draw.planes import Planes
    from ccltui.metrics.findings.waits.rank_lateness import Fold, RankTable, RankWaits
    from ccltui.tui.moves.lists.folded_ranks import Row

_NAME: Final = 26
_BOARD_FROM: Final = 16
"""Rows of the pane from which the board is above the list."""


class RanksPane(Pane):
    """Wait that ranks cause and have, folded, with a board of all ranks."""

    name = NAME
    key = "$"
    title = "Ranks"
    short_title = "Ranks"
    about = (
        "Ranks by the time that others wait for them in collectives, the worst first. C folds them "
        "by node, by the process groups of each kind, by share of the ranks, or not; enter unfolds "
        "a row, and shows a rank in Timeline; / lists ranks and hosts whose name matches. caused: "
        "wait of others that is due to a rank, sum over the ranks of a row; own wait: mean over "
        "them (straggler_lag). The board has a node or group in each column and its members from "
        "top to bottom, in the colour of the wait they cause; ranks without a file stay empty. "
        "×N: a column shows the worst of N."
    )
    names_communicator = False
    is_filtered = True

    def why_unavailable(self, scene: Scene) -> str | None:
        """Return the reason: there are no several ranks."""
        return None if len(scene.findings.lanes) > 1 else "fewer than two ranks are loaded"

    def queries(self, scene: Scene) -> Iterable[Query[Any]]:
        """Yield the query for the waits, nodes and groups of all ranks."""
        from ccltui.tui.state.queries.rank_query import RanksQuery

        if not scene.findings.lanes:
            return ()
        measured = "straggler_lag" in scene.findings.results
        return (RanksQuery(scene.findings.generation, measured),)

    def paint(self, scene: Scene, height: int, width: int) -> Planes:
        """Draw the answer, the board where there is room, and the list."""
        return _paint(scene, height, width)

    def legend(self, scene: Scene, *, narrow: bool) -> Line:
        """Return what rows are folded and sorted by."""
        from ccltui.tui.moves.lists import folded_ranks

        names = [
            f"[{one}]" if one == folded_ranks.kind(scene) else one
            for one in folded_ranks.kinds(scene)
        ]
        order = self.sorting(scene).text
        folded = ("" if narrow else "C by ") + " ".join(names)
        return [(f"{folded}  {order} " if order else f"{folded} ", Ink.TAB)]

    def status(self, scene: Scene, width: int) -> tuple[Line, Line]:
        """Return the selected row in words, and why waits are unknown."""
        return _status(scene, width)

    def count(self, scene: Scene) -> int:
        """Return the number of listed rows."""
        from ccltui.tui.moves.lists import folded_ranks

        return len(folded_ranks.rows(scene))

    def row(self, scene: Scene) -> int:
        """Return the place of the cursor."""
        from ccltui.tui.moves.lists import folded_ranks

        return folded_ranks.place(scene)

    def to_row(self, scene: Scene, row: int) -> ViewState:
        """Put the cursor on a row."""
        from ccltui.tui.moves.lists import folded_ranks

        return folded_ranks.to_row(scene, row)

    def why_no_rows(self, scene: Scene) -> str:
        """Return the reason: nothing is collected yet, or the filter matches nothing."""
        from ccltui.tui.moves.lists import folded_ranks

        return folded_ranks.why_none(scene) or super().why_no_rows(scene)

    def row_pattern(self, scene: Scene) -> str:
        """Return the pattern of the ranks, hosts and groups that are listed."""
        return RANKS_STATE.of(scene.state).pattern

    def with_row_pattern(self, scene: Scene, pattern: str) -> ViewState:
        """List what matches, ranks below the rows that they belong to."""
        own = RANKS_STATE.of(scene.state)
        return RANKS_STATE.put(scene.state, replace(own, pattern=pattern, row=0))

    is_sorted = True

    def sort_columns(self, scene: Scene) -> tuple[str, ...]:
        """Return the columns; "" is most wait caused first, then least wait of its own."""
        from ccltui.tui.moves.lists import folded_ranks

        return ("", *folded_ranks.COLUMNS)

    def sorting(self, scene: Scene) -> Sorting:
        """Return the order of the rows."""
        return RANKS_STATE.of(scene.state).sorting

    def with_sorting(self, scene: Scene, sorting: Sorting) -> ViewState:
        """Sort rows, and the ranks below each; the cursor moves to the first row."""
        own = RANKS_STATE.of(scene.state)
        return RANKS_STATE.put(scene.state, replace(own, sorting=sorting, row=0))

    def records(self, scene: Scene) -> Iterator[Record]:
        """Yield the listed rows."""
        from ccltui.tui.moves.lists import folded_ranks

        for fold, rank in folded_ranks.rows(scene):
            one = rank or fold
            assert one is not None
            yield {
                folded_ranks.kind(scene): "" if fold is None else fold.name,
                "rank": "" if rank is None else rank.label,
                "host": "" if rank is None else rank.host,
                "caused_wait_us": one.caused_us,
                "own_wait_us": one.suffered_us,
            }


def _paint(scene: Scene, height: int, width: int) -> Planes:
    from ccltui.draw.planes import Planes
    from ccltui.tui.moves.lists import folded_ranks
    from ccltui.tui.panes.pages.wait_board import wait_board

    planes = Planes.blank(height, width, Ink.TEXT)
    table, rows = folded_ranks.table(scene), folded_ranks.rows(scene)
    why = folded_ranks.why_none(scene)
    if table is None or why:
        why = why or "nothing is loaded yet"
        planes.put(1, 1, f"{why[0].upper()}{why[1:]}.", Ink.DIM)
        return planes
    kind = folded_ranks.kind(scene)
    planes.put_fitted(0, 1, _answer(table, kind), Ink.STRONG)
    top = 1
    if height >= _BOARD_FROM and len(table.ranks) > 1:
        across = kind if any(table.members.get(kind, {}).values()) else "node"
        fold = rows[folded_ranks.place(scene)][0]
        room = height // 2 - 1
        name = None if fold is None else fold.name
        board = wait_board(table, across, room, width, selected=name, colour=scene.colour)
        planes.paste(board, top, 0)
        top += board.height
    _list(planes, scene, rows, top)
    return planes


def _list(planes: Planes, scene: Scene, rows: tuple[Row, ...], top: int) -> None:
    from ccltui.tui.moves.lists import folded_ranks

    planes.put(top, 1, _heading(scene), Ink.DIM)
    room = planes.height - top - 1
    place = folded_ranks.place(scene)
    first = max(0, min(place - room // 2, len(rows) - room)) if room > 0 else 0
    most = max((row.caused_us or 0.0 for row in map(_numbers, rows)), default=0.0)
    for y, row in enumerate(rows[first : first + max(room, 0)], start=top + 1):
        on = first + y - top - 1 == place
        ink = Ink.LABEL_ON if on else Ink.TEXT if row[1] is None else Ink.DIM
        text = ("▶" if on else " ") + _line(row)
        planes.put(y, 0, text.ljust(planes.width) if on else text, ink)
        planes.listed[y] = first + y - top - 1
        x, share = len(text) + 2, (_numbers(row).caused_us or 0.0) / (most or 1.0)
        cells = min(planes.width - x, 40)
        if cells > 4:
            planes.put(y, x, "█" * round(share * cells), Ink.WAITING)


def _heading(scene: Scene) -> str:
    from ccltui.tui.moves.lists import folded_ranks

    marked = RANKS_STATE.of(scene.state).sorting.marked
    name, ranks, caused, own, worst = map(marked, folded_ranks.COLUMNS)
    name = name.replace("name", folded_ranks.kind(scene))
    return f"{name:{_NAME}} {ranks:>7} {caused:>10} {own:>10}  {worst}"


def _numbers(row: Row) -> Fold | RankWaits:
    one = row[1] or row[0]
    assert one is not None
    return one


def _line(row: Row) -> str:
    fold, rank = row
    caused, own = _time(_numbers(row).caused_us), _time(_numbers(row).suffered_us)
    if rank is not None:
        name = f"  {rank_name(rank.label)}  {rank.host}"
        return f"{fit_middle(name, _NAME):{_NAME}} {'':>7} {caused:>10} {own:>10}"
    assert fold is not None
    count = str(len(fold.ranks))
    if fold.whole > len(fold.ranks):
        count += f"/{fold.whole}"
    worst = fold.ranks[0] if fold.ranks and fold.ranks[0].caused_us else None
    who = f"{rank_name(worst.label)} {_time(worst.caused_us)}" if worst is not None else ""
    name = fit_middle(fold.name, _NAME)
    return f"{name:{_NAME}} {count:>7} {caused:>10} {own:>10}  {who:16}"


def _time(value_us: float | None) -> str:
    return "--" if value_us is None else numbers.duration(round(value_us * 1e3))


def _answer(table: RankTable, kind: str) -> str:
    if table.why:
        return f"Waits are unknown: {table.why}."
    caused = [one.caused_us or 0.0 for one in table.ranks.values()]
    total = sum(caused)
    if not total:
        return f"None of the {len(caused)} ranks makes others wait."
    worst = table.folds(kind)[0] if kind != SINGLE else None
    if worst is None:
        one = max(table.ranks.values(), key=lambda rank: rank.caused_us or 0.0)
        name, part = rank_name(one.label), one.caused_us or 0.0
    else:
        name, part = worst.name, worst.caused_us or 0.0
    return (
        f"{numbers.counted(len(caused), 'rank')} cause {numbers.duration(round(total * 1e3))} of "
        f"waiting in all, by who comes last; {numbers.percent(part / total)} of it: {name}."
    )


def _status(scene: Scene, width: int) -> tuple[Line, Line]:
    from ccltui.tui.moves.lists import folded_ranks

    row, table = folded_ranks.chosen(scene), folded_ranks.table(scene)
    if row is None or table is None:
        return [], []
    fold, rank = row
    one = _numbers(row)
    what = f"rank {rank.label} on {rank.host or 'an unknown node'}" if rank else ""
    if rank is None and fold is not None:
        what = f"{fold.name}: {numbers.counted(len(fold.ranks), 'rank')}"
        if fold.whole > len(fold.ranks):
            what += f" of {fold.whole}, the others have no file here or are not read"
    parts = [what, f"caused {_time(one.caused_us)}", f"own wait {_time(one.suffered_us)}"]
    above: Line = [(f" {as_many(parts, width - 2)}", Ink.TEXT)]
    return above, [(f" {table.why}" if table.why else "", Ink.WARNING)]


RANKS: Final = RanksPane()
