"""The Kernels pane: the device work of all ranks by name, operator, module, stream or rank."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from math import isnan
from typing import TYPE_CHECKING, Any, Final

from ccltui.draw import numbers
from ccltui.draw.palette import Ink
from ccltui.draw.text import fit, fit_middle
from ccltui.tui.state.answers import Query
from ccltui.tui.state.own.kernel_listing import KERNELS_STATE, By, Column
from ccltui.tui.state.own.pane_names import KERNELS as NAME
from ccltui.tui.state.pane import Pane, Record
from ccltui.tui.state.scene import Scene, rank_name
from ccltui.tui.state.view_state import Shown, ViewState
from ccltui.tui.styled_text import GAP, Line

if TYPE_CHECKING:
    from ccltui.draw.planes import Planes
    from ccltui.metrics.device.pivot_columns import PivotColumns

_METRICS: Final = {By.CATEGORY: "kernel_categories", By.OPERATOR: "operators", By.MODULE: "modules"}
_PLURALS: Final = {By.CATEGORY: "categories"}
_MEDIUM, _WIDE, _WIDEST = 104, 132, 170
_GAP = 2
_LEAST_NAME = 16
_DETAIL = 24
_UNKNOWN = "--"
_OF_B: Final = (Column.OF_B, Column.DELTA)
_CHANGE = 8
_BESIDE: Final = (1, 4)
"""Columns of the open job beside those of a second path, on narrow and on wider screens."""


class KernelsPane(Pane):
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

    def why_unavailable(self, scene: Scene) -> str | None:
        """Return the reason: no device work is loaded."""
        lanes = scene.findings.lanes.values()
        if any(len(track.start_ns) for lane in lanes for track in (lane.compute, lane.network)):
            return None
        return "no device work is loaded"

    def queries(self, scene: Scene) -> Iterable[Query[Any]]:
        """Yield the query of the kind of rows in view."""
        from ccltui.tui.state.against.second_path import queries_of
        from ccltui.tui.state.queries.query_kinds import PivotQuery

        if not scene.findings.lanes:
            return ()
        by = KERNELS_STATE.of(scene.state).by.value
        return (PivotQuery(scene.findings.generation, by), *queries_of(scene))

    def paint(self, scene: Scene, height: int, width: int) -> Planes:
        """Draw a page of the table that contains the selected row."""
        return _paint(scene, height, width)

    def legend(self, scene: Scene, *, narrow: bool) -> Line:
        """Return the number and kind of the rows, the filter, and the order."""
        from ccltui.tui.moves import kernel_rows

        own, found = KERNELS_STATE.of(scene.state), kernel_rows.columns(scene)
        if found is None:
            return []
        shown = len(kernel_rows.order(scene))
        all_rows = numbers.counted(found.num_rows, own.by.value, _PLURALS.get(own.by, ""))
        of = f"{numbers.count(shown)} of " if shown != found.num_rows else ""
        filtered = f" /{fit(own.pattern, 12).rstrip()}/" if own.pattern else ""
        least = ", least first" if own.reverse else ""
        order = "" if narrow else f"  by {own.sort.value}{least}"
        text = f"{of}{all_rows}{filtered}{order} "
        return [(text, Ink.TAB)]

    def status(self, scene: Scene, width: int) -> tuple[Line, Line]:
        """Return the numbers of the selected row, and its full name."""
        return _status(scene)

    def count(self, scene: Scene) -> int:
        """Return the number of listed rows."""
        from ccltui.tui.moves import kernel_rows

        return len(kernel_rows.order(scene))

    def row(self, scene: Scene) -> int:
        """Return the place of the cursor."""
        from ccltui.tui.moves import kernel_rows

        return kernel_rows.place(scene)

    def to_row(self, scene: Scene, row: int) -> ViewState:
        """Put the cursor on a row."""
        from ccltui.tui.moves import kernel_rows

        return kernel_rows.to_row(scene, row)

    def why_no_rows(self, scene: Scene) -> str:
        """Return the reason: nothing is loaded, summed or left by the filter."""
        from ccltui.tui.moves import kernel_rows

        return kernel_rows.why_none(scene) or super().why_no_rows(scene)

    def name_at_cursor(self, scene: Scene) -> str | None:
        """Return the name of the selected row."""
        from ccltui.tui.moves import kernel_rows

        found, row = kernel_rows.columns(scene), kernel_rows.chosen(scene)
        return None if found is None or row is None else found.name[row]

    def kernel_row(self, scene: Scene) -> tuple[str, int] | None:
        """Return rank and row of the longest instance of the selected row."""
        from ccltui.tui.moves import kernel_rows

        return kernel_rows.longest_event(scene)

    def why_no_event(self, scene: Scene) -> str:
        """Return the reason: no row, or none of its calls begins in the window."""
        from ccltui.tui.moves import kernel_rows

        return kernel_rows.why_no_longest(scene) or super().why_no_event(scene)

    is_filtered = True

    def row_pattern(self, scene: Scene) -> str:
        """Return the pattern of the names that are listed."""
        return KERNELS_STATE.of(scene.state).pattern

    def with_row_pattern(self, scene: Scene, pattern: str) -> ViewState:
        """List rows whose name matches."""
        own = KERNELS_STATE.of(scene.state)
        return KERNELS_STATE.put(scene.state, replace(own, pattern=pattern, row=0))

    def records(self, scene: Scene) -> Iterator[Record]:
        """Yield the listed rows in their order."""
        from ccltui.tui.moves import kernel_rows

        found = kernel_rows.columns(scene)
        rows = () if found is None else kernel_rows.order(scene)
        if found is None:
            return iter(())
        return (_record(found, row) | _record_of_b(scene, found, row) for row in rows)

    def metric(self, scene: Scene) -> str:
        """Return the metric with this table."""
        return _METRICS.get(KERNELS_STATE.of(scene.state).by, "kernels")


KERNELS: Final = KernelsPane()


def _paint(scene: Scene, height: int, width: int) -> Planes:
    from ccltui.draw.planes import Planes
    from ccltui.tui.moves import kernel_rows

    planes = Planes.blank(height, width, Ink.TEXT)
    found, rows = kernel_rows.columns(scene), kernel_rows.order(scene)
    room = max(height - 1, 1)
    at = kernel_rows.place(scene)
    first = at // room * room  # whole pages: the picture scrolls only when it must
    if found is None or not rows:
        why = kernel_rows.why_none(scene) or "still summing the device work"
        planes.put(1, 1, f"{why[0].upper()}{why[1:]}.", Ink.DIM)
        return planes
    shown = rows[first : first + room]
    lines = _lines(scene, found, shown, width)
    planes.put(0, 1, lines[0], Ink.DIM)
    for index, line in enumerate(lines[1:]):
        on = first + index == at
        text = ("▶" if on else " ") + line
        planes.put(1 + index, 0, text.ljust(width), Ink.LABEL_ON if on else Ink.TEXT)
        planes.listed[1 + index] = first + index
    return planes


def _lines(scene: Scene, found: PivotColumns, rows: Iterable[int], width: int) -> list[str]:
    """Return the heading and the rows; the name has the room that the numbers leave."""
    from ccltui.draw.table import Column as Cells
    from ccltui.draw.table import table

    own = KERNELS_STATE.of(scene.state)
    columns = _columns(found, width)
    against = _against(scene, found)
    if against:
        columns = [*columns[: _BESIDE[width >= _MEDIUM]], *against]
    detailed = width >= _WIDE and any(found.detail)
    used = (
        sum(size + _GAP for _, size in columns)
        + (_CHANGE + _GAP if against else 0)
        + (_DETAIL + _GAP if detailed else 0)
    )
    room = max(width - 2 - used, _LEAST_NAME)
    mark = "▴" if own.reverse else "▼"
    titles = [f"{mark}{one.value}" if one is own.sort else one.value for one, _ in columns]
    name = own.by.value if own.sort is not Column.NAME else f"{mark}{own.by.value}"
    heading = [Cells(name.ljust(room), widest=room)]
    heading += [
        Cells(title.rjust(size), "right", size)
        for title, (_, size) in zip(titles, columns, strict=True)
    ]
    if against:
        heading.append(Cells("change", widest=_CHANGE))
    if detailed:
        heading.append(Cells("shapes" if own.by is By.OPERATOR else "category", widest=_DETAIL))
    cells = [
        [
            fit_middle(_name(found, row, detailed=detailed), room),
            *(_cell(found, row, one) for one, _ in columns if one not in _OF_B),
            *(_cells_of_b(scene, found, row) if against else ()),
            *([found.detail[row]] if detailed else []),
        ]
        for row in rows
    ]
    return table(heading, cells, width - 1)


def _against(scene: Scene, found: PivotColumns) -> list[tuple[Column, int]]:
    """Return the columns of the second path, none where its rows are not aligned with these."""
    aligned = found.by in (By.NAME.value, By.OPERATOR.value)
    return [(one, 10) for one in _OF_B] if scene.other is not None and aligned else []


def _cells_of_b(scene: Scene, found: PivotColumns, row: int) -> tuple[str, str, str]:
    """Return the time in B, the difference from A, and whether it is beyond the noise."""
    from ccltui.tui.moves import kernel_rows

    work = kernel_rows.of_b(scene, found, row)
    if work is None:
        return _UNKNOWN, _UNKNOWN, ""
    of_b = _UNKNOWN if work.status == "gone" else _ms(work.b_ms)
    return of_b, _ms(work.delta_ms, signed=True), work.verdict


def _ms(milliseconds: float | None, *, signed: bool = False) -> str:
    if milliseconds is None:
        return _UNKNOWN
    ns = round(milliseconds * 1e6)
    return numbers.signed_duration(ns) if signed else numbers.duration(ns)


def _text_of_b(scene: Scene, found: PivotColumns, row: int) -> list[str]:
    """Describe the selected row on both paths in one unit, or why it has no numbers of B."""
    from ccltui.tui.moves import kernel_rows
    from ccltui.tui.state.against.second_path import compared

    sides, work = compared(scene), kernel_rows.of_b(scene, found, row)
    if sides is None:
        return []
    if work is None or work.delta_ms is None:
        aligned = bool(_against(scene, found))
        return [sides.problem or ("not in B" if aligned else "only names and operators align")]
    half = "" if work.half_width_ms is None else f" ± {_ms(work.half_width_ms)}"
    of = "of a rank in a step" if sides.by_step else "of all ranks"
    times = f"A {_ms(work.a_ms)} → B {_ms(work.b_ms)} {of}"
    return [f"{times}, {_ms(work.delta_ms, signed=True)}{half} {work.verdict}".rstrip()]


def _name(found: PivotColumns, row: int, *, detailed: bool) -> str:
    """Return the name of a row, with the shapes of an operator that have no column."""
    with_shapes = found.by == By.OPERATOR.value and not detailed
    return f"{found.name[row]} {found.detail[row]}".rstrip() if with_shapes else found.name[row]


def _columns(found: PivotColumns, width: int) -> list[tuple[Column, int]]:
    """Return the columns of numbers with their widths, the more the wider the pane."""
    if any(not isnan(rate) for rate in found.tflops.tolist()):
        return _rated_columns(width)
    chosen = [(Column.TOTAL, 16), (Column.CALLS, 8), (Column.MEAN, 9), (Column.MAX, 9)]
    if width >= _MEDIUM:
        chosen += [(Column.P95, 9), (Column.EXPOSED, 9), (Column.IMBALANCE, 9)]
    return chosen


def _rated_columns(width: int) -> list[tuple[Column, int]]:
    """Return the columns where rates are known: shapes in the names need the room of others."""
    chosen = [(Column.TOTAL, 16), (Column.CALLS, 8), (Column.MEAN, 9)]
    if width >= _MEDIUM:
        chosen += [(Column.P95, 9), (Column.EXPOSED, 9)]
    if width >= _WIDEST:
        chosen += [(Column.MAX, 9), (Column.IMBALANCE, 9)]
    chosen.append((Column.TFLOPS, 7))
    if width >= _MEDIUM:
        chosen.append((Column.TBPS, 6))
    return [*chosen, (Column.ROOFLINE, 9)]


def _cell(found: PivotColumns, row: int, column: Column) -> str:
    if column is Column.TOTAL:
        total = int(found.total_ns[row])
        return f"{numbers.duration(total)} {total / max(found.all_ns, 1):6.1%}"
    if column is Column.CALLS:
        return numbers.count(int(found.calls[row]))
    if column is Column.EXPOSED:
        return numbers.duration(int(found.exposed_ns[row]))
    if column is Column.IMBALANCE:
        return _number(float(found.imbalance[row]), ".2f")
    if column is Column.TFLOPS:
        return _number(float(found.tflops[row]), ".1f")
    if column is Column.TBPS:
        return _number(float(found.tbps[row]), ".2f")
    if column is Column.ROOFLINE:
        return _number(float(found.roofline[row]), ".1%")
    values = {Column.MEAN: found.mean_ns, Column.MAX: found.max_ns, Column.P95: found.p95_ns}
    return _time(float(values[column][row]))


def _number(value: float, digits: str) -> str:
    return _UNKNOWN if isnan(value) else format(value, digits)


def _time(nanoseconds: float) -> str:
    return _UNKNOWN if isnan(nanoseconds) else numbers.duration(round(nanoseconds))


def _status(scene: Scene) -> tuple[Line, Line]:
    from ccltui.tui.moves import kernel_rows

    found, row = kernel_rows.columns(scene), kernel_rows.chosen(scene)
    if found is None or row is None:
        return [], []
    parts = [
        *_text_of_b(scene, found, row),
        *([_roofline(found, row)] if found.roofline_text[row] else []),
        f"mean {_time(float(found.mean_ns[row]))}",
        f"median {_time(float(found.median_ns[row]))}",
        f"p95 {_time(float(found.p95_ns[row]))}",
    ]
    if found.longest_rank[row]:
        longest = numbers.duration(int(found.longest_ns[row]))
        parts.append(f"longest {longest} on {rank_name(found.longest_rank[row])}")
    parts.append(f"exposed {numbers.duration(int(found.exposed_ns[row]))}")
    if found.detail[row]:
        parts.append(found.detail[row])
    return [(f" {GAP.join(parts)}", Ink.TEXT)], [
        (f" {found.example[row] or found.name[row]}", Ink.DIM)
    ]


def _roofline(found: PivotColumns, row: int) -> str:
    share = float(found.roofline[row])
    text = found.roofline_text[row]
    return f"no roofline: {text}" if isnan(share) else f"{share:.1%} of the roofline: {text}"


def _record(found: PivotColumns, row: int) -> Record:
    known: dict[str, float] = {
        "mean_ns": float(found.mean_ns[row]),
        "median_ns": float(found.median_ns[row]),
        "p95_ns": float(found.p95_ns[row]),
        "max_ns": float(found.max_ns[row]),
        "imbalance_ratio": float(found.imbalance[row]),
        "tflops": float(found.tflops[row]),
        "tbps": float(found.tbps[row]),
        "roofline_share": float(found.roofline[row]),
    }
    return {
        found.by: found.name[row],
        "detail": found.detail[row],
        "calls": int(found.calls[row]),
        "total_ns": int(found.total_ns[row]),
        "exposed_ns": int(found.exposed_ns[row]),
        **{name: None if isnan(value) else value for name, value in known.items()},
    }


def _record_of_b(scene: Scene, found: PivotColumns, row: int) -> Record:
    from ccltui.tui.moves import kernel_rows

    if not _against(scene, found):
        return {}
    work = kernel_rows.of_b(scene, found, row)
    if work is None:
        return dict.fromkeys(("A_ms", "B_ms", "B - A_ms", "half_width_ms", "change"))
    return {
        "A_ms": work.a_ms,
        "B_ms": work.b_ms,
        "B - A_ms": work.delta_ms,
        "half_width_ms": work.half_width_ms,
        "change": work.status if work.status in ("added", "gone") else work.direction,
    }
