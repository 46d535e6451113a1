"""The Parallelism pane: communication by parallel dimension, and whether it is hidden."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from ccltui.draw.palette import Ink
from ccltui.draw.text import fit_middle
from ccltui.parsers import numbers
from ccltui.tui.panes.cursor_text import as_many, named
from ccltui.tui.state.answers import Query
from ccltui.tui.state.own.dimension_listing import DIMENSIONS_STATE, Sort
from ccltui.tui.state.own.pane_names import PARALLELISM as NAME
from ccltui.tui.state.pane import Pane, Record
from ccltui.tui.state.scene import Scene, rank_name
from ccltui.tui.state.view_state import ViewState
from ccltui.tui.styled_text import Line

if TYPE_CHECKING:
    from ccltui.draw.planes import Planes

_UNKNOWN: Final = "--"
_LEAST_NAME, _WIDEST_NAME = 9, 28
_LEAST_BAR: Final = 20
_HEAD: Final = 2
"""Lines above the rows: the answer for the whole job, and the heading."""
_WIDE: Final = 120
"""Width from which the columns of a second path are beside all others."""
_SUMS: Final = (Sort.CALLS, Sort.BYTES, Sort.EXPOSED)
_SHOWN: Final = tuple(one for one in Sort if one not in (Sort.NAME, Sort.DELTA))
_COLUMN_NAMES: Final = {
    "dim": "dimension",
    "hidden_ratio": "exposed, hidden",
    "message_bytes": "bytes",
    "busbw_GBps": "GB/s",
    "wait_ratio": "wait, skew, worst",
    "worst_rank": "worst",
}
"""Column title of the pane for each key that a reason of the metric refers to."""


class ParallelismPane(Pane):
    """Calls, bytes, bandwidth, exposure and waiting of each parallel dimension and group."""

    name = NAME
    key = "%"
    title = "Parallelism"
    short_title = "Par"
    about = (
        "Communication by parallel dimension, and the groups of each. exposed: time in "
        "collectives while the device neither computes nor copies, mean over ranks; hidden: the "
        "rest, as a share of the time in collectives; GB/s: bus bandwidth over the shortest "
        "duration of the ranks; wait: share of that time before the last rank arrived; skew: mean "
        "time from the first arrival to the last; worst: the rank that waiting is due to. -- is "
        "not known: the line above the keys gives the reason. Beside a second path: B and the "
        "difference in the column of the order, else in exposed; calls, bytes and exposed are "
        "there those of a step."
    )
    names_communicator = False

    def why_unavailable(self, scene: Scene) -> str | None:
        """Return the reason: no collective is loaded."""
        networks = (lane.network for lane in scene.findings.lanes.values())
        if scene.findings.communicators or any(len(one.start_ns) for one in networks):
            return None
        return "no collective is loaded"

    def queries(self, scene: Scene) -> Iterable[Query[Any]]:
        """Yield the query for the metric."""
        from ccltui.tui.state.against.second_path import queries_of
        from ccltui.tui.state.queries.query_kinds import ParallelismQuery

        if not scene.findings.lanes:
            return ()
        return (ParallelismQuery(scene.findings.generation), *queries_of(scene))

    def paint(self, scene: Scene, height: int, width: int) -> Planes:
        """Draw the answer for the job, the table, and where it is wide a bar of each row."""
        return _paint(scene, height, width)

    def legend(self, scene: Scene, *, narrow: bool) -> Line:
        """Return the parts of a bar."""
        names = ("hid", "exposed") if narrow else ("hidden", "exposed")
        inks = (Ink.OVERLAPPED, Ink.TRANSFER)
        return named(scene, inks, [f" {name}  " for name in names])

    def status(self, scene: Scene, width: int) -> tuple[Line, Line]:
        """Return further numbers of the selected row, and why some are not known."""
        return _status(scene, width)

    def count(self, scene: Scene) -> int:
        """Return the number of listed rows."""
        from ccltui.tui.moves import dimension_rows

        return len(dimension_rows.rows(scene))

    def row(self, scene: Scene) -> int:
        """Return the place of the cursor."""
        from ccltui.tui.moves import dimension_rows

        return dimension_rows.place(scene)

    def to_row(self, scene: Scene, row: int) -> ViewState:
        """Put the cursor on a row."""
        from ccltui.tui.moves import dimension_rows

        return dimension_rows.to_row(scene, row)

    def why_no_rows(self, scene: Scene) -> str:
        """Return the reason: nothing is loaded or summed, or there is no collective."""
        from ccltui.tui.moves import dimension_rows

        return dimension_rows.why_none(scene) or super().why_no_rows(scene)

    is_filtered = True

    def row_pattern(self, scene: Scene) -> str:
        """Return the pattern of the dimensions and groups that are listed."""
        return DIMENSIONS_STATE.of(scene.state).pattern

    def with_row_pattern(self, scene: Scene, pattern: str) -> ViewState:
        """List dimensions that match, and groups that match below theirs."""
        own = DIMENSIONS_STATE.of(scene.state)
        return DIMENSIONS_STATE.put(scene.state, replace(own, pattern=pattern, row=0))

    def records(self, scene: Scene) -> Iterator[Record]:
        """Yield every dimension and every group, folded ones too; under a filter what it lists."""
        from ccltui.tui.moves import dimension_rows

        found = dimension_rows.details(scene)
        every = (*(found.get("dimensions") or ()), *(found.get("groups") or ()))
        for row in dimension_rows.rows(scene) if self.row_pattern(scene) else every:
            yield _record(row) | _record_of_b(scene, row)

    def metric(self, scene: Scene) -> str:
        """Return the metric of the table."""
        return "parallelism"


PARALLELISM: Final = ParallelismPane()


def _paint(scene: Scene, height: int, width: int) -> Planes:
    from ccltui.draw.planes import Planes
    from ccltui.tui.moves import dimension_rows

    planes = Planes.blank(height, width, Ink.TEXT)
    rows, found = dimension_rows.rows(scene), dimension_rows.details(scene)
    if not rows:
        why = dimension_rows.why_none(scene) or "still summing the communication"
        planes.put(1, 1, f"{why[0].upper()}{why[1:]}.", Ink.DIM)
        return planes
    planes.put(0, 1, _answer(found, width - 2), Ink.STRONG)
    at = dimension_rows.place(scene)
    room = max(height - _HEAD, 1)
    first = at // room * room
    shown = rows[first : first + room]
    lines, used = _lines(scene, shown, width)
    planes.put(1, 1, lines[0], Ink.DIM)
    most_ms = max((row["comm_ms"] or 0 for row in rows), default=0)
    for index, (row, line) in enumerate(zip(shown, lines[1:], strict=True)):
        y, on = _HEAD + index, first + index == at
        ink = Ink.LABEL_ON if on else Ink.TEXT if row["group"] is None else Ink.LABEL
        planes.put(y, 0, (("▶" if on else " ") + line).ljust(used + 2), ink)
        planes.listed[y] = first + index
        if width - used - 4 >= _LEAST_BAR:
            _put_bar(planes, y, used + 3, row, most_ms, colour=scene.colour)
    if len(shown) + _HEAD + 1 < height:
        planes.put(_HEAD + len(shown) + 1, 1, _absent(found.get("absent") or {}), Ink.DIM)
    return planes


def _answer(found: Mapping[str, Any], width: int) -> str:
    """Return how much of the communication of the job is hidden."""
    hidden = found["hidden_ratio"]
    if hidden is None:
        return "Nothing tells how much communication is hidden: see the reasons below."
    parts = [
        f"{numbers.percent_cell(hidden)} of the time in collectives is hidden",
        f"exposed {_ms(found['exposed_ms'])} a rank",
        f"{numbers.percent_cell(found['exposed_pct'] / 100)} of the measured time",
    ]
    known = [row for row in found["dimensions"] if row["exposed_ms"]]
    if len(known) > 1:
        most = max(known, key=lambda row: row["exposed_ms"])
        parts.append(f"most by {most['dim']}")
    return as_many(parts, width)


def _absent(absent: Mapping[str, str]) -> str:
    """Return the dimensions without a row by their reason."""
    by_reason: dict[str, list[str]] = {}
    for dim, why in absent.items():
        by_reason.setdefault(why, []).append(dim)
    return "; ".join(f"{', '.join(dims)}: {why}" for why, dims in by_reason.items())


def _lines(scene: Scene, rows: Sequence[Mapping[str, Any]], width: int) -> tuple[list[str], int]:
    """Return heading and rows, and the width of the widest of them."""
    from ccltui.draw.table import Column, table

    own = DIMENSIONS_STATE.of(scene.state)
    names = [_name(scene, row) for row in rows]
    cells = [
        [*(_cell(row, one) for one in _SHOWN), _worst(row), *_cells_of_b(scene, row)]
        for row in rows
    ]
    mark = "▴" if own.reverse else "▼"
    titles = {
        one: f"{mark}{one.value}" if one is own.sort is not Sort.NAME else one.value
        for one in _SHOWN
    }
    of_b = _titles_of_b(scene, mark)
    columns = [Column(title, "right") for title in (*titles.values(), "worst", *of_b)]
    if of_b:
        kept = _kept_beside(own.sort, width)
        columns = [columns[place] for place in kept]
        cells = [[row[place] for place in kept] for row in cells]
    used = sum(
        2 + max(len(column.title), *(len(row[index]) for row in cells))
        for index, column in enumerate(columns)
    )
    room = max(min(max(map(len, names)), width - 1 - used, _WIDEST_NAME), _LEAST_NAME)
    lines = table(
        [Column("dimension".ljust(room), widest=room), *columns],
        [[fit_middle(name, room), *row] for name, row in zip(names, cells, strict=True)],
        width - 1,
    )
    return lines, max(map(len, lines))


def _kept_beside(sort: Sort, width: int) -> list[int]:
    """Return the places of the columns that are shown beside those of a second path."""
    every = list(range(len(_SHOWN) + 3))
    if width >= _WIDE:
        return every
    compared = Sort.EXPOSED if sort in (Sort.NAME, Sort.DELTA) else sort
    kept = {Sort.EXPOSED, Sort.HIDDEN, compared}
    return [n for n in every if n >= len(_SHOWN) or _SHOWN[n] in kept]


def _titles_of_b(scene: Scene, mark: str) -> list[str]:
    """Return the titles of the columns of a second path, [] without one."""
    from ccltui.tui.moves import dimension_rows
    from ccltui.tui.state.against.second_path import compared

    sides = compared(scene)
    if sides is None:
        return []
    column = dimension_rows.compared_column(scene)
    step = " a step" if sides.by_step and column in _SUMS else ""
    is_sorted = DIMENSIONS_STATE.of(scene.state).sort is Sort.DELTA
    return [f"B {column.value}{step}", f"{mark if is_sorted else ''}B - A"]


def _cells_of_b(scene: Scene, row: Mapping[str, Any]) -> list[str]:
    """Return the value in B and the difference from A, [] without a second path."""
    from ccltui.tui.moves import dimension_rows

    if scene.other is None:
        return []
    other, column = dimension_rows.of_b(scene, row), dimension_rows.compared_column(scene)
    if other is None:
        return [_UNKNOWN, _UNKNOWN]
    key = dimension_rows.KEYS[column]
    delta = other.delta(key)
    sign = "+" if delta is not None and delta > 0 else ""
    return [_formatted(other.b.get(key), column), f"{sign}{_formatted(delta, column)}"]


def _name(scene: Scene, row: Mapping[str, Any]) -> str:
    """Return a dimension with its number of groups, or the name of a group below it."""
    from ccltui.tui.moves import dimension_rows

    if row["group"] is not None:
        return f"   {row['group']}"
    sign = "▾" if dimension_rows.is_unfolded(scene, row["dim"]) else "▸"
    count = len(dimension_rows.groups_of(scene, row["dim"]))
    return f"{sign} {row['dim']} ({count})"


def _cell(row: Mapping[str, Any], column: Sort) -> str:
    from ccltui.tui.moves.dimension_rows import KEYS

    return _formatted(row[KEYS[column]], column)


def _formatted(value: float | None, column: Sort) -> str:
    """Return a number of a column, or a difference of two."""
    if value is None:
        return _UNKNOWN
    if column is Sort.CALLS:
        return numbers.count(value) if isinstance(value, int) else numbers.quantity(value)
    if column is Sort.BYTES:
        return f"{'-' if value < 0 else ''}{numbers.binary_size(round(abs(value)))}"
    if column is Sort.EXPOSED:
        return _ms(value)
    if column is Sort.SKEW:
        return numbers.duration(round(value * 1000))
    if column is Sort.BUSBW:
        return f"{value:.1f}" if abs(value) >= 0.05 or not value else f"{value:.2g}"
    return f"{numbers.percent_cell(value)}"


def _worst(row: Mapping[str, Any]) -> str:
    return _UNKNOWN if row["worst_rank"] is None else rank_name(row["worst_rank"])


def _ms(milliseconds: float) -> str:
    return numbers.duration(round(milliseconds * 1e6))


def _put_bar(
    planes: Planes, y: int, x: int, row: Mapping[str, Any], most_ms: float, *, colour: bool
) -> None:
    """Draw the time in collectives against the longest of all rows: hidden, then exposed."""
    from ccltui.draw.palette import filled, style_of

    comm, exposed = row["comm_ms"], row["exposed_ms"]
    if comm is None or not most_ms:
        return
    cells = planes.width - 1 - x
    hidden, whole = (round(part / most_ms * cells) for part in (comm - exposed, comm))
    for first, last, ink in ((0, hidden, Ink.OVERLAPPED), (hidden, whole, Ink.TRANSFER)):
        glyph = filled(ink, colour=colour)
        planes.put(y, x + first, glyph * (last - first), style_of(glyph, ink))


def _status(scene: Scene, width: int) -> tuple[Line, Line]:
    from ccltui.tui.moves import dimension_rows

    row = dimension_rows.chosen(scene)
    if row is None:
        return [], []
    parts = [str(row["group"] or row["dim"])]
    if row["comm_ms"] is not None:
        parts.append(f"{_ms(row['comm_ms'])} in collectives, {_ms(row['exposed_ms'])} exposed")
    if row["wait_ms"] is not None:
        parts.append(f"{_ms(row['wait_ms'])} waited at {numbers.count(row['num_matched'])} of them")
    if row["worst_rank"] is not None:
        due = _ms(row["worst_wait_ms"])
        parts.append(f"{rank_name(row['worst_rank'])} alone is behind {due} of exposed waiting")
    if row["p95_lag_us"] is not None:
        parts.append(f"skew p95 {numbers.duration(round(row['p95_lag_us'] * 1000))}")
    reasons = [f"{_COLUMN_NAMES[key]}: {why}" for key, why in row["why"].items()]
    above: Line = [(f" {as_many(parts, width - 2)}", Ink.TEXT)]
    return above, [(f" {'; '.join(reasons)}", Ink.DIM)] if reasons else []


def _record(row: Mapping[str, Any]) -> Record:
    plain = {key: value for key, value in row.items() if key not in ("why", "worst")}
    return {**plain, "reason": "; ".join(f"{key}: {why}" for key, why in row["why"].items())}


def _record_of_b(scene: Scene, row: Mapping[str, Any]) -> Record:
    from ccltui.tui.moves import dimension_rows

    if scene.other is None:
        return {}
    other = dimension_rows.of_b(scene, row)
    keys = dimension_rows.KEYS.values()
    if other is None:
        return {f"{name}{key}": None for key in keys for name in ("B ", "B - A ")}
    values = {f"B {key}": other.b.get(key) for key in keys}
    return {**values, **{f"B - A {key}": other.delta(key) for key in keys}}
