"""The list of metrics: headings of categories, rows of values, columns and orders."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct
from msgspec.structs import replace

from ccltui.parsers.errors import GrammarError
from ccltui.tui.state.pane_states import OVERVIEW_STATE, MetricOrder, OverviewState
from ccltui.tui.state.scene import Scene
from ccltui.tui.state.second_path import compared
from ccltui.tui.state.view_state import ViewState

if TYPE_CHECKING:
    from ccltui.metrics.metric import Metric
    from ccltui.metrics.result import Result


_PER_STEP = "per_step"
_BESIDE = frozenset({"n", "std", "component", "min", "max"})

Number = float | int | None
RankColumns = dict[str, dict[str, Number]]
"""Column name -> rank label -> value."""


def rank_columns(result: Result, labels: Sequence[str]) -> RankColumns:
    """Return all parts of the details with a value for each rank, the headline's own first."""
    columns: RankColumns = {}
    for key, part in result.details.items():
        by_rank = isinstance(part, Mapping) and part and set(part) <= set(labels)
        if by_rank and _PER_STEP not in key:  # steps may be numbered like ranks
            _add(columns, key, part)
    return columns


def _add(columns: RankColumns, key: str, by_rank: Mapping[str, Any]) -> None:
    for label, value in by_rank.items():
        if isinstance(value, Mapping):
            for inner, number in value.items():
                if _is_number(number) and not inner.isdigit():  # skip values step by step
                    name = inner if key == "per_rank" else f"{key} {inner}"
                    columns.setdefault(name, {})[label] = number
        elif _is_number(value):
            columns.setdefault(key, {})[label] = value


def _is_number(value: object) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def leading(columns: RankColumns, headline: str) -> str | None:
    """Return the column with the headline by rank, None when there is none."""
    if headline in columns:
        return headline
    words = headline.split("_")
    return next((name for name in columns if name in words), None)


def fallback(columns: RankColumns) -> str | None:
    """Return the first column by rank of something other than the headline."""
    return next((name for name in columns if name.split()[-1] not in _BESIDE), None)


def spread(column: Mapping[str, Number]) -> float | None:
    """Return largest minus smallest value over the absolute mean, None where that is zero."""
    known = [value for value in column.values() if value is not None]
    mean = abs(sum(known) / len(known)) if known else 0
    return (max(known) - min(known)) / mean if mean else None


def extremes(column: Mapping[str, Number]) -> tuple[tuple[str, float], tuple[str, float]] | None:
    """Return rank and value of the smallest and of the largest, None without values."""
    known = [(label, value) for label, value in column.items() if value is not None]
    if not known:
        return None
    return min(known, key=lambda pair: pair[1]), max(known, key=lambda pair: pair[1])


BY_RANK: Final = "by rank"
BY_STEP: Final = "by step"
OF_B: Final = ("B", "B - A", "change")
"""Columns that only a comparison has; their values are those of ``ccltui diff --metrics``."""
_COLUMNS: Final = ("value", "unit", *OF_B, BY_RANK, "min", "max", "spread", BY_STEP)


def columns(scene: Scene) -> tuple[str, ...]:
    """Return all columns after the names, in order."""
    return tuple(name for name in _COLUMNS if scene.other is not None or name not in OF_B)


def listed_columns(scene: Scene) -> tuple[str, ...]:
    """Return the columns that are not hidden."""
    hidden = OVERVIEW_STATE.of(scene.state).hidden_columns
    return tuple(name for name in columns(scene) if name not in hidden)


def orders(scene: Scene) -> list[MetricOrder]:
    """Return the orders that the metrics can have; by the difference only in a comparison."""
    return [one for one in MetricOrder if one is not MetricOrder.DELTA or scene.other is not None]


def matching(text: str, scene: Scene) -> list[str]:
    """Return the columns whose names begin with a text, each with a sign of what choosing does."""
    hidden = OVERVIEW_STATE.of(scene.state).hidden_columns
    fitting = [name for name in columns(scene) if name.lower().startswith(text.strip().lower())]
    return [f"+{name}" if name in hidden else f"-{name}" for name in fitting]


def toggled(text: str, scene: Scene) -> ViewState:
    """Hide a column, or list it again; without a name list all.

    Raises:
        GrammarError: There is no such column, or no other is left.
    """
    own = OVERVIEW_STATE.of(scene.state)
    text = text.strip().lstrip("+-").lower()
    if not text:
        return OVERVIEW_STATE.put(scene.state, replace(own, hidden_columns=frozenset()))
    names = columns(scene)
    exact = [name for name in names if name.lower() == text]
    found = exact or [name for name in names if name.lower().startswith(text)]
    if not found:
        raise GrammarError(f"no column {text!r}; there are {', '.join(names)}")
    own = replace(own, hidden_columns=own.hidden_columns ^ {found[0]})
    return OVERVIEW_STATE.put(scene.state, own)


ORDER: Final = ("time", "communication", "stragglers", "kernels", "throughput", "inference", "runs")
"""Categories in the order of the list; others follow by name."""
UNAVAILABLE: Final = "#unavailable"
"""Key of the row that counts the metrics that are unavailable."""


HIDDEN: Final = "#hidden"
"""Key of the row that counts the metrics that the user hid."""


class Item(Struct, frozen=True):
    """One row: a metric, the heading of a category, or the count of what is not listed.

    ``key`` is the name of the metric, ``#`` and a category, `UNAVAILABLE` or `HIDDEN`.
    """

    key: str
    category: str
    metric: Metric | None = None
    count: int = 0


def items(scene: Scene) -> list[Item]:
    """Return the rows of the list in order.

    A filter finds metrics in folded groups too; sorted by a column, the list has no groups.
    """
    own, metrics = OVERVIEW_STATE.of(scene.state), scene.findings.metrics
    fitting = [metric for metric in metrics if _matches(metric, own.pattern)]
    kept = [metric for metric in fitting if metric.name not in own.hidden]
    shown = [m for m in kept if own.lists_unavailable or not is_unavailable(scene, m)]
    if own.order is MetricOrder.GROUP:
        found = _grouped(shown, frozenset() if own.pattern else own.folded)
    else:
        ordered = _sorted(scene, shown, own.order, reverse=own.reverse)
        found = [Item(metric.name, metric.category or "other", metric) for metric in ordered]
    missing = sum(is_unavailable(scene, metric) for metric in kept)
    if missing:
        found.append(Item(UNAVAILABLE, "", count=missing))
    if len(fitting) > len(kept):
        found.append(Item(HIDDEN, "", count=len(fitting) - len(kept)))
    return found


def chosen_metrics(scene: Scene) -> list[Metric]:
    """Return the metrics that match the filter and are not hidden, in order.

    Those of folded groups and those that are unavailable, which the list counts, are among them.
    """
    own = OVERVIEW_STATE.of(scene.state)
    kept = [m for m in scene.findings.metrics if _matches(m, own.pattern)]
    kept = [metric for metric in kept if metric.name not in own.hidden]
    if own.order is MetricOrder.GROUP:
        return [metric for group in _by_category(kept).values() for metric in group]
    return _sorted(scene, kept, own.order, reverse=own.reverse)


def _grouped(metrics: Iterable[Metric], folded: frozenset[str]) -> list[Item]:
    found: list[Item] = []
    for category, shown in _by_category(metrics).items():
        found.append(Item(f"#{category}", category, count=len(shown)))
        if category not in folded:
            found += [Item(metric.name, category, metric) for metric in shown]
    return found


def _matches(metric: Metric, pattern: str) -> bool:
    """Return whether label, name or group of a metric matches, case ignored."""
    if not pattern:
        return True
    texts = (metric.title, metric.name, metric.category or "other")
    return any(re.search(pattern, text, re.IGNORECASE) for text in texts)


def _sorted(
    scene: Scene, metrics: list[Metric], order: MetricOrder, *, reverse: bool
) -> list[Metric]:
    """Return metrics by a column: texts by letters, numbers largest first, unknown ones last.

    Differences of metrics have different units: they are sorted as shares of A.
    """
    if order in (MetricOrder.NAME, MetricOrder.UNIT):
        by_name = order is MetricOrder.NAME

        def text(metric: Metric) -> str:
            return (metric.title if by_name else metric.unit).lower()

        return sorted(metrics, key=text, reverse=reverse)
    values = {metric.name: _number(scene, metric, order) for metric in metrics}
    known = [metric for metric in metrics if values[metric.name] is not None]
    known.sort(key=lambda metric: values[metric.name] or 0.0, reverse=not reverse)
    return [*known, *(metric for metric in metrics if values[metric.name] is None)]


def _number(scene: Scene, metric: Metric, order: MetricOrder) -> float | None:
    """Return the number of a metric in the column that the list is sorted by."""
    if order is MetricOrder.DELTA:
        sides = compared(scene)
        row = None if sides is None else sides.metrics.get(metric.name)
        return None if row is None or row.delta is None or not row.a else abs(row.delta / row.a)
    result = scene.findings.results.get(metric.name)
    if result is None or result.value is None or order is MetricOrder.VALUE:
        return None if result is None else result.value
    columns = rank_columns(result, tuple(scene.findings.lanes))
    own = leading(columns, metric.headline)
    ends = None if own is None else extremes(columns[own])
    if own is None or ends is None or not ends[0][1] <= result.value <= ends[1][1]:
        return None  # these columns are empty: no range of the value
    if order is MetricOrder.SPREAD:
        return spread(columns[own])
    return ends[0][1] if order is MetricOrder.MIN else ends[1][1]


def _by_category(metrics: Iterable[Metric]) -> dict[str, list[Metric]]:
    found: dict[str, list[Metric]] = {}
    for metric in metrics:
        found.setdefault(metric.category or "other", []).append(metric)
    return dict(sorted(found.items(), key=lambda pair: (_place(pair[0]), pair[0])))


def _place(category: str) -> int:
    return ORDER.index(category) if category in ORDER else len(ORDER)


def is_unavailable(scene: Scene, metric: Metric) -> bool:
    """Return whether a metric was computed and has no value."""
    result = scene.findings.results.get(metric.name)
    return result is not None and result.status == "unavailable"


def unavailable_by_category(scene: Scene) -> list[tuple[str, int]]:
    """Return category and number of its unavailable metrics, in order."""
    found = _by_category(m for m in scene.findings.metrics if is_unavailable(scene, m))
    return [(category, len(metrics)) for category, metrics in found.items()]


def chosen_row(scene: Scene) -> int:
    """Return the selected row: that of the key in the state, the first metric by default.

    A metric that is listed no longer is represented by the heading of its category, in a list
    without groups by the first row.
    """
    own, listed = OVERVIEW_STATE.of(scene.state), items(scene)
    keys = [item.key for item in listed]
    if own.item in keys:
        return keys.index(own.item)
    category = next(
        (m.category or "other" for m in scene.findings.metrics if m.name == own.item), ""
    )
    if f"#{category}" in keys:
        return keys.index(f"#{category}")
    return min(1, len(keys) - 1) if keys and keys[0].startswith("#") else 0


def chosen_item(scene: Scene) -> Item | None:
    """Return the selected row, None where no metric is known yet."""
    listed = items(scene)
    return listed[chosen_row(scene)] if listed else None


def chosen_metric(scene: Scene) -> Metric | None:
    """Return the metric that is selected in Overview, None on a heading."""
    item = chosen_item(scene)
    return None if item is None else item.metric


def folded(scene: Scene) -> ViewState:
    """Fold or unfold the category of the selected row, or list what is unavailable."""
    own, item = OVERVIEW_STATE.of(scene.state), chosen_item(scene)
    if item is None:
        return scene.state
    if item.key == UNAVAILABLE:
        return unavailable_listed(scene)
    if item.key == HIDDEN:
        return OVERVIEW_STATE.put(scene.state, replace(own, hidden=frozenset()))
    changed = own.folded ^ {item.category}
    own = replace(own, folded=changed, item=f"#{item.category}")
    return OVERVIEW_STATE.put(scene.state, own)


def unavailable_listed(scene: Scene) -> ViewState:
    """List the metrics that are unavailable with their reasons, or count them."""
    own: OverviewState = OVERVIEW_STATE.of(scene.state)
    own = replace(own, lists_unavailable=not own.lists_unavailable)
    return OVERVIEW_STATE.put(scene.state, own)
