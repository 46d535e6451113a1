"""The Parallelism pane: communication by parallel dimension, and whether it is hidden."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct
from msgspec.structs import replace

from ccltui.draw.palette import Ink, filled, style_of
from ccltui.draw.text import Line, fit_middle
from ccltui.parsers import numbers
from ccltui.tui.moves.cursor import show_communicator
from ccltui.tui.panes.chart_pane import as_many, named
from ccltui.tui.panes.list_pane import UNKNOWN, Column, ListPane, Page
from ccltui.tui.state.answers import Query
from ccltui.tui.state.pane import Record, compared
from ccltui.tui.state.pane_states import ALIGNMENT
from ccltui.tui.state.pane_states import PARALLELISM as NAME
from ccltui.tui.state.scene import Scene, rank_name
from ccltui.tui.state.view_state import ViewState

if TYPE_CHECKING:
    from ccltui.draw.planes import Planes
    from ccltui.metrics.result import Result
    from ccltui.tui.state.compared import Compared, DimensionOf

FEW_GROUPS: Final = 16
"""Groups are listed below their dimensions from the start if the job has no more than this."""
_LEAST_BAR: Final = 20
_WIDE: Final = 120
"""Width from which the columns of a second path are beside all others."""
_COLUMN_NAMES: Final = {
    "dim": "dimension",
    "hidden_ratio": "exposed, hidden",
    "message_bytes": "bytes",
    "busbw_GBps": "GB/s",
    "wait_ratio": "wait, skew, worst",
    "worst_rank": "worst",
}
"""Column title of the pane for each key that a reason of the metric refers to."""


def _ms(milliseconds: float) -> str:
    return numbers.duration(round(milliseconds * 1e6))


def _us(microseconds: float) -> str:
    return numbers.duration(round(microseconds * 1000))


def _calls(value: float) -> str:
    return numbers.count(value) if isinstance(value, int) else numbers.quantity(value)


def _bytes(value: float) -> str:
    return f"{'-' if value < 0 else ''}{numbers.binary_size(round(abs(value)))}"


def _rate(value: float) -> str:
    return f"{value:.1f}" if abs(value) >= 0.05 or not value else f"{value:.2g}"


class Figure(Struct, frozen=True):
    """A number of the metric: its key there, how it or a difference is printed, and where.

    ``is_of_step`` marks what is compared with a second path step by step.
    """

    key: str
    form: Callable[[float], str]
    is_of_step: bool = False
    beside_from: int = _WIDE


_EXPOSED: Final = "exposed"
FIGURES: Final = {
    "calls": Figure("calls", _calls, is_of_step=True),
    "bytes": Figure("message_bytes", _bytes, is_of_step=True),
    "GB/s": Figure("busbw_GBps", _rate),
    _EXPOSED: Figure("exposed_ms", _ms, is_of_step=True, beside_from=0),
    "hidden": Figure("hidden_ratio", numbers.percent_cell, beside_from=0),
    "wait": Figure("wait_ratio", numbers.percent_cell),
    "skew": Figure("mean_lag_us", _us),
}
"""Numbers by the title of their column."""


class Row(Struct, frozen=True):
    """A dimension or, where ``values`` name one, a group of it; with its numbers on both paths.

    Attributes:
        values: row of the metric.
        both: the row on both paths, aligned by the names of dimension and group.
        compared: number whose value on the second path is shown.
        groups: rows of the groups of a dimension.
        is_unfolded: whether these are listed.
    """

    values: Mapping[str, Any]
    both: DimensionOf | None
    compared: Figure
    groups: Sequence[Row] = ()
    is_unfolded: bool = False

    @property
    def name(self) -> str:
        """Name of the group, or of the dimension."""
        return str(self.values["group"] or self.values["dim"])

    @property
    def delta(self) -> float | None:
        """Difference of the second path in the number that is compared."""
        return None if self.both is None else self.both.delta(self.compared.key)


def _shown_name(row: Row, room: int) -> str:
    if row.values["group"] is not None:
        return fit_middle(f"   {row.name}", room)
    return fit_middle(f"{'▾' if row.is_unfolded else '▸'} {row.name} ({len(row.groups)})", room)


def _worst(row: Row, _: int) -> str:
    worst = row.values["worst_rank"]
    return UNKNOWN if worst is None else rank_name(worst)


def _in_b(row: Row, _: int) -> str:
    value = None if row.both is None else row.both.b.get(row.compared.key)
    return UNKNOWN if value is None else row.compared.form(value)


def _change(row: Row, _: int) -> str:
    if row.delta is None:
        return UNKNOWN
    return f"{'+' if row.delta > 0 else ''}{row.compared.form(row.delta)}"


def _of(key: str) -> Callable[[Row], Any]:
    return lambda row: row.values[key]


class ParallelismPane(ListPane[Row]):
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

    has_bars = True
    waiting = "communication is still being summed up"
    nothing = "no collective in the selection"
    metric_name = "parallelism"
    columns = (
        Column(
            "dimension",
            text=_shown_name,
            align="left",
            takes_rest=True,
            least=9,
            widest=lambda _: 28,
        ),
        *(
            Column(title, _of(one.key), one.form, beside_from=one.beside_from)
            for title, one in FIGURES.items()
        ),
        Column("worst", text=_worst),
    )
    of_b = (
        Column("B", text=_in_b),
        Column(
            "B - A",
            text=_change,
            sort_value=lambda row: None if row.delta is None else abs(row.delta),
        ),
    )

    def why_unavailable(self, scene: Scene) -> str | None:
        """Return the reason: no collective is loaded."""
        if scene.findings.communicators or scene.findings.has_work("network"):
            return None
        return "no collective is loaded"

    def query(self, scene: Scene) -> Query[Any] | None:
        """Return the query for the metric."""
        from ccltui.tui.state.query_kinds import ParallelismQuery

        if not scene.findings.lanes:
            return None
        return ParallelismQuery(scene.findings.generation)

    def result(self, scene: Scene) -> Result | None:
        """Return the newest result of the metric, None before the first."""
        from ccltui.tui.state.query_kinds import ParallelismQuery

        return scene.answers.latest(ParallelismQuery)

    def compared_title(self, scene: Scene) -> str:
        """Return the column whose values of a second path are shown: of the order, or exposed."""
        order = self.sorting(scene).column
        return order if order in FIGURES else _EXPOSED

    def found_rows(self, scene: Scene) -> Sequence[Row] | None:
        """Return the dimensions, each with its groups."""
        found, toggled = self.result(scene), self.own.of(scene.state).toggled
        if found is None:
            return None
        figure = FIGURES[self.compared_title(scene)]
        return self.made_from("dimensions", _rows, found, compared(scene), figure, toggled)

    def words(self, row: Row) -> tuple[str]:
        """Return the name of the group, or of the dimension."""
        return (row.name,)

    def below_of(self, scene: Scene, row: Row) -> Sequence[Row]:
        """Return the groups of a dimension."""
        return row.groups

    def fold_name(self, row: Row) -> str:
        """Return the name of the dimension."""
        return str(row.values["dim"])

    def is_unfolded(self, scene: Scene, row: Row) -> bool:
        """Return whether the groups of a dimension are listed."""
        return row.is_unfolded

    def why_no_rows(self, scene: Scene) -> str:
        """Return the reason: nothing is loaded or summed, or there is no collective."""
        found = self.result(scene)
        if found is None or found.status != "unavailable" or self.missing(scene):
            return super().why_no_rows(scene)
        return found.reasons[0].message if found.reasons else "the metric has no value"

    def heading(self, scene: Scene, column: Column[Row]) -> str:
        """Return the heading of a column; that of B is the number that is compared."""
        sides = compared(scene)
        if column is not self.of_b[0] or sides is None:
            return super().heading(scene, column)
        title = self.compared_title(scene)
        return f"B {title}{' a step' if sides.by_step and FIGURES[title].is_of_step else ''}"

    def ink(self, row: Row) -> Ink:
        """Return the style of a dimension, or of a group."""
        return Ink.TEXT if row.values["group"] is None else Ink.LABEL

    def put_above(self, planes: Planes, scene: Scene) -> int:
        """Draw the answer for the whole job."""
        found = self.result(scene)
        assert found is not None
        planes.put(0, 1, _answer(found.details, planes.width - 2), Ink.STRONG)
        return 1

    def draw_beside(self, planes: Planes, scene: Scene, page: Page[Row]) -> None:
        """Draw where it is wide a bar of each row, and below them the dimensions without one."""
        found = self.result(scene)
        assert found is not None
        most_ms = max((row.values["comm_ms"] or 0 for row in self.rows(scene)), default=0)
        if planes.width - page.x - 1 >= _LEAST_BAR:
            for y, row in enumerate(page.rows, page.y):
                _put_bar(planes, y, page.x, row.values, most_ms, colour=scene.colour)
        y = page.y + len(page.rows) + 1
        if y < planes.height:
            planes.put(y, 1, _absent(found.details.get("absent") or {}), Ink.DIM)

    def legend(self, scene: Scene, *, narrow: bool) -> Line:
        """Return the parts of a bar."""
        names = ("hid", "exposed") if narrow else ("hidden", "exposed")
        inks = (Ink.OVERLAPPED, Ink.TRANSFER)
        return named(scene, inks, [f" {name}  " for name in names])

    def status(self, scene: Scene, width: int) -> tuple[Line, Line]:
        """Return further numbers of the selected row, and why some are not known."""
        row = self.chosen(scene)
        return ([], []) if row is None else _status(row, width)

    def exported(self, scene: Scene) -> Iterator[Row]:
        """Yield every dimension and every group, folded ones too; under a filter what it lists."""
        if self.row_pattern(scene):
            yield from self.rows(scene)
            return
        found = self.found_rows(scene) or ()
        yield from found
        for row in found:
            yield from row.groups

    def records(self, scene: Scene) -> Iterator[Record]:
        """Yield the numbers of both paths."""
        has_b = scene.other is not None
        for row in self.exported(scene):
            yield _record(row.values) | (_record_of_b(row) if has_b else {})


PARALLELISM: Final = ParallelismPane()


def _rows(
    found: Result, sides: Compared | None, figure: Figure, toggled: frozenset[str]
) -> list[Row]:
    """Return the dimensions, each with its groups.

    By default the groups are listed of a job with few; one alone has the numbers of its dimension.
    """
    if found.status == "unavailable":
        return []
    both: Mapping[Any, DimensionOf] = {} if sides is None else sides.dimensions
    every = found.details.get("groups") or ()
    listed = []
    for values in found.details.get("dimensions") or ():
        dim = values["dim"]
        groups = [
            Row(one, both.get((dim, one["group"])), figure) for one in every if one["dim"] == dim
        ]
        by_default = len(every) <= FEW_GROUPS and len(groups) > 1
        is_unfolded = by_default != (dim in toggled)
        listed.append(Row(values, both.get((dim, None)), figure, groups, is_unfolded))
    return listed


def _answer(found: Mapping[str, Any], width: int) -> str:
    """Return how much of the communication of the job is hidden."""
    hidden = found["hidden_ratio"]
    if hidden is None:
        return "How much communication is hidden is not known: see the reasons below."
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


def _put_bar(
    planes: Planes, y: int, x: int, row: Mapping[str, Any], most_ms: float, *, colour: bool
) -> None:
    """Draw the time in collectives against the longest of all rows: hidden, then exposed."""
    comm, exposed = row["comm_ms"], row["exposed_ms"]
    if comm is None or not most_ms:
        return
    cells = planes.width - 1 - x
    hidden, whole = (round(part / most_ms * cells) for part in (comm - exposed, comm))
    for first, last, ink in ((0, hidden, Ink.OVERLAPPED), (hidden, whole, Ink.TRANSFER)):
        glyph = filled(ink, colour=colour)
        planes.put(y, x + first, glyph * (last - first), style_of(glyph, ink))


def _status(chosen: Row, width: int) -> tuple[Line, Line]:
    row = chosen.values
    parts = [chosen.name]
    if row["comm_ms"] is not None:
        parts.append(f"{_ms(row['comm_ms'])} in collectives, {_ms(row['exposed_ms'])} exposed")
    if row["wait_ms"] is not None:
        parts.append(f"{_ms(row['wait_ms'])} waited at {numbers.count(row['num_matched'])} of them")
    if row["worst_rank"] is not None:
        due = _ms(row["worst_wait_ms"])
        parts.append(f"{rank_name(row['worst_rank'])} alone is behind {due} of exposed waiting")
    if row["p95_lag_us"] is not None:
        parts.append(f"skew p95 {_us(row['p95_lag_us'])}")
    reasons = [f"{_COLUMN_NAMES[key]}: {why}" for key, why in row["why"].items()]
    above: Line = [(f" {as_many(parts, width - 2)}", Ink.TEXT)]
    return above, [(f" {'; '.join(reasons)}", Ink.DIM)] if reasons else []


def _record(row: Mapping[str, Any]) -> Record:
    plain = {key: value for key, value in row.items() if key not in ("why", "worst")}
    return {**plain, "reason": "; ".join(f"{key}: {why}" for key, why in row["why"].items())}


def _record_of_b(row: Row) -> Record:
    keys = [one.key for one in FIGURES.values()]
    if row.both is None:
        return {f"{name}{key}": None for key in keys for name in ("B ", "B - A ")}
    values = {f"B {key}": row.both.b.get(key) for key in keys}
    return {**values, **{f"B - A {key}": row.both.delta(key) for key in keys}}


def why_not_open(scene: Scene) -> str | None:
    """Return the reason when :func:`to_worst` leads nowhere."""
    row = PARALLELISM.chosen(scene)
    if row is None:
        return PARALLELISM.why_no_rows(scene)
    if row.values["worst"] is not None or _communicator(scene, row) is not None:
        return None
    reason: str | None = row.values["why"].get("wait_ratio")
    return reason or "nobody is late at any of its collectives"


def to_worst(scene: Scene) -> ViewState:
    """Show the collective with most waiting of the row, else its communicator, in Alignment."""
    from ccltui.tui.moves import loss_list

    row = PARALLELISM.chosen(scene)
    if row is None:
        return scene.state
    worst = row.values["worst"]
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
    group = row.values["group"]
    return names.index(group) if group in names else None
