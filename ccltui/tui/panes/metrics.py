"""The Metrics pane: every metric with its value, by group or sorted by a column, and remarks.

Beside it the page of one metric: its definition, what its value rests on, and the tables behind it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct
from msgspec.structs import replace

from ccltui.draw.palette import Ink
from ccltui.draw.text import GAP, Line, fit, spark, wrap
from ccltui.parsers import numbers
from ccltui.tui.panes.list_pane import UNKNOWN, Column, ListPane
from ccltui.tui.panes.text_page import TextPage
from ccltui.tui.state.answers import Query
from ccltui.tui.state.pane import Record, compared, queries_of
from ccltui.tui.state.pane_states import METRIC as PAGE_NAME
from ccltui.tui.state.pane_states import METRICS as NAME
from ccltui.tui.state.pane_states import OVERVIEW, ListState, OwnState
from ccltui.tui.state.scene import Scene
from ccltui.tui.state.session import measured_steps
from ccltui.tui.state.view_state import ViewState

if TYPE_CHECKING:
    from ccltui.draw.planes import Planes
    from ccltui.metrics.metric import Metric
    from ccltui.metrics.result import Result
    from ccltui.tui.panes.metric_tables import ByRank
    from ccltui.tui.state.compared import Compared, MetricOf


CATEGORIES: Final = (
    *("time", "communication", "stragglers", "kernels", "throughput", "inference", "runs"),
)
"""Categories in the order of the list; others follow by name."""
UNAVAILABLE: Final = "#unavailable"
HIDDEN: Final = "#hidden"
REMARKS: Final = "#remarks"
"""Names of the headings below which there are no metrics of one category."""
_FOLDED: Final = frozenset({UNAVAILABLE, HIDDEN})
"""Headings that are folded at first."""
HIDDEN_METRICS: Final = OwnState[frozenset[str]]("metrics.hidden", frozenset())
"""Names of the metrics that the user hid."""
_WIDE: Final = 160
"""Width from which the tables of the selected metric are beside the list."""
_SIDE: Final = 76
_NAME: Final = 32
"""Cells of the longest label, with its indent."""
_HINT: Final = "enter folds or unfolds; / filters, o sorts, H hides; u: unavailable ones"
_SPARK: Final = 16
_TREND: Final = 14


class Row(Struct, frozen=True, dict=True):
    """A metric, a remark, or the heading of those ``below``.

    Attributes:
        name: name of the metric or of the heading, text of a remark.
        title: what is shown first.
        group: name of the heading that the row is, or is below; "" without groups.
        metric: the metric, None of another row.
        result: its result, None before it is computed.
        labels: labels of all ranks.
        sides: the comparison with a second path.
        text: what a heading states after its title, or the whole of a remark.
        advice: what to do about a remark.
        ink: style of the row.
        is_unfolded: whether the rows below are listed.
    """

    name: str
    title: str
    group: str
    metric: Metric | None = None
    result: Result | None = None
    labels: tuple[str, ...] = ()
    sides: Compared | None = None
    below: Sequence[Row] = ()
    text: str = ""
    advice: str = ""
    ink: Ink = Ink.STRONG
    is_unfolded: bool = False

    @property
    def window(self) -> str | None:
        """What the value is measured over."""
        return self.result.basis.get("window") if self.result else None

    @property
    def reason(self) -> str | None:
        """Why there is no value, or not of all ranks."""
        reasons = self.result.reasons if self.result else ()
        return reasons[0].message if reasons else None

    @property
    def both(self) -> MetricOf | None:
        """The metric on both paths, None where it is not compared."""
        return None if self.sides is None else self.sides.metrics.get(self.name)

    @property
    def share_of_a(self) -> float | None:
        """Size of the difference, whose unit is not that of other metrics, as a share of A."""
        both = self.both
        return abs(both.delta / both.a) if both and both.delta is not None and both.a else None

    @cached_property
    def by_rank(self) -> ByRank | None:
        """Numbers by rank, None where there are none."""
        from ccltui.tui.panes.metric_tables import by_rank

        if self.metric is None or self.result is None:
            return None
        return by_rank(self.result, self.metric.headline, self.labels)


def _of(path: str) -> Callable[[Row], Any]:
    """Return what finds an attribute of an attribute, None where either is not known."""

    def value(row: Row) -> Any:
        found: Any = row
        for name in path.split("."):
            found = None if found is None else getattr(found, name)
        return found

    return value


def _text(path: str) -> Callable[[Row, int], str]:
    return lambda row, _: _of(path)(row) or ""


def _exported(title: str, path: str, key: str = "") -> Column[Row]:
    return Column(title, _of(path), key=key or title, is_hidden=True)


def _title(row: Row, _: int) -> str:
    return f"  {row.title}" if row.group and row.metric else row.title


def _value(row: Row, _: int) -> str:
    if row.result is None:
        return "…"
    return numbers.quantity(row.result.value) + (" !" if row.result.status == "partial" else "")


def _ranks(row: Row, _: int) -> str:
    if row.by_rank is None:
        return ""
    picture = spark([row.by_rank.values.get(label) for label in row.labels], _SPARK)
    return picture if row.by_rank.is_of_value else f"({picture})"


def _steps(row: Row, _: int) -> str:
    from ccltui.metrics.result import values_by_step

    if row.metric is None or row.result is None:
        return ""
    return spark(values_by_step(row.result, row.metric.headline), _TREND)


class MetricsPane(ListPane[Row]):
    """Metrics by category or sorted by a column, those without a value, and remarks."""

    name = NAME
    key = "M"
    title = "Metrics"
    short_title = "Metr"
    from_pane = OVERVIEW
    is_of_traces = False
    about = (
        "All metrics by group: (by rank) in brackets is another number, ! is partial, sparklines "
        "begin at 0 unless they begin with ±. enter opens the tables of a metric, a group, what "
        "to do about a remark; / lists those that match, o sorts by a column instead of groups, H "
        "hides one, | hides or lists columns, u lists what is unavailable. Beside a second path: "
        "its value B, the difference, and whether that is beyond the noise of the steps."
    )
    noun = "metric"
    counts = False
    nothing = waiting = "no metric is known yet"
    columns = (
        Column("metrics", _of("metric.title"), text=_title, key="label", align="left", width=_NAME),
        _exported("category", "metric.category"),
        _exported("metric", "name"),
        Column("value", _of("result.value"), text=_value, key="value", width=9),
        Column("unit", _of("metric.unit"), key="unit", align="left", width=11, beside_from=92),
        _exported("status", "result.status"),
        Column("by rank", text=_ranks, align="left", width=_SPARK + 2, beside_from=112),
        *(
            Column(
                title,
                _of(f"by_rank.{name}"),
                text=_text(f"by_rank.{name}_text"),
                key=title,
                width=11,
                beside_from=beside_from,
            )
            for title, name, beside_from in (("min", "low", 126), ("max", "high", 140))
        ),
        _exported("min", "by_rank.low_rank", "min_rank"),
        _exported("max", "by_rank.high_rank", "max_rank"),
        Column(
            "spread",
            _of("by_rank.spread"),
            numbers.percent_cell,
            unknown="",
            width=7,
            beside_from=150,
        ),
        Column("by step", text=_steps, align="left", width=_TREND + 1, beside_from=166),
        _exported("window", "window"),
        _exported("reason", "reason"),
    )
    of_b = (
        Column("B", _of("both.b"), numbers.quantity, key="B", width=9),
        Column(
            "B - A",
            _of("both.delta"),
            numbers.signed_quantity,
            sort_value=_of("share_of_a"),
            unknown="",
            key="B - A",
            width=9,
        ),
        Column(
            "change",
            _of("both.direction"),
            text=_text("both.verdict"),
            key="change",
            align="left",
            width=8,
        ),
    )

    def __init__(self) -> None:
        super().__init__()
        # The first row is a heading: the cursor begins below it.
        self.own = OwnState(self.name, ListState(row=1))

    def why_unavailable(self, scene: Scene) -> str | None:
        """Return the reason: no metric is known."""
        return None if scene.findings.metrics else self.nothing

    def queries(self, scene: Scene) -> Iterable[Query[Any]]:
        """Return the queries for the second path."""
        return queries_of(scene)

    # Rows

    def found_rows(self, scene: Scene) -> Sequence[Row]:
        """Return the headings, or sorted metrics; then what is unavailable or hidden, remarks."""
        own, found = self.own.of(scene.state), scene.findings
        inputs = (found.metrics, found.results, found.lanes, compared(scene), scene.session)
        changed = (HIDDEN_METRICS.of(scene.state), own.toggled, own.sorting)
        return self.made_from("metrics", lambda *_: _rows(scene, self), *inputs, *changed)

    def words(self, row: Row) -> Iterable[str]:
        """Return label, name and group of a metric, the text of a remark."""
        if row.metric is not None:
            return row.title, row.name, row.metric.category or "other"
        return (row.name,) if row.text and not row.below else ()

    def ink(self, row: Row) -> Ink:
        """Return the style of a heading, a metric, or a remark."""
        return row.ink

    def row_name(self, row: Row) -> str:
        """Return the name of the row."""
        return row.name

    def across(self, row: Row) -> str | None:
        """Return what a heading or a remark states, why a metric is absent."""
        if row.metric is None:
            return row.text
        is_absent = row.result is not None and row.result.status == "unavailable"
        return f"{UNKNOWN}  absent: {row.reason or 'no reason given'}" if is_absent else None

    def below_of(self, scene: Scene, row: Row) -> Sequence[Row]:
        """Return the rows of a heading; a filter does not find metrics that the user hid."""
        return () if row.name == HIDDEN and self.row_pattern(scene) else row.below

    def fold_name(self, row: Row) -> str:
        """Return the name of the heading."""
        return row.group

    def is_unfolded(self, scene: Scene, row: Row) -> bool:
        """Return whether the rows of a heading are listed."""
        return row.is_unfolded

    def num_found(self, scene: Scene) -> int:
        """Return the number of metrics that match the filter."""
        return sum(row.metric is not None for row in self.rows(scene))

    def counted(self, scene: Scene) -> str:
        """Return the number of all metrics."""
        return numbers.counted(len(scene.findings.metrics), self.noun)

    def exported(self, scene: Scene) -> Iterator[Row]:
        """Return the computed metrics that match and are not hidden, folded ones too."""
        unfolded = scene.with_state(self.changed(scene, toggled=frozenset({UNAVAILABLE})))
        return (row for row in self.rows(unfolded) if row.result is not None)

    # Picture

    def heading(self, scene: Scene, column: Column[Row]) -> str:
        """Return the heading of a column; sparklines begin at 0."""
        title = super().heading(scene, column)
        return f"{title}, from 0" if column.title.startswith("by ") else title

    def paint(self, scene: Scene, height: int, width: int) -> Planes:
        """Draw the list, and where it is wide the tables of the selected metric beside it."""
        row = self.chosen(scene)
        if width < _WIDE or row is None or row.metric is None:
            return super().paint(scene, height, width)
        from ccltui.draw.planes import Planes
        from ccltui.tui.panes.metric_tables import paint_beside

        planes = Planes.blank(height, width, Ink.TEXT)
        listed = super().paint(scene, height, width - _SIDE)
        planes.paste(listed, 0, 0)
        planes.listed.update(listed.listed)
        beside = paint_beside(row.metric, row.result, row.labels, height, _SIDE)
        planes.paste(beside, 0, width - _SIDE)
        return planes

    def remark(self, scene: Scene, *, narrow: bool) -> str:
        """Return the second path and why its numbers are no verdict, else the iterations."""
        found = compared(scene)
        if found is not None and scene.other is not None:
            standing = found.standing.split(":")[0] if narrow else found.standing
            return f"B: {scene.other.name} {f'({fit(standing, 60).rstrip()})' if standing else ''}"
        steps = measured_steps(scene.findings.steps, scene.session.filter)
        if not steps or narrow:  # the title of the step has their number, and tabs need the room
            return ""
        first, last = steps[0].id, steps[-1].id
        return (
            f"iteration {first}" if first == last else f"iterations {first}-{last} (n={len(steps)})"
        )

    def status(self, scene: Scene, width: int) -> tuple[Line, Line]:
        """Return definition and basis of a metric, a remark in full, or what keys do."""
        row = self.chosen(scene)
        if row is None:
            return [], []
        if row.metric is not None:
            return _definition(row, row.metric, width)
        text = row.text or _HINT
        lines = wrap(f"{text} {row.advice}".rstrip(), width - 2, most=2)
        shown: list[Line] = [[(f" {line}", Ink.TEXT if row.text else Ink.DIM)] for line in lines]
        return shown[0], shown[1] if shown[1:] else []

    def metric(self, scene: Scene) -> str:
        """Return the name of the selected metric."""
        row = self.chosen(scene)
        return super().metric(scene) if row is None or row.metric is None else row.name


METRICS: Final = MetricsPane()


def _rows(scene: Scene, pane: MetricsPane) -> list[Row]:
    own, hidden = pane.own.of(scene.state), HIDDEN_METRICS.of(scene.state)
    results, labels = scene.findings.results, tuple(scene.findings.lanes)
    sides = compared(scene)
    groups: dict[str, list[Row]] = {}
    for metric in scene.findings.metrics:
        result = results.get(metric.name)
        absent = result is not None and result.status == "unavailable"
        group = HIDDEN if metric.name in hidden else UNAVAILABLE if absent else ""
        if not group and not own.sorting.column:
            group = f"#{metric.category or 'other'}"
        ink = Ink.DIM if absent or result is None else Ink.TEXT
        row = Row(metric.name, metric.title, group, metric, result, labels, sides, ink=ink)
        groups.setdefault(group, []).append(row)
    groups[REMARKS] = _remarks(scene)
    rows = groups.pop("", [])
    for group in sorted(filter(groups.get, groups), key=_place):
        is_unfolded = (group in own.toggled) != (group not in _FOLDED)
        rows.append(_heading(group, groups[group], is_unfolded=is_unfolded))
    return rows


def _place(group: str) -> tuple[int, str]:
    """Return what headings are sorted by: categories that are not named here are by name."""
    order = (*(f"#{one}" for one in CATEGORIES), "", UNAVAILABLE, HIDDEN, REMARKS)
    return order.index(group if group in order else ""), group


def _heading(group: str, below: Sequence[Row], *, is_unfolded: bool) -> Row:
    title = f"{'▾' if is_unfolded else '▸'} {group[1:]} ({len(below)})"
    text = ""
    if group == UNAVAILABLE:
        counts = Counter(row.metric.category or "other" for row in below if row.metric)
        ordered = sorted(counts, key=lambda category: _place(f"#{category}"))
        each = ", ".join(f"{category} {counts[category]}" for category in ordered)
        text = f"{each}; u {'hides them' if is_unfolded else 'shows why'}"
    ink = Ink.DIM if group in _FOLDED else Ink.STRONG
    return Row(group, title, group, below=below, text=text, ink=ink, is_unfolded=is_unfolded)


def _remarks(scene: Scene) -> list[Row]:
    from ccltui.tui.state.notes import notes

    return [
        Row(one.text, "", REMARKS, text=one.text, advice=one.advice, ink=one.ink)
        for one in notes(scene)
    ]


def _definition(row: Row, metric: Metric, width: int) -> tuple[Line, Line]:
    text = wrap(f"{metric.title}: {metric.definition}", width - 2, most=2)
    above: Line = [(f" {text[0]}", Ink.TEXT)]
    if len(text) > 1 or row.result is None:
        return above, [(f" {line}", Ink.TEXT) for line in text[1:]]
    parts = [f"{key}: {value}" for key, value in row.result.basis.items()]
    if row.both is not None and row.both.why:
        parts = [row.both.why, *parts]
    if row.by_rank is not None and not row.by_rank.is_own:
        parts = [f"(by rank): {row.by_rank.name}", *parts]
    return above, [(f" {GAP.join(parts)}", Ink.DIM)]


# Moves


def enter(scene: Scene) -> ViewState:
    """Open the tables of a metric, or what to do about a remark; fold or unfold a group."""
    row = METRICS.chosen(scene)
    if row is None or row.below:
        return METRICS.with_fold(scene)
    return replace(scene.state, pane=PAGE_NAME)


def why_not_fold(scene: Scene) -> str | None:
    """Return the reason when no group is selected."""
    row = METRICS.chosen(scene)
    if row is None:
        return METRICS.why_no_rows(scene)
    return None if row.group else "the metrics are sorted by a column: o comes back to groups"


def hide(scene: Scene) -> ViewState:
    """Hide the selected metric, or list it again; on the heading of the hidden ones list all."""
    row, hidden = METRICS.chosen(scene), HIDDEN_METRICS.of(scene.state)
    if row is None:
        return scene.state
    names = [METRICS.row_name(one) for one in METRICS.rows(scene)]
    after = names[min(METRICS.row(scene) + 1, len(names) - 1)]
    state = METRICS.changed(scene, chosen=after)
    return HIDDEN_METRICS.put(state, frozenset() if row.below else hidden ^ {row.name})


def why_not_hide(scene: Scene) -> str | None:
    """Return the reason when neither a metric nor the heading of the hidden ones is selected."""
    row = METRICS.chosen(scene)
    is_one = row is not None and (row.metric is not None or row.name == HIDDEN)
    return None if is_one else "no metric is selected"


def with_unavailable(scene: Scene) -> ViewState:
    """List the metrics that are unavailable with their reasons, or count them."""
    state = replace(METRICS.changed(scene, chosen=UNAVAILABLE), pane=NAME)
    return METRICS.with_fold(scene.with_state(state))


def why_none_unavailable(scene: Scene) -> str | None:
    """Return the reason when no metric is unavailable."""
    is_listed = any(row.name == UNAVAILABLE for row in METRICS.rows(scene))
    return None if is_listed else "no metric is unavailable"


_TEXT: Final = 78
"""Cells of lines of text, which are easier to read than longer ones."""
_ALL: Final = 1000
"""Cells of lines of tables: all columns; the selected line is repeated in full."""


class PageLine(Struct, frozen=True):
    """One line."""

    text: str
    ink: Ink


class MetricPage(TextPage[PageLine]):
    """Definition and tables of the metric that is selected in Metrics, or advice on a remark."""

    name = PAGE_NAME
    key = ""
    title = "Tables"
    short_title = "Tables"
    from_pane = NAME
    opens_without_traces = False
    noun = "line"
    nothing = waiting = "no metric is selected"
    about = (
        "The metric that is selected in Metrics: its definition, what it needs and rests on, its "
        "numbers by rank, and the tables behind it, sorted by any of their columns. Of a remark, "
        "what to do."
    )

    def found_rows(self, scene: Scene) -> Sequence[PageLine] | None:
        """Return the lines about the selected row of Metrics."""
        row = METRICS.chosen(scene)
        return () if row is None else self.made_from("lines", _page_lines, row)

    def is_heading(self, row: PageLine) -> bool:
        """Return whether the line names a table."""
        return row.ink is Ink.STRONG

    def ink(self, row: PageLine) -> Ink:
        """Return the style of what a line says."""
        return row.ink

    def metric(self, scene: Scene) -> str:
        """Return the name of the metric."""
        return METRICS.metric(scene)

    def records(self, scene: Scene) -> Iterator[Record]:
        """Yield the metric for the job, then rank by rank."""
        from ccltui.tui.panes.metric_tables import rank_columns

        row = METRICS.chosen(scene)
        if row is None or row.result is None or row.result.value is None:
            return
        columns = rank_columns(row.result, row.labels)
        yield {"rank": None, "value": row.result.value, **dict.fromkeys(columns)}
        for label in row.labels if columns else ():
            cells = {name: column.get(label) for name, column in columns.items()}
            yield {"rank": label, "value": None, **cells}


METRIC: Final = MetricPage()


def _page_lines(row: Row) -> list[PageLine]:
    from ccltui.tui.panes.metric_tables import table_lines

    if row.metric is None:
        advice = row.advice or "No fix is known."
        return [*_wrapped(row.text, row.ink), PageLine("", Ink.TEXT), *_wrapped(advice, Ink.TEXT)]
    tables = table_lines(row.metric, row.result, row.labels, _ALL)
    return [*_page_definition(row, row.metric), *(PageLine(text, ink) for text, ink in tables)]


def _page_definition(row: Row, metric: Metric) -> list[PageLine]:
    """Return definition, needs, basis and remarks, and a blank line."""
    from ccltui.tui.state.notes import remarks_on

    lines = _wrapped(f"{metric.title} ({metric.name}): {metric.definition}", Ink.TEXT)
    needs = f"needs {'; '.join(metric.needs)}; --metric {metric.name} prints it"
    lines += _wrapped(needs, Ink.DIM)
    if row.result is not None:
        basis = "; ".join(f"{key}: {value}" for key, value in row.result.basis.items())
        lines += _wrapped(basis, Ink.DIM) if basis else []
        for note in remarks_on(row.result):
            lines += _wrapped(f"{note.text}. {note.advice}" if note.advice else note.text, note.ink)
    return [*lines, PageLine("", Ink.TEXT)]


def _wrapped(text: str, ink: Ink) -> list[PageLine]:
    return [PageLine(line, ink) for line in wrap(text, _TEXT, most=20)]
