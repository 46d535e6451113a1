"""Find the runs or the benchmark below a path, and compare two such sides."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ccltui.metrics.cluster.cluster_files import read_cluster
from ccltui.metrics.compare.comparable import comparability
from ccltui.metrics.compare.compare_benchmarks import compare_benchmarks
from ccltui.metrics.compare.compare_runs import Comparison, compare
from ccltui.metrics.runs.run_files import Run, read_runs
from ccltui.parsers.discovery.discover import discover
from ccltui.parsers.errors import NotFoundError
from ccltui.parsers.names import listed, printable

if TYPE_CHECKING:
    from ccltui.parsers.cluster.benchmark_yaml import ClusterBenchmark


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a comparison: repetitions of a run, or a benchmark where there is no run."""

    path: str
    runs: tuple[Run, ...] = ()
    benchmark: ClusterBenchmark | None = None


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
        raise NotFoundError("no run and no cluster benchmark here", path=where)
    for other in runs[1:]:
        found = comparability(runs[0], other)
        commits = runs[0].git_commit, other.git_commit
        if found.differences or commits[0] != commits[1]:
            why = found.why_not or "different commits"
            names = listed([run.name for run in runs])
            message = f"{len(runs)} runs that do not repeat one another ({why}); name one: {names}"
            raise NotFoundError(message, path=where)
    return Side(str(path), runs=runs)


def compare_sides(a: Side, b: Side, *, noise_pct: float) -> Comparison:
    """Compare runs with runs, or a benchmark with a benchmark.

    Args:
        a: the first side.
        b: the second side.
        noise_pct: difference in percent that is not distinguishable where the spread is unknown.

    Raises:
        NotFoundError: one side has runs and the other has none.
    """
    if a.runs and b.runs:
        return compare(a.runs, b.runs, noise_pct=noise_pct)
    if a.benchmark is None or b.benchmark is None:
        lacking, other = (a, "B") if not a.runs else (b, "A")
        raise NotFoundError(f"no run here, and {other} is one", path=printable(lacking.path))
    return compare_benchmarks(a.benchmark, b.benchmark, noise_pct=noise_pct)
