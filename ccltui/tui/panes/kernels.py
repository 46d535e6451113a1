"""The Kernels pane: the device work of all ranks by name, operator, module, stream or rank."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import isnan
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct
from msgspec.structs import replace

from ccltui.draw.palette import Ink
from ccltui.draw.text import GAP, Line
from ccltui.parsers import numbers
from ccltui.tui.moves.cursor import in_view, select_at
from ccltui.tui.panes.list_pane import UNKNOWN, Column, ListPane, name_column
from ccltui.tui.state.answers import Query
from ccltui.tui.state.pane import compared, drawer_has_keys
from ccltui.tui.state.pane_states import DEVICE, EVENTS_STATE, TIMELINE, Sorting
from ccltui.tui.state.pane_states import KERNELS as NAME
from ccltui.tui.state.scene import Scene, rank_name
from ccltui.tui.state.view_state import Shown, ViewState

if TYPE_CHECKING:
    from ccltui.metrics.device.work_pivot import PivotColumns
    from ccltui.tui.state.compared import Compared, TimeOf

KINDS: Final = ("name", "category", "operator", "module", "stream", "rank")
"""Properties by which device work is grouped into rows, named as the pivots in metrics."""
_METRICS: Final = {"category": "kernel_categories", "operator": "operators", "module": "modules"}
_RATES: Final = ("TFLOPS", "TB/s", "roofline")
_ROOMY: Final = 170
"""Width from which columns of rates leave room for the largest values and the imbalance."""
_NEVER: Final = 10_000
_CELLS: Final = 4
"""Least width of the longest instance on the timeline."""


class Work(Struct, frozen=True):
    """A row of the table by its place there, and the times of both paths."""

    table: PivotColumns
    at: int
    both: TimeOf | None

    @property
    def name(self) -> str:
        """Name of the work."""
        return self.table.name[self.at]

    @property
    def detail(self) -> str:
        """Category of a name, shapes of an operator; "" for none."""
        return self.table.detail[self.at]

    def get(self, column: str) -> Any:
        """Return the number in a column of the table, None where it is not known."""
        value = getattr(self.table, column)[self.at].item()
        return None if isnan(value) else value


def _of(column: str) -> Callable[[Work], Any]:
    return lambda row: row.get(column)


def _of_both(name: str) -> Callable[[Work], Any]:
    return lambda row: None if row.both is None else getattr(row.both, name)


def _time(nanoseconds: float | None) -> str:
    return UNKNOWN if nanoseconds is None else numbers.duration(round(nanoseconds))


def _ms(milliseconds: float | None, *, signed: bool = False) -> str:
    if milliseconds is None:
        return UNKNOWN
    ns = round(milliseconds * 1e6)
    return numbers.signed_duration(ns) if signed else numbers.duration(ns)


def _shown(row: Work) -> str:
    """Return the name of a row, with the shapes that tell operators of one name apart."""
    return f"{row.name} {row.detail}".rstrip() if row.table.by == "operator" else row.name


def _total(row: Work, _: int) -> str:
    total = row.get("total_ns")
    return f"{numbers.duration(total)} {numbers.percent_cell(total / max(row.table.all_ns, 1)):>7}"


def _in_b(row: Work, _: int) -> str:
    return UNKNOWN if row.both is None or row.both.status == "gone" else _ms(row.both.b_ms)


def _size_in_b(row: Work) -> float | None:
    return None if row.both is None or row.both.delta_ms is None else row.both.b_ms


def _size_of_change(row: Work) -> float | None:
    return None if row.both is None or row.both.delta_ms is None else abs(row.both.delta_ms)


def _change(row: Work) -> str | None:
    work = row.both
    return None if work is None else work.status if work.verdict == work.status else work.direction


class KernelsPane(ListPane[Work]):
    """Table of the device work of all ranks."""

    name = NAME
    key = "*"
    title = "Kernels"
    short_title = "Kern"
    details = frozenset({Shown.EVENT})
    about = (
        "Device work of all ranks in the window. exposed: the part that work of another kind "
        "does not hide; max/mean: the largest total of a rank over the mean of ranks; TFLOPS, "
        "TB/s, roofline (share of what the device can reach): of operators whose inputs were "
        "recorded. "
        "Modules are paths of "
        "nn.Module, NVTX and user ranges around the launch. Beside a second path: B, its time of a "
        "rank in a step, or in all without steps, the difference from A, and whether it is beyond "
        "the noise of the steps; rows are aligned by name and class, or by operator and shapes."
    )
    first_order = Sorting("total")
    waiting = "device work is still being summed up"
    nothing = "no kernel was recorded in the window"
    columns = (
        name_column("name", lambda row: row.name, _shown, takes_rest=True, least=16),
        Column("total", _of("total_ns"), text=_total, key="total_ns", width=16),
        *(
            Column(title, _of(name), form, key=key, width=size, from_width=wide, beside_from=beside)
            for title, name, form, key, size, wide, beside in (
                ("calls", "calls", numbers.count, "calls", 8, 0, 104),
                ("mean", "mean_ns", _time, "mean_ns", 9, 0, 104),
                ("max", "max_ns", _time, "max_ns", 9, 0, 104),
                ("p95", "p95_ns", _time, "p95_ns", 9, 104, _NEVER),
                ("exposed", "exposed_ns", _time, "exposed_ns", 9, 104, _NEVER),
                ("max/mean", "imbalance", "{:.2f}".format, "imbalance_ratio", 9, 104, _NEVER),
                ("TFLOPS", "tflops", "{:.1f}".format, "tflops", 7, 0, _NEVER),
                ("TB/s", "tbps", "{:.2f}".format, "tbps", 6, 104, _NEVER),
                (
                    "roofline",
                    "roofline",
                    numbers.percent_cell,
                    "roofline_share",
                    9,
                    0,
                    _NEVER,
                ),
            )
        ),
        Column("median", _of("median_ns"), key="median_ns", is_hidden=True),
        Column(
            "category",
            lambda row: row.detail or None,
            text=lambda row, _: row.detail,
            key="detail",
            align="left",
            width=24,
            from_width=132,
            beside_from=132,
        ),
    )
    of_b = (
        Column("A", _of_both("a_ms"), key="A_ms", is_hidden=True),
        Column("B", _of_both("b_ms"), text=_in_b, sort_value=_size_in_b, key="B_ms", width=10),
        Column(
            "B - A",
            _of_both("delta_ms"),
            partial(_ms, signed=True),
            sort_value=_size_of_change,
            key="B - A_ms",
            width=10,
        ),
        Column("±", _of_both("half_width_ms"), key="half_width_ms", is_hidden=True),
        Column(
            "change",
            _change,
            text=lambda row, _: "" if row.both is None else row.both.verdict,
            key="change",
            align="left",
            width=8,
        ),
    )

    def why_unavailable(self, scene: Scene) -> str | None:
        """Return the reason: no device work is loaded."""
        is_there = scene.findings.has_work("compute", "network")
        return None if is_there else "no device work is loaded"

    def why_no_rows(self, scene: Scene) -> str:
        """Return the reason; where hosts alone were recorded, where their operators are."""
        table = self.table(scene)
        if table is not None and not table.num_ranks:
            return "no device work is recorded: 3, then U shows the operators of the hosts"
        return super().why_no_rows(scene)

    def kinds(self, scene: Scene) -> Sequence[str]:
        """Return what device work is grouped by."""
        return KINDS

    def query(self, scene: Scene) -> Query[Any] | None:
        """Return the query of the kind of rows in view."""
        from ccltui.tui.state.query_kinds import PivotQuery

        if not scene.findings.lanes:
            return None
        return PivotQuery(scene.findings.generation, self.kind(scene))

    def table(self, scene: Scene) -> PivotColumns | None:
        """Return the newest table of the kind in view, None before the first."""
        from ccltui.tui.state.query_kinds import PivotQuery

        found = scene.answers.latest(PivotQuery)
        return found if found is not None and found.by == self.kind(scene) else None

    def found_rows(self, scene: Scene) -> Sequence[Work] | None:
        """Return the rows of the table, with the times of a second path where both align."""
        table = self.table(scene)
        return None if table is None else self.made_from("works", _works, table, compared(scene))

    def words(self, row: Work) -> tuple[str, str]:
        """Return name and detail."""
        return row.name, row.detail

    def columns_in(self, scene: Scene, width: int) -> Sequence[Column[Work]]:
        """Return the columns: of rates where any is known, which take the room of others."""
        table, order = self.table(scene), self.sorting(scene).column
        rated = table is not None and any(not isnan(rate) for rate in table.tflops.tolist())
        absent = {"category"} if self.kind(scene) != "name" else set()
        if not rated:
            absent.update(_RATES)
        elif width < _ROOMY:
            absent.update(("max", "max/mean"))
        shown = super().columns_in(scene, width)
        return [one for one in shown if one.title == order or one.title not in absent]

    def columns_of_b(self, scene: Scene) -> Sequence[Column[Work]]:
        """Return the columns of the second path: of rows that are names or operators."""
        aligned = self.kind(scene) in ("name", "operator")
        return super().columns_of_b(scene) if aligned else ()

    def counted(self, scene: Scene) -> str:
        """Return the number of rows, with those that the table only counts."""
        table, kind = self.table(scene), self.kind(scene)
        plural = "categories" if kind == "category" else ""
        return "" if table is None else numbers.counted(table.num_rows, kind, plural)

    def status(self, scene: Scene, width: int) -> tuple[Line, Line]:
        """Return the numbers of the selected row, and its full name."""
        row = self.chosen(scene)
        if row is None:
            return [], []
        parts = [
            *self._both(scene, row),
            *_roofline(row),
            *(f"{name} {_time(row.get(f'{name}_ns'))}" for name in ("mean", "median", "p95")),
            *_longest(row),
            f"exposed {_time(row.get('exposed_ns'))}",
            *([row.detail] if row.detail else []),
        ]
        name = row.table.example[row.at] or row.name
        return [(f" {GAP.join(parts)}", Ink.TEXT)], [(f" {name}", Ink.DIM)]

    def _both(self, scene: Scene, row: Work) -> list[str]:
        """Describe a row on both paths in one unit, or why it has no numbers of B."""
        sides, work = compared(scene), row.both
        if sides is None:
            return []
        if work is None or work.delta_ms is None:
            aligned = bool(self.columns_of_b(scene))
            return [sides.problem or ("not in B" if aligned else "only names and operators align")]
        half = "" if work.half_width_ms is None else f" ± {_ms(work.half_width_ms)}"
        of = "of a rank in a step" if sides.by_step else "of all ranks"
        times = f"A {_ms(work.a_ms)} → B {_ms(work.b_ms)} {of}"
        return [f"{times}, {_ms(work.delta_ms, signed=True)}{half} {work.verdict}".rstrip()]

    def name_at_cursor(self, scene: Scene) -> str | None:
        """Return the name of the selected row."""
        row = self.chosen(scene)
        return None if row is None else row.name

    def kernel_row(self, scene: Scene) -> tuple[str, int] | None:
        """Return rank and row of the longest instance of the selected row."""
        row = self.chosen(scene)
        if row is None or row.get("longest_row") < 0:
            return None
        label = row.table.longest_rank[row.at]
        return (label, row.get("longest_row")) if label in scene.findings.lanes else None

    def why_no_event(self, scene: Scene) -> str:
        """Return the reason: no row, or none of its calls begins in the window."""
        return self.why_none(scene) or "no call of this row begins in the window"

    def metric(self, scene: Scene) -> str:
        """Return the metric with this table."""
        return _METRICS.get(self.kind(scene), "kernels")


KERNELS: Final = KernelsPane()


def _works(table: PivotColumns, sides: Compared | None) -> list[Work]:
    both: Any = {}
    if sides is not None:
        both = {"name": sides.kernels, "operator": sides.operators}.get(table.by, {})
    return [Work(table, at, both.get(key)) for at, key in enumerate(table.key)]


def _roofline(row: Work) -> list[str]:
    text, share = row.table.roofline_text[row.at], row.get("roofline")
    if not text:
        return []
    return [
        f"no roofline: {text}"
        if share is None
        else f"{numbers.percent_cell(share)} of the roofline: {text}"
    ]


def _longest(row: Work) -> list[str]:
    rank = row.table.longest_rank[row.at]
    return [f"longest {_time(row.get('longest_ns'))} on {rank_name(rank)}"] if rank else []


def why_no_longest(scene: Scene) -> str | None:
    """Return the reason when :func:`to_longest` leads nowhere."""
    from ccltui.tui.moves import drawer

    if drawer_has_keys(scene):
        return drawer.why_not_enter(scene)
    return None if KERNELS.kernel_row(scene) is not None else KERNELS.why_no_event(scene)


def to_longest(scene: Scene) -> ViewState:
    """Show the longest instance of the row on the timeline, and in Events among device work.

    Where the inspector has the keys, its link is followed.
    """
    from ccltui.tui.moves import drawer

    if drawer_has_keys(scene):
        return drawer.enter(scene)
    row, event = KERNELS.chosen(scene), KERNELS.kernel_row(scene)
    if row is None or event is None:
        return scene.state
    start_ns = scene.findings.lanes[event[0]].shared(row.get("longest_start_ns"))
    start_ns -= scene.findings.origin_ns
    state = replace(select_at(scene, event[0], start_ns), pane=TIMELINE)
    listed = replace(EVENTS_STATE.default, kind=DEVICE, chosen=event[1])
    state = in_view(EVENTS_STATE.put(state, listed))
    time = state.time
    while time.cell_ns * _CELLS > row.get("longest_ns"):
        nearer = time.zoom_in(start_ns)
        if nearer == time:
            break
        time = nearer
    return replace(state, time=time)
