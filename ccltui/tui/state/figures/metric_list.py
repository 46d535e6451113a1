"""Rows of the list of metrics: a heading for each category, its metrics, and what is left out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from ccltui.tui.state.own.overview_state import OVERVIEW_STATE, OverviewState
from ccltui.tui.state.scene import Scene
from ccltui.tui.state.view_state import ViewState

if TYPE_CHECKING:
    from ccltui.metrics.metric import Metric

ORDER: Final = ("time", "communication", "stragglers", "kernels", "throughput", "inference", "runs")
"""Categories in the order of the list; others follow by name."""
UNAVAILABLE: Final = "#unavailable"
"""Key of the row that counts the metrics that are unavailable."""


@dataclass(frozen=True, slots=True)
class Item:
    """One row: a metric, the heading of a category, or the count of what is unavailable.

    ``key`` is the name of the metric, ``#`` and a category, or `UNAVAILABLE`.
    """

    key: str
    category: str
    metric: Metric | None = None
    count: int = 0


def items(scene: Scene) -> list[Item]:
    """Return the rows of the list in order."""
    own = OVERVIEW_STATE.of(scene.state)
    found: list[Item] = []
    missing = 0
    for category, metrics in _by_category(scene.findings.metrics).items():
        shown = [m for m in metrics if own.lists_unavailable or not is_unavailable(scene, m)]
        missing += sum(is_unavailable(scene, metric) for metric in metrics)
        if not shown:
            continue
        found.append(Item(f"#{category}", category, count=len(shown)))
        if category not in own.folded:
            found += [Item(metric.name, category, metric) for metric in shown]
    if missing:
        found.append(Item(UNAVAILABLE, "", count=missing))
    return found


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

    A metric that is listed no longer is represented by the heading of its category.
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
    return min(1, len(keys) - 1) if keys else 0


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
    changed = own.folded ^ {item.category}
    own = replace(own, folded=changed, item=f"#{item.category}")
    return OVERVIEW_STATE.put(scene.state, own)


def unavailable_listed(scene: Scene) -> ViewState:
    """List the metrics that are unavailable with their reasons, or count them."""
    own: OverviewState = OVERVIEW_STATE.of(scene.state)
    own = replace(own, lists_unavailable=not own.lists_unavailable)
    return OVERVIEW_STATE.put(scene.state, own)
