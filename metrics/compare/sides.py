"""Find the runs, the benchmark or the texts of nsys below a path, and compare two such sides."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ccltui.metrics.cluster.cluster_files import read_cluster
from ccltui.metrics.compare.comparable import comparability
from ccltui.metrics.compare.compare_benchmarks import compare_benchmarks
from ccltui.metrics.compare.compare_profiles import ProfileComparison, compare_profiles, profile
from ccltui.metrics.compare.compare_runs import Comparison, compare
from ccltui.metrics.runs.run_files import Run, read_runs
from ccltui.parsers.discovery.discover import discover
from ccltui.parsers.errors import NotFoundError
from ccltui.parsers.names import listed, printable
from ccltui.parsers.nsys import NSYS_TEXT

if TYPE_CHECKING:
    from ccltui.parsers.cluster.benchmark_yaml import ClusterBenchmark
    from ccltui.parsers.found_files import Discovery
    from ccltui.parsers.nsys.text_reports.typed_table import StatsText


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a comparison: repetitions of a run, or a benchmark where there is no run.

    ``texts`` are those of nsys stats, of runs or alone.
    """

    path: str
    runs: tuple[Run, ...] = ()
    benchmark: ClusterBenchmark | None = None
    texts: tuple[StatsText, ...] = ()


def side(path: str | Path) -> Side:
    """Return the runs, or the benchmark, below a path.

    Several runs are repetitions where they agree in all properties that must be equal, and in
    their commit.

    Raises:
        NotFoundError: there is no run and no benchmark, or there are several that differ.
    """
    where = printable(str(path))
    discovery = discover(path)
    runs = read_runs(discovery)
    if not runs:
        benchmarks = read_cluster(discovery).benchmarks
        if len(benchmarks) == 1:
            return Side(str(path), benchmark=benchmarks[0])
        if benchmarks:
            names = listed([one.path for one in benchmarks])
            raise NotFoundError(f"several benchmarks; name one: {names}", path=where)
        texts = _texts(discovery)
        if texts:
            return Side(str(path), texts=texts)
        message = "no run, no cluster benchmark and no text of nsys stats here"
        if discovery.captures:
            message += "; traces are compared by ccltui B --metric run_compare --set against=A"
        raise NotFoundError(message, path=where)
    for other in runs[1:]:
        found = comparability(runs[0], other)
        commits = runs[0].git_commit, other.git_commit
        if found.differences or commits[0] != commits[1]:
            why = found.why_not or "different commits"
            names = listed([run.name for run in runs])
            message = f"{len(runs)} runs that do not repeat one another ({why}); name one: {names}"
            raise NotFoundError(message, path=where)
    return Side(str(path), runs=runs, texts=tuple(text for run in runs for text in run.stats))


def _texts(discovery: Discovery) -> tuple[StatsText, ...]:
    """Texts with a table; raises TraceError for one that cannot be read."""
    from ccltui.parsers.nsys.text_reports.stats_text import read_stats_text  # noqa: PLC0415 - few have any

    files = [file for file in discovery.files_of(NSYS_TEXT) if file.problem is None]
    texts = [read_stats_text(Path(file.real_path), shown=file.path) for file in files]
    return tuple(text for text in texts if text.tables)


def compare_sides(a: Side, b: Side, *, noise_pct: float) -> Comparison | ProfileComparison:
    """Compare runs with runs, benchmarks, or texts of nsys where a side has no run.

    Args:
        a: the first side.
        b: the second side.
        noise_pct: difference in percent that is not distinguishable where the spread is unknown.

    Raises:
        NotFoundError: one side has runs and the other has none.
    """
    if a.runs and b.runs:
        return compare(a.runs, b.runs, noise_pct=noise_pct)
    if a.texts and b.texts:
        sides = [profile(Path(one.path).name or one.path, one.texts) for one in (a, b)]
        return compare_profiles(*sides, noise_pct=noise_pct)
    if a.benchmark is None or b.benchmark is None:
        raise _unlike(a, b)
    return compare_benchmarks(a.benchmark, b.benchmark, noise_pct=noise_pct)


def _unlike(a: Side, b: Side) -> NotFoundError:
    """Error for sides of different kinds, about the one without a run."""
    lacking, other, name = (a, b, "B") if not a.runs else (b, a, "A")
    held = "a run" if other.runs else "a cluster benchmark" if other.benchmark else "a profile"
    return NotFoundError(
        f"no run here, and {name} is {held}: texts of nsys stats on both sides would be compared",
        path=printable(lacking.path),
    )
