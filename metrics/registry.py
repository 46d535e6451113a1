"""Built-in and third-party metrics by name.

Built-in metrics are listed in `metrics.catalog`. Those of other packages enter through the
entry-point group ``ccltui.metrics``; an entry names a `Metric`, or a function ``metric_cal`` of a
trace directory. Functions in files are added by `use_functions`. A metric that cannot be loaded is
listed with the reason, and the others still work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct
from msgspec.structs import replace

from ccltui.metrics.catalog import BUILT_IN, SEED
from ccltui.metrics.metric import Metric
from ccltui.parsers import plug_ins
from ccltui.parsers.plug_ins import Skipped

if TYPE_CHECKING:
    from ccltui.metrics.functions.function_metric import FunctionLimits, FunctionSource

SEED_ORDER: Final = tuple(line.rpartition(".")[2] for line in SEED)


class UnknownMetricError(KeyError):
    """No metric has this name or alias; the message lists near names."""

    def __init__(self, name: str, known: Iterable[str], broken: Iterable[Skipped] = ()) -> None:
        # Imported for the message alone: headless runs rarely need it.
        from difflib import get_close_matches  # noqa: PLC0415

        self.name = name
        self.known = tuple(known)
        self.skipped = tuple(one.text for one in broken if one.name == name)
        self.near = tuple(get_close_matches(name, self.known, n=3, cutoff=0.6))
        super().__init__(name)

    def __str__(self) -> str:
        if self.skipped:
            return self.skipped[0]
        near = f"; did you mean {' or '.join(self.near)}?" if self.near else ""
        return f"unknown metric {self.name!r}{near} (--list-metrics lists all)"


class Loaded(Struct, frozen=True):
    """The metrics that load, and those that do not, each with the reason."""

    metrics: Mapping[str, Metric]
    broken: tuple[Skipped, ...]


class Functions(Struct, frozen=True):
    """Functions in files that are metrics of this run, and how every function is run."""

    sources: tuple[FunctionSource, ...] = ()
    limits: FunctionLimits | None = None
    broken: tuple[tuple[str, str], ...] = ()


class _Source(Struct, frozen=True):
    """Definition of a metric: its name, its object as ``module:attribute``, and its import.

    ``load`` returns the object, or why there is none.
    ``distribution`` is the package that a plug-in comes from.
    """

    name: str
    value: str
    load: Callable[[], Any]
    distribution: str = ""

    def skipped(self, reason: str) -> Skipped:
        """Return that the metric is not used, with the reason."""
        return Skipped("metric", self.name, reason, self.distribution)


_functions = Functions()


def load() -> Loaded:
    """Load the built-in metrics, then those of installed packages by name."""
    found: dict[str, Metric] = {}
    broken: list[Skipped] = []
    names: set[str] = set()
    for source in (*_built_in(), *_third_party()):
        metric = _loaded(source)
        if isinstance(metric, Skipped):
            broken.append(metric)
            continue
        taken = names & {metric.name, *metric.aliases}
        if taken:
            broken.append(source.skipped(f"the name {sorted(taken)[0]!r} is already taken"))
            continue
        names |= {metric.name, *metric.aliases}
        found[metric.name] = metric
    for one in _of_files(names):
        found[one.name] = one
    of_files = (Skipped("metric", name, reason) for name, reason in _functions.broken)
    return Loaded(found, (*broken, *of_files))


def use_functions(functions: Functions) -> None:
    """Make functions in files metrics of this process, in place of those given before.

    Nothing of their code is run here. A function whose name a metric has is listed as
    ``NAME_file``.
    """
    global _functions  # noqa: PLW0603  (a process has one set of metrics, as of installed ones)
    _functions = functions
    _installed.cache_clear()


def names_of(sources: Iterable[FunctionSource]) -> tuple[str, ...]:
    """Names under which functions in use are listed, in the order of the sources."""
    wanted = list(sources)
    computes = {getattr(m.compute, "source", None): m.name for m in metrics().values()}
    return tuple(computes[one] for one in wanted)


def _built_in() -> list[_Source]:
    return [_source(line) for line in BUILT_IN]


def _source(line: str) -> _Source:
    """The metric of one line of the catalog: the object that has the name of its module."""
    module, name = f"ccltui.metrics.catalog.{line}", line.rpartition(".")[2]
    return _Source(name, f"{module}:{name}", partial(_imported, module, name))


def _imported(module: str, name: str) -> Any:
    """The object of a built-in metric, or the reason why its module cannot be imported."""
    try:
        return getattr(import_module(module), name)
    except Exception as error:
        return Skipped("metric", name, f"{module}: {type(error).__name__}: {error}")


def _third_party() -> list[_Source]:
    return [
        _Source(one.name, one.value, partial(plug_ins.loaded, one), one.distribution)
        for one in plug_ins.installed(plug_ins.METRICS)
    ]


def _of_function(source: _Source) -> Metric:
    """The metric of an installed function."""
    # Imported here, as below: hardly any run has functions.
    from ccltui.metrics.functions.function_metric import (  # noqa: PLC0415
        FunctionSource,
        metric_of,
    )

    function = FunctionSource(source.name, "installed", source.value, source.value)
    return metric_of(source.name, function, _limits())


def _of_files(taken: set[str]) -> list[Metric]:
    """Metrics of the functions in files, under names that are not taken."""
    if not _functions.sources:
        return []
    from ccltui.metrics.functions.function_metric import metric_of  # noqa: PLC0415

    names = set(taken)
    found = []
    for source in _functions.sources:
        candidates = (source.name, *(f"{source.name}_file{n or ''}" for n in (0, *range(2, 1000))))
        name = next(name for name in candidates if name not in names)
        names.add(name)
        found.append(metric_of(name, source, _limits()))
    return found


def _limits() -> FunctionLimits:
    from ccltui.metrics.functions.function_metric import FunctionLimits  # noqa: PLC0415

    return _functions.limits or FunctionLimits()


def _loaded(source: _Source) -> Metric | Skipped:
    """The metric, or the reason why it cannot be loaded."""
    metric = source.load()
    if isinstance(metric, Skipped):
        return metric
    if callable(metric) and not isinstance(metric, type):
        return _of_function(source)
    if not isinstance(metric, Metric):
        return source.skipped(f"{source.value} is a {type(metric).__name__}, not a Metric")
    if not isinstance(metric.keys, tuple) or metric.headline not in metric.keys:
        reason = f"{source.value}: its headline {metric.headline!r} is none of its keys"
        return source.skipped(reason)
    return replace(metric, origin=source.distribution) if source.distribution else metric


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


def broken() -> tuple[Skipped, ...]:
    """Every metric that could not be loaded, with the reason."""
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
    raise UnknownMetricError(name, known, broken())
