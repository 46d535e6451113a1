"""Find what a path holds to compare: runs, a benchmark, texts of nsys or traces.

Sides of one kind are compared here, but traces, which have to be loaded first.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from ccltui.metrics.cluster.cluster_files import read_cluster
from ccltui.metrics.cluster.plausibility import hosts_of, label_of, name_of
from ccltui.metrics.compare.comparable import Check, Comparability, comparability
from ccltui.metrics.compare.compare_profiles import ProfileComparison, compare_profiles, profile
from ccltui.metrics.compare.compare_runs import Comparison, Row, compare, judged
from ccltui.metrics.compare.spread import Sample, half_width
from ccltui.metrics.runs.run_files import Run, read_runs
from ccltui.parsers.discovery.discover import discover
from ccltui.parsers.errors import NotFoundError
from ccltui.parsers.names import listed, printable
from ccltui.parsers.nsys import NSYS_TEXT, NSYS_TEXT_TRACE

if TYPE_CHECKING:
    from ccltui.parsers.cluster.benchmark_yaml import ClusterBenchmark, Measurement
    from ccltui.parsers.found_files import Discovery
    from ccltui.parsers.nsys.text_reports.typed_table import StatsText


_LOWER_IS_BETTER: Final = frozenset({"network_latency"})
_Key = tuple[str, str, str]


def compare_benchmarks(
    a: ClusterBenchmark, b: ClusterBenchmark, *, runs_vary_pct: float | None = None
) -> Comparison:
    """Compare every value that one of two benchmarks has.

    Devices of one host are matched by their number. The samples of a value are of one benchmark:
    without ``runs_vary_pct``, by how many percent two benchmarks of one machine differ, no
    difference is called better or worse.
    """
    found = Comparability(tuple(_checks(a, b)))
    of_a, of_b = _by_key(a), _by_key(b)
    either = {**of_b, **of_a}
    rows = [
        _row(either[key], (of_a.get(key), of_b.get(key)), found, runs_vary_pct)
        for key in {**of_a, **of_b}
    ]
    return Comparison(
        (a.path,), (b.path,), found, tuple(rows), ranked=False, runs_vary_pct=runs_vary_pct
    )


def _by_key(benchmark: ClusterBenchmark) -> dict[_Key, Measurement]:
    return {
        (one.id or f"{one.category}, {one.test}", name_of(one), one.unit): one
        for one in benchmark.measurements
    }


def _checks(a: ClusterBenchmark, b: ClusterBenchmark) -> list[Check]:
    pairs = {
        "gpu": (a.gpu_name, b.gpu_name),
        "device": (a.device, b.device),
        "backend": (a.backend, b.backend),
        "ranks": (_text(a.world_size or _ranks(a)), _text(b.world_size or _ranks(b))),
        "hosts": (_text(hosts_of(a)), _text(hosts_of(b))),
    }
    checks = [Check(name, of_a, of_b, required=True) for name, (of_a, of_b) in pairs.items()]
    versions = [
        ", ".join(f"{name} {text}" for name, text in sorted(one.versions.items())) for one in (a, b)
    ]
    return [*checks, Check("versions", versions[0], versions[1], required=False)]


def _ranks(benchmark: ClusterBenchmark) -> int | None:
    return max((one.ranks or 0 for one in benchmark.measurements), default=0) or None


def _text(value: int | None) -> str:
    return "" if value is None else str(value)


def _row(
    either: Measurement,
    sides: tuple[Measurement | None, Measurement | None],
    found: Comparability,
    runs_vary_pct: float | None,
) -> Row:
    a, b = sides
    samples = [Sample(one.samples, "samples") for one in (a, b) if one is not None and one.samples]
    half = half_width(*samples) if len(samples) == 2 else None
    row = Row(
        name=label_of(either),
        unit=either.unit,
        a=None if a is None else a.value,
        b=None if b is None else b.value,
        verdict="",
        note="",
        higher_is_better=either.id not in _LOWER_IS_BETTER,
        half_width=half,
        spread=""
        if half is None
        else " against ".join(f"{len(s.values)} samples" for s in samples),
    )
    if row.delta is None or row.a is None:
        missing = "A" if row.a is None else "B"
        return replace(row, verdict="not comparable", note=f"{missing} does not state it")
    if found.why_not:
        return replace(row, verdict="not comparable", note=found.why_not)
    verdict, note = judged(row, runs_vary_pct, is_one_run=True)
    return replace(row, verdict=verdict, note=note)


class Side(Struct, frozen=True):
    """One side of a comparison: repetitions of a run, or a benchmark where there is no run.

    ``texts`` are those of nsys stats, of runs or alone. ``has_traces`` is set where ranks can be
    opened from more than printed text.
    """

    path: str
    runs: tuple[Run, ...] = ()
    benchmark: ClusterBenchmark | None = None
    texts: tuple[StatsText, ...] = ()
    has_traces: bool = False


def are_jobs(a: Side, b: Side) -> bool:
    """Return whether the traces of two sides are to be compared: not both are of another kind."""
    both_runs = bool(a.runs and b.runs)
    both_benchmarks = a.benchmark is not None and b.benchmark is not None
    return a.has_traces and b.has_traces and not both_runs and not both_benchmarks


def side(path: str | Path) -> Side:
    """Return the runs, the benchmark or the texts below a path, and whether it holds traces.

    Several runs are repetitions where they agree in all properties that must be equal, and in
    their commit.

    Raises:
        NotFoundError: there is nothing to compare, or there are several runs that differ.
    """
    where = printable(str(path))
    discovery = discover(path)
    traces = _has_traces(discovery)
    runs = read_runs(discovery)
    if not runs:
        benchmarks = read_cluster(discovery).benchmarks
        if len(benchmarks) == 1:
            return Side(str(path), benchmark=benchmarks[0], has_traces=traces)
        if benchmarks and not traces:
            names = listed([one.path for one in benchmarks])
            raise NotFoundError(f"several benchmarks; name one: {names}", path=where)
        texts = _texts(discovery)
        if texts or traces:
            return Side(str(path), texts=texts, has_traces=traces)
        message = "no traces, no run, no cluster benchmark and no text of nsys stats here"
        raise NotFoundError(message, path=where)
    _check_repeats(runs, where)
    texts = tuple(text for run in runs for text in run.stats)
    return Side(str(path), runs=runs, texts=texts, has_traces=traces)


def _check_repeats(runs: Sequence[Run], where: str) -> None:
    """Raise NotFoundError where runs do not repeat one another."""
    for other in runs[1:]:
        found = comparability(runs[0], other)
        commits = runs[0].git_commit, other.git_commit
        if found.differences or commits[0] != commits[1]:
            why = found.why_not or "different commits"
            names = listed([run.name for run in runs])
            message = f"{len(runs)} runs that do not repeat one another ({why}); name one: {names}"
            raise NotFoundError(message, path=where)


def _has_traces(discovery: Discovery) -> bool:
    printed = NSYS_TEXT_TRACE.kind
    return any(file.kind != printed for one in discovery.captures for file in one.files)


def _texts(discovery: Discovery) -> tuple[StatsText, ...]:
    """Texts with a table; raises TraceError for one that cannot be read."""
    from ccltui.parsers.nsys.text_reports.stats_text import read_stats_text  # noqa: PLC0415 - few have any

    files = [file for file in discovery.files_of(NSYS_TEXT) if file.problem is None]
    texts = [read_stats_text(Path(file.real_path), shown=file.path) for file in files]
    return tuple(text for text in texts if text.tables)


def with_runs(first: Side, others: Sequence[Side]) -> Side:
    """Return a side with the runs of further paths, which repeat those of the first.

    Raises:
        NotFoundError: a path holds no run, or one of another kind than the first.
    """
    runs = list(first.runs)
    known = {Path(first.path).resolve()}
    for other in others:
        if not first.runs or not other.runs:
            message = (
                f"{_held(other)} here, and the first is {_held(first)}: further runs of a side are "
                "run directories or traces, as the first"
            )
            raise NotFoundError(message, path=printable(other.path))
        if Path(other.path).resolve() in known:
            message = "this run is named twice for one side"
            raise NotFoundError(message, path=printable(other.path))
        known.add(Path(other.path).resolve())
        runs += other.runs
    _check_repeats(runs, printable(first.path))
    return replace(first, runs=tuple(runs))


def compare_sides(
    a: Side, b: Side, *, runs_vary_pct: float | None = None
) -> Comparison | ProfileComparison:
    """Compare runs with runs, benchmarks, or texts of nsys where a side has no run.

    Args:
        a: the first side.
        b: the second side.
        runs_vary_pct: by how many percent two runs of one command differ, where it is known.

    Raises:
        NotFoundError: one side has runs and the other has none.
    """
    if a.runs and b.runs:
        return compare(a.runs, b.runs, runs_vary_pct=runs_vary_pct)
    if a.texts and b.texts:
        sides = [profile(Path(one.path).name or one.path, one.texts) for one in (a, b)]
        return compare_profiles(*sides, runs_vary_pct=runs_vary_pct)
    if a.benchmark is None or b.benchmark is None:
        raise _unlike(a, b)
    return compare_benchmarks(a.benchmark, b.benchmark, runs_vary_pct=runs_vary_pct)


def _unlike(a: Side, b: Side) -> NotFoundError:
    """Error for sides of different kinds, about the one without a run."""
    lacking, other, name = (a, b, "B") if not a.runs else (b, a, "A")
    return NotFoundError(
        f"{_held(lacking)} here, and {name} is {_held(other)}: both must hold traces, runs, "
        "cluster benchmarks or texts of nsys stats",
        path=printable(lacking.path),
    )


def _held(side: Side) -> str:
    if side.runs:
        return "a run"
    if side.benchmark is not None:
        return "a cluster benchmark"
    return "traces" if side.has_traces else "a profile"
