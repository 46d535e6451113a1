"""Results of one run of the benchmarks, and the goals to compare them with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Literal

from msgspec import Struct

from bench.compare import GENERAL, JSON, ORJSON, OURS, PEER, Comparison
from bench.first_frame import FIRST_FRAME, ONE_METRIC, VERSION
from bench.growth import Opening, Point, bound_mib
from bench.inputs import Layout
from bench.keys import KeyRun
from bench.measure import Spread
from bench.metrics import ALL, FromStore
from bench.nsys import FirstMetric
from bench.rank_growth import StepCost


class OpeningTimes(Struct, frozen=True):
    """Seconds from the start of the explorer to states of its screen."""

    screen_s: float  # anything at all
    metric_s: float  # the first metric with a value
    all_s: float  # every rank is loaded
    line: str  # the row of the screen with the value


_FASTER = {ORJSON: (5.0, 3.0), PEER: (25.0, 10.0), GENERAL: (3.0, 3.0)}
"""Goals: ratio of CPU seconds to ccltui, on the profiler's layout and on the others."""
_FASTER_THAN_JSON: Final[Mapping[Layout, float]] = {
    "native": 10.0,
    "one_line": 10.0,
    "indent4": 10.0,
    "2020": 8.0,
}
_STARTS_S: Final = {FIRST_FRAME: 0.25, VERSION: 0.05, ONE_METRIC: 0.2}
_KERNEL_S = 0.15
_SECOND_OPENING_CPU_S = 0.3
_ALL_METRICS_CPU_S = 2.0
_FIRST_METRIC_S = 1.0
_WIDE = 200
_BYTES = {"lanes: pan": (8e3, 12e3), "lanes: zoom": (20e3, 45e3), "heat: zoom": (20e3, 45e3)}
_STEP_BYTES, _HELD_BYTES = 500, 100e3
_WORST_BYTES = (4e3, 8e3)
"""Bytes of the next worst collective; a wide screen has the lanes of its ranks below."""
_ROWS: Final = ("ranks: row", "files: row", "reports: row", "runs: row")
_ROW_BYTES = 1e3
"""Bytes of the next row of a list: two rows and the lines about the cursor change."""
_KEY_P95_MS, _OPENED_MS = 80, 50
"""Every kind of key; the median of those that open an inspector, a chain or a list."""
_OPENING: Final = ("inspector", "chain of a wait", "choose a rank")
_SPLASH_MS, _PAINT_MS, _P50_MS, _P95_MS, _LOADING_MS, _SETTLED_MS = 50, 300, 30, 60, 80, 100
_BYTES_AN_EVENT, _HEAT_MS = 12, 10
_MANY_EVENTS = 1_000_000
_NSYS_METRIC_S = 5.0
_NSYS_PEAK_MIB = 300.0


class Results(Struct, frozen=True):
    """Results of one run; parts that were not run are empty."""

    machine: Mapping[str, str | int]
    comparisons: tuple[Comparison, ...] = ()
    events: tuple[Point, ...] = ()
    ranks: tuple[Point, ...] = ()
    steps: Mapping[str, Sequence[StepCost]] | None = None  # by shape of the job
    openings: tuple[Opening, ...] = ()
    metrics: tuple[FromStore, ...] = ()
    starts: Mapping[str, Spread] | None = None  # CPU seconds
    kernels: Mapping[str, Spread] | None = None
    screens: Mapping[str, OpeningTimes] | None = None
    nsys: FirstMetric | None = None
    sessions: Mapping[str, KeyRun] | None = None
    heat: Spread | None = None


class Verdict(Struct, frozen=True):
    """A goal and the measured median."""

    subject: str
    goal: float
    measured: float
    unit: str
    better: Literal["more", "less"]

    @property
    def met(self) -> bool:
        """Whether the median is at least as good as the goal."""
        if self.better == "more":
            return self.measured >= self.goal
        return self.measured <= self.goal


def verdicts(results: Results) -> Iterator[Verdict]:
    """Yield a verdict for every goal whose figure was measured."""
    for comparison in results.comparisons:
        yield from _of_comparison(comparison)
    for point in results.events:
        subject = f"peak memory, {point.size_bytes / 1e9:.2f} GB"
        yield Verdict(subject, point.bound_mib, point.peak_mib.median, "MiB", "less")
    for opening in results.openings:
        if opening.how == "mapped":
            goal = _SECOND_OPENING_CPU_S
            yield Verdict("second opening of 8 ranks", goal, opening.cpu_s.median, "CPU-s", "less")
    for stored in results.metrics:
        cpu = stored.cpu_s[ALL].median
        yield Verdict(f"all metrics, {stored.title}", _ALL_METRICS_CPU_S, cpu, "CPU-s", "less")
    for name, goal in _STARTS_S.items() if results.starts else ():
        assert results.starts is not None
        yield Verdict(name, goal, results.starts[name].median, "CPU-s", "less")
    for name, spread in (results.kernels or {}).items():
        yield Verdict(f"{name} of 5 M intervals", _KERNEL_S, spread.median, "CPU-s", "less")
    for name, session in (results.sessions or {}).items():
        yield from _of_session(name, session)
    if results.heat is not None:
        subject = "heat of 1024 × 5,000, a frame"
        yield Verdict(subject, _HEAT_MS, results.heat.median, "CPU-ms", "less")
    for name, sight in (results.screens or {}).items():
        yield Verdict(f"first metric, {name}", _FIRST_METRIC_S, sight.metric_s, "s", "less")
    if results.nsys is not None:
        subject = f"nsys export of {results.nsys.size_bytes / 1e9:.2g} GB"
        wall, peak = results.nsys.wall_s.median, results.nsys.peak_mib.median
        yield Verdict(f"{subject}: first metric", _NSYS_METRIC_S, wall, "s", "less")
        yield Verdict(f"{subject}: peak memory", _NSYS_PEAK_MIB, peak, "MiB", "less")


def _of_session(name: str, run: KeyRun) -> Iterator[Verdict]:
    """Yield verdicts on the explorer; latency goals apply to the normal terminal size."""
    wide = run.columns >= _WIDE
    for kind, goals in _BYTES.items():
        most = run.keys[kind].bytes_most
        yield Verdict(f"{name}: {kind}", goals[wide] / 1e3, most / 1e3, "KB", "less")
    steps = max(run.keys[f"{chart}: cursor step"].bytes_most for chart in ("heat", "lanes"))
    yield Verdict(f"{name}: cursor step", _STEP_BYTES / 1e3, steps / 1e3, "KB", "less")
    # Of the heat map only: on the timeline the key jumps, and redraws all that is shown there.
    worst = run.keys["heat: next worst"].bytes_most
    yield Verdict(f"{name}: next worst", _WORST_BYTES[wide] / 1e3, worst / 1e3, "KB", "less")
    for kind in _ROWS:
        most = (run.keys | run.side)[kind].bytes_most
        yield Verdict(f"{name}: {kind}", _ROW_BYTES / 1e3, most / 1e3, "KB", "less")
    yield Verdict(f"{name}: idle", 0, run.idle_bytes, "B", "less")
    if wide:
        return
    pan = run.keys["lanes: pan"]
    yield Verdict(f"{name}: splash", _SPLASH_MS, run.splash_cpu_ms, "CPU-ms", "less")
    yield Verdict(f"{name}: first paint", _PAINT_MS, run.paint_cpu_ms, "CPU-ms", "less")
    yield Verdict(f"{name}: pan, p50", _P50_MS, pan.p50_ms, "ms", "less")
    yield Verdict(f"{name}: pan, p95", _P95_MS, pan.p95_ms, "ms", "less")
    for kind in _OPENING:
        yield Verdict(f"{name}: {kind}, p50", _OPENED_MS, run.keys[kind].p50_ms, "ms", "less")
    for kind, cost in (run.keys | run.side).items():
        if kind != "lanes: pan":  # it has a goal of its own
            yield Verdict(f"{name}: {kind}, p95", _KEY_P95_MS, cost.p95_ms, "ms", "less")
    yield Verdict(f"{name}: while loading, p95", _LOADING_MS, run.loading.p95_ms, "ms", "less")
    yield Verdict(f"{name}: held key", _HELD_BYTES / 1e3, run.held_bytes / 1e3, "KB", "less")
    yield Verdict(f"{name}: held key, settled", _SETTLED_MS, run.held_settled_ms, "ms", "less")
    if run.events >= _MANY_EVENTS:
        an_event = (run.resident_mib - run.empty_mib) * 2**20 / run.events
        yield Verdict(f"{name}: memory an event", _BYTES_AN_EVENT, an_event, "B", "less")


def _of_comparison(comparison: Comparison) -> Iterator[Verdict]:
    name = f"{comparison.family} {comparison.layout}"
    as_json = _FASTER_THAN_JSON[comparison.layout]
    for method, (native, older) in {JSON: (as_json, as_json), **_FASTER}.items():
        row = comparison.row(method)
        if row is not None and row.cpu_ratio is not None:
            goal = native if comparison.layout == "native" else older
            yield Verdict(f"{name}: {method}", goal, row.cpu_ratio.median, "×", "more")
    ours = comparison.row(OURS)
    if ours is not None and ours.peak_mib is not None:
        goal = bound_mib(comparison.events)
        yield Verdict(f"{name}: peak memory", goal, ours.peak_mib.median, "MiB", "less")
