"""Which metrics there are, and the one way to run one.

Built-in metrics enter through the entry-point group ``ccltui.metrics``, as those of other
packages do. An entry names a `Metric`; one that cannot be loaded is listed, never fatal.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any, Final

from ccltui.metrics.rank_coverage import covered
from ccltui.metrics.result import Reason, Result
from ccltui.metrics.unavailable import Refusal
from ccltui.metrics.view.data_quality import refusal_reasons
from ccltui.metrics.view.provenance import inputs_of, require_traces
from ccltui.parsers.errors import internal_error

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View

ENTRY_POINTS: Final = "ccltui.metrics"
SEED_ORDER: Final = (
    "coll_call_num",
    "throughput_tokens",
    "iter_time",
    "comm_comp_overlap",
    "pipeline_bubble",
    "traffic_distribution",
    "straggler_lag",
)


class UnknownMetricError(KeyError):
    """No metric has this name or alias; lists those that come near."""

    def __init__(self, name: str, known: Iterable[str]) -> None:
        self.name = name
        self.known = tuple(known)
        self.near = tuple(difflib.get_close_matches(name, self.known, n=3, cutoff=0.5))
        super().__init__(name)

    def __str__(self) -> str:
        near = f"did you mean {' or '.join(self.near)}? " if self.near else ""
        return f"unknown metric {self.name!r}: {near}there are {', '.join(self.known)}"


@dataclass(frozen=True)
class Metric:
    """A quantity with a name, and how to compute it from a view of a job."""

    name: str
    unit: str
    definition: str  # one sentence: what, and over what
    needs: tuple[str, ...]  # plain words: "GPU kernels", "step markers", "workload card"
    keys: tuple[str, ...]  # top-level keys of its details, null when unavailable
    headline: str  # the key that is the result's value
    compute: Callable[[View], Result]
    aliases: tuple[str, ...] = ()
    label: str = ""  # short title; the name where empty
    higher_is_better: bool | None = None
    category: str = ""  # what it belongs to in a table of many: "time", "communication", …
    needs_traces: bool = True  # False: side files may answer without any trace
    parameters: Mapping[str, str] = field(default_factory=dict)  # overrides it takes, and meanings
    lists_measured: bool = True  # False: its ``per_rank`` has only ranks with something to say

    @property
    def title(self) -> str:
        """What to call the metric on a screen."""
        return self.label or self.name.replace("_", " ")

    @property
    def display(self) -> Mapping[str, str | bool | None]:
        """How to show the value in a table of many metrics."""
        return {
            "label": self.title,
            "unit": self.unit,
            "higher_is_better": self.higher_is_better,
            "category": self.category,
        }

    def run(self, view: View) -> Result:
        """The metric under a view; a refusal or a failure is a result too, with its reason."""
        try:
            if self.needs_traces:
                require_traces(view)
            result = self.compute(view)
            return covered(result, view, lists_measured=self.lists_measured)
        except Refusal as refusal:
            return self._unavailable(view, refusal_reasons(view, refusal.reasons))
        except Exception as error:
            reason = Reason("internal_error", internal_error(error))
            return self.unavailable(reason, inputs=_inputs(view))

    def unavailable(self, *reasons: Reason, inputs: Mapping[str, Any] | None = None) -> Result:
        """The result that says why there is none, every key null."""
        return Result(
            metric=self.name,
            unit=self.unit,
            definition=self.definition,
            status="unavailable",
            value=None,
            details=dict.fromkeys(self.keys),
            reasons=reasons,
            inputs=inputs or {},
        )

    def _unavailable(self, view: View, reasons: Iterable[Reason]) -> Result:
        return self.unavailable(*reasons, inputs=inputs_of(view))


def _inputs(view: View) -> Mapping[str, Any]:
    """The inputs of a view in which something is broken already, {} where they are too."""
    try:
        return inputs_of(view)
    except Exception:
        return {}


@dataclass(frozen=True)
class Loaded:
    """The metrics that load, and the entries that do not with the reason."""

    metrics: Mapping[str, Metric]
    broken: tuple[tuple[str, str], ...]


def load(entries: Iterable[EntryPoint] | None = None) -> Loaded:
    """Load every entry point (those installed, unless given): seed metrics first, then by name."""
    found: dict[str, Metric] = {}
    broken: list[tuple[str, str]] = []
    names: set[str] = set()
    for entry in _ordered(entry_points(group=ENTRY_POINTS) if entries is None else entries):
        metric = _loaded(entry)
        if isinstance(metric, str):
            broken.append((entry.name, metric))
            continue
        taken = names & {metric.name, *metric.aliases}
        if taken:
            broken.append((entry.name, f"the name {sorted(taken)[0]!r} is already taken"))
            continue
        names |= {metric.name, *metric.aliases}
        found[metric.name] = metric
    return Loaded(found, tuple(broken))


def _ordered(entries: Iterable[EntryPoint]) -> list[EntryPoint]:
    seed = {name: index for index, name in enumerate(SEED_ORDER)}
    unique = dict.fromkeys(entries)  # an editable install may list a distribution twice
    return sorted(
        unique,
        key=lambda e: (
            not e.value.startswith("ccltui.metrics."),
            seed.get(e.name, len(seed)),
            e.name,
        ),
    )


def _loaded(entry: EntryPoint) -> Metric | str:
    """The metric of an entry point, or why there is none."""
    try:
        metric = entry.load()
    except Exception as error:
        return f"{entry.value}: {type(error).__name__}: {error}"
    if not isinstance(metric, Metric):
        return f"{entry.value} is a {type(metric).__name__}, not a Metric"
    if metric.headline not in metric.keys:
        return f"{entry.value}: its headline {metric.headline!r} is none of its keys"
    return metric


@cache
def _installed() -> Loaded:
    return load()


@cache
def _own(name: str) -> Metric | None:
    """The built-in metric of a name; nobody else's goes before it."""
    entries = entry_points(group=ENTRY_POINTS, name=name)
    loaded = [_loaded(entry) for entry in entries if entry.value.startswith("ccltui.metrics.")]
    return next((one for one in loaded if isinstance(one, Metric) and one.name == name), None)


def metrics() -> Mapping[str, Metric]:
    """Installed metrics by name: those of the seed in its order, then the others by name."""
    return _installed().metrics


def broken() -> tuple[tuple[str, str], ...]:
    """Entries that could not be loaded: name and reason."""
    return _installed().broken


def find(name: str) -> Metric:
    """Metric of a name or alias. Raises UnknownMetricError with near names.

    One of our own is found without importing the others, which takes longer than many a metric.
    """
    own = _own(name)
    if own is not None:
        return own
    known = metrics()
    if name in known:
        return known[name]
    for metric in known.values():
        if name in metric.aliases:
            return metric
    raise UnknownMetricError(name, known)
