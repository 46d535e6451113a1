"""Format results as aligned text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bench.compare import Comparison, Row
from bench.growth import Opening, Point
from bench.keys import KeyRun
from bench.measure import Spread
from bench.metrics import FromStore
from bench.nsys import METRIC, FirstMetric
from bench.rank_growth import exponents_text
from bench.results import Results, Verdict, verdicts

_ABSENT = "-"


def text_of(results: Results) -> str:
    """Return the whole report."""
    parts = [_machine(results)]
    parts += [_comparison(comparison) for comparison in results.comparisons]
    if results.events:
        parts.append(_points("growth with events (one rank, ccltui)", "events", results.events))
    if results.ranks:
        parts.append(_points("growth with ranks (through the store)", "ranks", results.ranks))
    for shape, steps in (results.steps or {}).items():
        parts.append(exponents_text(shape, steps))
    if results.openings:
        parts.append(_openings(results.openings))
    parts += [_metrics(stored) for stored in results.metrics]
    if results.starts:
        rows = [(name, _seconds(spread)) for name, spread in results.starts.items()]
        parts.append(_titled("from the start of the process, CPU-s", ("until", "CPU-s"), rows))
    if results.kernels:
        rows = [(name, _seconds(spread)) for name, spread in results.kernels.items()]
        parts.append(_titled("interval kernels, CPU-s", ("kernel", "CPU-s"), rows))
    if results.screens:
        sights = [
            (name, f"{sight.screen_s:.2f}", f"{sight.metric_s:.2f}", f"{sight.all_s:.2f}")
            for name, sight in results.screens.items()
        ]
        head = ("opening", "screen", "first metric", "all ranks")
        parts.append(_titled("seconds from the start of the explorer", head, sights))
    if results.nsys is not None:
        parts.append(_nsys(results.nsys))
    for name, session in (results.sessions or {}).items():
        parts.append(_session(name, session))
    found_verdicts = list(verdicts(results))
    if found_verdicts:
        parts.append(_verdicts(found_verdicts))
    return "\n\n".join(parts) + "\n"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return rows as text: columns as wide as their cells, the first left, others right."""
    lines = [tuple(head), *(tuple(row) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if column else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def _machine(results: Results) -> str:
    return ", ".join(f"{key} {value}" for key, value in results.machine.items())


def _comparison(comparison: Comparison) -> str:
    size = f"{comparison.size_bytes / 1e6:.0f} MB, {comparison.events:,} events"
    title = f"{comparison.family} {comparison.layout}: {size}"
    head = ("method", "CPU-s", "wall s", "peak MiB", "CPU ratio", "memory ratio", "MB/CPU-s")
    rows = [_row(row, comparison.size_bytes) for row in comparison.rows]
    absent = [f"{row.method}: {row.problem}" for row in comparison.rows if row.problem]
    text = _titled(title, head, [row for row in rows if row])
    return "\n".join([text, *absent])


def _row(row: Row, size_bytes: int) -> tuple[str, ...]:
    if row.cpu_s is None or row.wall_s is None or row.peak_mib is None:
        return ()
    assert row.cpu_ratio is not None
    assert row.peak_ratio is not None
    return (
        row.method,
        _seconds(row.cpu_s),
        f"{row.wall_s.median:.2f}",
        f"{row.peak_mib.median:.0f}",
        _ratio(row.cpu_ratio),
        f"{row.peak_ratio.median:.2f}",
        f"{size_bytes / 1e6 / row.cpu_s.median:.0f}",
    )


def _points(title: str, size: str, points: Sequence[Point]) -> str:
    first = points[0]
    rows = [
        (
            f"{point.size:,}",
            _seconds(point.cpu_s),
            f"{point.wall_s.median:.2f}",
            f"{point.cpu_s.median / point.events / (first.cpu_s.median / first.events):.2f}",
            f"{point.peak_mib.median:.0f}",
            f"{point.bound_mib:.0f}" if point.bound_mib else _ABSENT,
        )
        for point in points
    ]
    head = (size, "CPU-s", "wall s", "CPU an event, first = 1", "peak MiB", "bound MiB")
    return _titled(title, head, rows)


def _session(name: str, run: KeyRun) -> str:
    rows = [
        (
            kind,
            f"{cost.bytes_median:.0f}",
            f"{cost.bytes_most}",
            f"{cost.p50_ms:.0f}",
            f"{cost.p95_ms:.0f}",
            f"{cost.cpu_ms:.0f}",
        )
        for kind, cost in {"while loading": run.loading, **run.keys, **run.side}.items()
    ]
    head = ("key", "bytes", "most", "p50 ms", "p95 ms", "CPU ms")
    memory = (
        f"{run.resident_mib:.0f} MiB resident, {run.of_files_mib:.0f} of it pages of files; "
        f"{run.empty_mib:.0f} MiB without a trace"
    )
    return "\n".join([_titled(f"explorer, {name}", head, rows), memory])


def _openings(openings: Sequence[Opening]) -> str:
    rows = [
        (
            opening.how,
            _seconds(opening.cpu_s),
            f"{opening.wall_s.median:.2f}",
            f"{opening.peak_mib.median:.0f}",
        )
        for opening in openings
    ]
    head = ("columns", "CPU-s", "wall s", "peak MiB")
    return _titled("second opening of 8 ranks, whole process", head, rows)


def _metrics(stored: FromStore) -> str:
    rows = [
        (
            name,
            _seconds(cpu),
            f"{stored.wall_s[name].median:.2f}",
            f"{stored.peak_mib[name].median:.0f}",
        )
        for name, cpu in stored.cpu_s.items()
    ]
    title = f"metrics from the store, {stored.title}, whole processes"
    return _titled(title, ("metric", "CPU-s", "wall s", "peak MiB"), rows)


def _nsys(found: FirstMetric) -> str:
    row = (
        f"{found.size_bytes / 1e9:.2f} GB",
        _seconds(found.cpu_s),
        f"{found.wall_s.median:.2f}",
        f"{found.peak_mib.median:.0f}",
    )
    title = f"{METRIC} of an nsys export, without a cache, whole processes"
    return _titled(title, ("export", "CPU-s", "wall s", "peak MiB"), [row])


def _verdicts(found_verdicts: Sequence[Verdict]) -> str:
    rows = [
        (
            verdict.subject,
            ("≥ " if verdict.better == "more" else "≤ ") + f"{verdict.goal:g} {verdict.unit}",
            f"{verdict.measured:.3g} {verdict.unit}",
            "met" if verdict.met else "missed",
        )
        for verdict in found_verdicts
    ]
    return _titled("goals", ("subject", "goal", "measured", ""), rows)


def _titled(title: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return f"{title}\n{table(head, rows)}"


def _seconds(spread: Spread) -> str:
    return f"{spread.median:.3g} ({spread.low:.3g}–{spread.high:.3g})"


def _ratio(spread: Spread) -> str:
    return f"{spread.median:.1f} ({spread.low:.1f}–{spread.high:.1f})"
