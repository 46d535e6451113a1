"""Built-in and third-party metrics by name.

Built-in metrics are listed in `metrics.catalog`. Those of other packages enter through the
entry-point group ``ccltui.metrics``; an entry names a `Metric`. A metric that cannot be loaded is
listed with the reason, and the others still work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from ccltui.metrics.catalog import BUILT_IN, SEED
from ccltui.metrics.metric import Metric

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

ENTRY_POINTS: Final = "ccltui.metrics"
SEED_ORDER: Final = tuple(line.rpartition(".")[2] for line in SEED)


class UnknownMetricError(KeyError):
    """No metric has this name or alias; the message lists near names."""

    def __init__(self, name: str, known: Iterable[str]) -> None:
        # Imported for the message alone: headless runs rarely need it.
        from difflib import get_close_matches  # noqa: PLC0415

        self.name = name
        self.known = tuple(known)
        self.near = tuple(get_close_matches(name, self.known, n=3, cutoff=0.5))
        super().__init__(name)

    def __str__(self) -> str:
        near = f"did you mean {' or '.join(self.near)}? " if self.near else ""
        return f"unknown metric {self.name!r}: {near}there are {', '.join(self.known)}"


class Loaded(Struct, frozen=True):
    """The metrics that load, and the name and reason of those that do not."""

    metrics: Mapping[str, Metric]
    broken: tuple[tuple[str, str], ...]


class _Source(Struct, frozen=True):
    """Definition of a metric: its name, its object as ``module:attribute``, and its import."""

    name: str
    value: str
    load: Callable[[], Any]


def load(entries: Iterable[EntryPoint] | None = None) -> Loaded:
    """Load the built-in metrics, then those of other packages by name.

    Args:
        entries: Entry points of other packages; those installed where None.
    """
    found: dict[str, Metric] = {}
    broken: list[tuple[str, str]] = []
    names: set[str] = set()
    for source in (*_built_in(), *_third_party(entries)):
        metric = _loaded(source)
        if isinstance(metric, str):
            broken.append((source.name, metric))
            continue
        taken = names & {metric.name, *metric.aliases}
        if taken:
            broken.append((source.name, f"the name {sorted(taken)[0]!r} is already taken"))
            continue
        names |= {metric.name, *metric.aliases}
        found[metric.name] = metric
    return Loaded(found, tuple(broken))


def _built_in() -> list[_Source]:
    return [_source(line) for line in BUILT_IN]


def _source(line: str) -> _Source:
    """The metric of one line of the catalog: the object that has the name of its module."""
    module, name = f"ccltui.metrics.catalog.{line}", line.rpartition(".")[2]
    return _Source(name, f"{module}:{name}", lambda: getattr(import_module(module), name))


def _third_party(entries: Iterable[EntryPoint] | None) -> list[_Source]:
    if entries is None:
        # 38 ms, and a built-in metric is found without it.
        from importlib.metadata import entry_points  # noqa: PLC0415

        entries = entry_points(group=ENTRY_POINTS)
    unique = dict.fromkeys(entries)  # an editable install may list a distribution twice
    in_order = sorted(unique, key=lambda entry: entry.name)
    return [_Source(entry.name, entry.value, entry.load) for entry in in_order]


def _loaded(source: _Source) -> Metric | str:
    """The metric, or the reason why it cannot be loaded."""
    try:
        metric = source.load()
    except Exception as error:
        return f"{source.value}: {type(error).__name__}: {error}"
    if not isinstance(metric, Metric):
        return f"{source.value} is a {type(metric).__name__}, not a Metric"
    if metric.headline not in metric.keys:
        return f"{source.value}: its headline {metric.headline!r} is none of its keys"
    return metric


@cache
def _installed() -> Loaded:
    return load()


@cache
def _built_in_metric(name: str) -> Metric | None:
    """The built-in metric of a name; it precedes a third-party metric of the same name."""
    line = next((line for line in BUILT_IN if line.endswith(f".{name}")), None)
    metric = None if line is None else _loaded(_source(line))
    return metric if isinstance(metric, Metric) else None


def metrics() -> Mapping[str, Metric]:
    """Installed metrics by name: the built-in ones in the order of the catalog, then the others."""
    return _installed().metrics


def broken() -> tuple[tuple[str, str], ...]:
    """Name and reason of every metric that could not be loaded."""
    return _installed().broken


def find(name: str) -> Metric:
    """Return the metric of a name or alias.

    A built-in metric is found without importing the others: that import takes longer than
    computing many a metric.

    Raises:
        UnknownMetricError: No metric has this name; near names are listed.
    """
    built_in = _built_in_metric(name)
    if built_in is not None:
        return built_in
    known = metrics()
    if name in known:
        return known[name]
    for metric in known.values():
        if name in metric.aliases:
            return metric
    raise UnknownMetricError(name, known)
