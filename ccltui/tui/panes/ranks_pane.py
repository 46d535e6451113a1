"""The Ranks pane: who makes others wait, by node, by process group, by share, or rank by rank."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct
from msgspec.structs import replace

from ccltui.draw.palette import Ink
from ccltui.draw.text import Line, fit_middle
from ccltui.metrics.view.words import sentence
from ccltui.parsers import numbers
from ccltui.tui.panes.chart_pane import as_many
from ccltui.tui.panes.list_pane import UNKNOWN, Column, ListPane, Page
from ccltui.tui.state.answers import Query, ViewQuery
from ccltui.tui.state.finding_rows import named_ranks, naming, naming_text, result_of
from ccltui.tui.state.pane import Record
from ccltui.tui.state.pane_states import RANKS as NAME
from ccltui.tui.state.pane_states import TIMELINE, Value
from ccltui.tui.state.scene import Scene, rank_name
from ccltui.tui.state.view_state import ViewState

if TYPE_CHECKING:
    from ccltui.draw.planes import Planes
    from ccltui.metrics.findings.waits.rank_lateness import Fold, RankTable, RankWaits
    from ccltui.metrics.result import Result
    from ccltui.metrics.view.job_view import View
    from ccltui.tui.state.answers import Findings


SINGLE: Final = "rank"
"""Kind of rows that are single ranks."""
_BOARD_FROM: Final = 16
"""Rows of the pane from which the board is above the list."""
_FEW: Final = 8
"""Ranks that are listed one by one at first, without a board: they have room at every size."""
_LEAST_BAR, _WIDEST_BAR = 5, 40


class RanksQuery(ViewQuery["RankTable"], frozen=True):
    """Query for the waits of all ranks; ``is_measured`` is whether they are computed."""

    keeps_last = True

    generation: int
    is_measured: bool

    def answer(self, view: View, findings: Findings) -> RankTable:
        """Return the table of ranks, nodes and groups."""
        from ccltui.metrics.findings.waits.rank_lateness import rank_table

        return rank_table(view, findings.results.get("straggler_lag"))


class Row(Struct, frozen=True):
    """A fold with the rows of its ranks, or a rank and the fold it is below, None for none."""

    fold: Fold | None
    rank: RankWaits | None = None
    ranks: tuple[Row, ...] = ()
    number: int = 0  # of the first finding that names a rank of the row, 0 for none

    @property
    def waits(self) -> Fold | RankWaits:
        """The times of the row."""
        one = self.rank or self.fold
        assert one is not None
        return one

    @property
    def order(self) -> str | int:
        """What rows are sorted by name by: a rank has its number for a name."""
        if self.rank is None:
            return "" if self.fold is None else self.fold.name
        return int(self.rank.label) if self.rank.label.isdecimal() else self.rank.label

    @property
    def worst(self) -> RankWaits | None:
        """The rank that causes most wait of a row; a rank is its worst."""
        if self.rank is not None or self.fold is None:
            return self.rank
        return self.fold.ranks[0] if self.fold.ranks else None


def _time(value_us: float | None) -> str:
    return UNKNOWN if value_us is None else numbers.duration(round(value_us * 1e3))


def _shown_name(row: Row, room: int) -> str:
    mark = f" ◀ {row.number}" if row.number else ""
    room -= len(mark)
    if row.rank is not None:
        name = f"  {rank_name(row.rank.label)}  {row.rank.host}"
        return fit_middle(name, room).rstrip() + mark
    return fit_middle(str(row.order), room).rstrip() + mark


def _num_ranks(row: Row, _: int) -> str:
    if row.rank is not None or row.fold is None:
        return ""
    count = len(row.fold.ranks)
    return f"{count}/{row.fold.whole}" if row.fold.whole > count else str(count)


def _worst(row: Row, _: int) -> str:
    if row.rank is not None or row.worst is None or not row.worst.caused_us:
        return ""
    return f"{rank_name(row.worst.label)} {_time(row.worst.caused_us)}"


def _caused_by_worst(row: Row) -> Value:
    return None if row.worst is None else row.worst.caused_us


class RanksPane(ListPane[Row]):
    """Wait that ranks cause and have, folded, with a board of all ranks."""

    name = NAME
    key = "$"
    title = "Ranks"
    short_title = "Ranks"
    about = (
        "Ranks by the time that others wait for them in collectives, the worst first; those that a "
        "finding names come before them, with its number (◀ 1). C folds them "
        "by node, by the process groups of each kind, by share of the ranks, or not; enter unfolds "
        "a row, and shows a rank in Timeline; / lists ranks and hosts whose name matches. caused: "
        "wait of others in collectives at which the rank came last, which may itself have waited "
        "elsewhere; sum over the ranks of a row; own wait: mean over "
        "them (straggler_lag). The board has a node or group in each column and its members from "
        "top to bottom, in the colour of the wait they cause; ranks without a file stay empty. "
        "×N: a column shows the worst of N."
    )
    keeps_filter = True
    has_bars = True
    waiting = "the ranks are still being collected"
    columns = (
        Column("name", lambda row: row.order, text=_shown_name, align="left", width=26),
        Column(
            "ranks",
            lambda row: 1 if row.fold is None or row.rank else len(row.fold.ranks),
            text=_num_ranks,
            width=6,
        ),
        Column("caused", lambda row: row.waits.caused_us, _time, width=9),
        Column("own wait", lambda row: row.waits.suffered_us, _time, width=9),
        Column("worst", _caused_by_worst, text=_worst, align="left", width=16),
    )

    def why_unavailable(self, scene: Scene) -> str | None:
        """Return the reason: there are no several ranks."""
        return None if len(scene.findings.lanes) > 1 else "fewer than two ranks are loaded"

    def query(self, scene: Scene) -> Query[Any] | None:
        """Return the query for the waits, nodes and groups of all ranks."""
        if not scene.findings.lanes:
            return None
        measured = "straggler_lag" in scene.findings.results
        return RanksQuery(scene.findings.generation, measured)

    def table(self, scene: Scene) -> RankTable | None:
        """Return the newest table of the ranks, None before the first."""
        return scene.answers.latest(RanksQuery)

    def kinds(self, scene: Scene) -> tuple[str, ...]:
        """Return what ranks are folded by; single ranks are last."""
        found = self.table(scene)
        return (SINGLE,) if found is None else self.made_from("kinds", _kinds, found)

    def kind(self, scene: Scene) -> str:
        """Return what ranks are folded by: at first by node, group or share where they are many."""
        kinds, found = self.kinds(scene), self.table(scene)
        wanted = self.own.of(scene.state).kind
        if wanted not in kinds and found is not None and len(found.ranks) <= _FEW:
            return SINGLE
        return super().kind(scene)

    def found_rows(self, scene: Scene) -> Sequence[Row] | None:
        """Return the rows of the kind in view: those that findings name, then by caused wait."""
        found, kind = self.table(scene), self.kind(scene)
        if found is None:
            return None
        return self.made_from("found", _rows, found, kind, result_of(scene))

    def words(self, row: Row) -> tuple[str]:
        """Return the name of a fold; number and host of a rank: ``r17 rank 17 node-2``."""
        one = row.rank
        return (str(row.order) if one is None else f"r{one.label} rank {one.label} {one.host}",)

    def below_of(self, scene: Scene, row: Row) -> Sequence[Row]:
        """Return the ranks of a fold."""
        return row.ranks

    def fold_name(self, row: Row) -> str:
        """Return the name of the fold."""
        return "" if row.fold is None else row.fold.name

    def to_row(self, scene: Scene, row: int) -> ViewState:
        """Put the cursor on a row; on a rank the cursor of all panes goes to it."""
        state, listed = super().to_row(scene, row), self.rows(scene)
        rank = listed[row].rank if row < len(listed) else None
        if rank is None or rank.label not in scene.findings.lanes:
            return state
        return replace(state, selection=replace(state.selection, rank=rank.label))

    def columns_in(self, scene: Scene, width: int) -> Sequence[Column[Row]]:
        """Return the columns; single ranks have neither a number of ranks nor a worst."""
        order, absent = self.sorting(scene).column, {"ranks", "worst"}
        shown = super().columns_in(scene, width)
        if self.kind(scene) != SINGLE:
            return shown
        return [one for one in shown if one.title == order or one.title not in absent]

    def ink(self, row: Row) -> Ink:
        """Return the style of a fold, or of a rank."""
        return Ink.TEXT if row.rank is None else Ink.DIM

    def put_above(self, planes: Planes, scene: Scene) -> int:
        """Draw the answer, and the board where there is room."""
        table, kind, row = self.table(scene), self.kind(scene), self.chosen(scene)
        assert table is not None
        found, top = naming(scene), 1
        planes.put_fitted(0, 1, _answer(table, kind), Ink.STRONG if found is None else Ink.TEXT)
        if found is not None:  # who comes last may have waited for others before
            text = sentence(naming_text(scene, found))
            planes.put_fitted(0, 1, text.ljust(planes.width - 1), Ink.STRONG)
            planes.put_fitted(1, 1, _answer(table, kind), Ink.TEXT)
            top = 2
        height, width = planes.height, planes.width
        if height < _BOARD_FROM or len(table.ranks) <= _FEW:
            return top
        across = kind if any(table.members.get(kind, {}).values()) else "node"
        name = None if row is None or row.fold is None else row.fold.name
        room = height // 2 - 1
        from ccltui.tui.panes.pictures import wait_board, wait_levels

        level = self.made_from("levels", wait_levels, table, across)
        names = list(table.members[across])
        board = wait_board(level, names, room, width, selected=name, colour=scene.colour)
        planes.paste(board, top, 0)
        return top + board.height

    def draw_beside(self, planes: Planes, scene: Scene, page: Page[Row]) -> None:
        """Draw the wait that each row causes as a bar, on one scale."""
        most = max((row.waits.caused_us or 0.0 for row in self.rows(scene)), default=0.0)
        cells = min(planes.width - page.x, _WIDEST_BAR)
        if cells < _LEAST_BAR or not most:
            return
        for y, row in enumerate(page.rows, page.y):
            share = (row.waits.caused_us or 0.0) / most
            planes.put(y, page.x, "█" * round(share * cells), Ink.WAITING)

    def legend(self, scene: Scene, *, narrow: bool) -> Line:
        """Return what rows are folded and sorted by."""
        in_view, order = self.kind(scene), self.sorting(scene).text
        names = [f"[{one}]" if one == in_view else one for one in self.kinds(scene)]
        folded = ("" if narrow else "C by ") + " ".join(names)
        return [(f"{folded}  {order} " if order else f"{folded} ", Ink.TAB)]

    def status(self, scene: Scene, width: int) -> tuple[Line, Line]:
        """Return the selected row in words, and why waits are unknown."""
        row, table = self.chosen(scene), self.table(scene)
        if row is None or table is None:
            return [], []
        times = (f"caused {_time(row.waits.caused_us)}", f"own wait {_time(row.waits.suffered_us)}")
        above: Line = [(f" {as_many([_described(row), *times], width - 2)}", Ink.TEXT)]
        return above, [(f" {table.why}" if table.why else "", Ink.WARNING)]

    def records(self, scene: Scene) -> Iterator[Record]:
        """Yield the listed rows."""
        for row in self.rows(scene):
            yield {
                self.kind(scene): self.fold_name(row),
                "rank": "" if row.rank is None else row.rank.label,
                "host": "" if row.rank is None else row.rank.host,
                "caused_wait_us": row.waits.caused_us,
                "own_wait_us": row.waits.suffered_us,
            }


RANKS: Final = RanksPane()


def _rows(found: RankTable, kind: str, findings: Result | None) -> list[Row]:
    from ccltui.metrics.findings.waits.rank_lateness import badness

    named = named_ranks(findings)

    def of_rank(fold: Fold | None, rank: RankWaits) -> Row:
        return Row(fold, rank, number=named.get(rank.label, 0))

    if kind == SINGLE:
        rows = [of_rank(None, one) for one in sorted(found.ranks.values(), key=badness)]
    else:
        rows = []
        for fold in found.folds(kind):
            ranks = tuple(sorted((of_rank(fold, one) for one in fold.ranks), key=_by_finding))
            rows.append(Row(fold, None, ranks, ranks[0].number if ranks else 0))
    return sorted(rows, key=_by_finding)


def _kinds(found: RankTable) -> tuple[str, ...]:
    """Return what ranks are folded by, without kinds whose folds have a single rank each."""
    folding = [kind for kind in found.kinds if any(len(one.ranks) > 1 for one in found.folds(kind))]
    return (*folding, SINGLE)


def _by_finding(row: Row) -> tuple[bool, int]:
    return not row.number, row.number


def _answer(table: RankTable, kind: str) -> str:
    if table.why:
        return f"Waits are unknown: {table.why}."
    caused = [one.caused_us or 0.0 for one in table.ranks.values()]
    total = sum(caused)
    if not total:
        return f"None of the {len(caused)} ranks arrives last by more than the floor."
    worst = table.folds(kind)[0] if kind != SINGLE else None
    if worst is None:
        one = max(table.ranks.values(), key=lambda rank: rank.caused_us or 0.0)
        name, part = rank_name(one.label), one.caused_us or 0.0
    else:
        name, part = worst.name, worst.caused_us or 0.0
    return (
        f"Last to arrive: {numbers.duration(round(total * 1e3))} of waiting in all, also behind "
        f"computation; {numbers.percent(part / total)} of it for {name}, which may itself have "
        "waited for others."
    )


def _described(row: Row) -> str:
    """Describe a row by what it is."""
    if row.rank is not None:
        return f"rank {row.rank.label} on {row.rank.host or 'an unknown node'}"
    fold = row.fold
    assert fold is not None
    text = f"{fold.name}: {numbers.counted(len(fold.ranks), 'rank')}"
    if fold.whole > len(fold.ranks):
        text += f" of {fold.whole}, the others have no file here or are not read"
    return text


def enter(scene: Scene) -> ViewState:
    """Unfold or fold the row of several ranks; show a rank in Timeline."""
    row = RANKS.chosen(scene)
    if row is None or row.rank is None:
        return RANKS.with_fold(scene)
    return replace(RANKS.to_row(scene, RANKS.row(scene)), pane=TIMELINE)
