"""Compare two profiles of which only texts of ``nsys stats`` are there.

Only numbers that do not depend on the length of a recording are compared: shares, times of one
call, and calls per backward pass. What such texts do not hold is listed beside the numbers.

Two sides of any one kind are compared by `compare_sides`, except traces, which are loaded first.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from ccltui.metrics.cluster.cluster_files import read_cluster
from ccltui.metrics.cluster.cluster_table import hosts_of, label_of, name_of
from ccltui.metrics.compare.comparable import Check, Comparability, comparability
from ccltui.metrics.compare.compare_runs import (
    ONE_RUN,
    Comparison,
    Row,
    Sample,
    Verdict,
    compare,
    half_width,
    judged,
    stated,
    t95,
)
from ccltui.metrics.model.classify import is_collective_kernel
from ccltui.metrics.runs.nccl_calls import NcclCalls, distinct_tables, nccl_calls
from ccltui.metrics.runs.run_files import Run, read_runs
from ccltui.parsers.discovery.discover import discover
from ccltui.parsers.discovery.run_settings import RunFolder
from ccltui.parsers.errors import NotFoundError, TraceError
from ccltui.parsers.nsys import NSYS_TEXT, NSYS_TEXT_TRACE
from ccltui.parsers.nsys.typed_table import CUT, NumberColumn, TextColumn
from ccltui.parsers.safe_text import listed, printable

if TYPE_CHECKING:
    from ccltui.parsers.cluster.machine_files import ClusterBenchmark, Measurement
    from ccltui.parsers.found_files import Discovery
    from ccltui.parsers.nsys.typed_table import Section, StatsText


Part = Literal["range", "kernel"]

_TABLES: Final[tuple[tuple[Part, tuple[str, ...]], ...]] = (
    ("range", ("nvtx_sum",)),
    ("kernel", ("cuda_gpu_kern_sum", "cuda_gpu_sum")),
)
"""Reports that the rows are of, the first that a text has; they have the same columns."""
_NAMES: Final = ("Range", "Name", "Operation")
_MOST: Final[dict[Part, int]] = {"range": 10, "kernel": 15}
"""Most rows of a part: the longest of either side."""
_KERNELS: Final = "CUDA_KERNEL"


class Calls(Struct, frozen=True):
    """Calls of one name on one side, all texts together: ``share`` in percent of the total time."""

    total_ns: int
    count: int
    share: float
    std_ns: float | None

    @property
    def mean_ns(self) -> float:
        """Mean time of one call."""
        return self.total_ns / self.count


class ProfileRow(Struct, frozen=True):
    """One range or kernel on both sides, None where a side does not list it.

    ``verdict`` is on the mean time of one call, "" where a side lacks it or the name is cut, which
    may be that of several kernels.
    """

    part: Part
    name: str
    a: Calls | None
    b: Calls | None
    verdict: Verdict

    @property
    def change_pct(self) -> float | None:
        """Mean time of a call, B minus A in percent of A."""
        if self.a is None or self.b is None or not self.a.mean_ns:
            return None
        return 100 * (self.b.mean_ns / self.a.mean_ns - 1)


class Profile(Struct, frozen=True):
    """One side: its texts, and calls by part and name.

    ``repeats`` are texts that print a recording of another text again, each with that text.
    """

    name: str
    texts: tuple[str, ...]
    calls: dict[Part, dict[str, Calls]]
    nccl: NcclCalls | None
    num_cut: int
    repeats: tuple[tuple[str, str], ...] = ()

    @property
    def bottleneck(self) -> str:
        """The longest range, and the share of collectives in kernel time, in words."""
        found = []
        ranges = self.calls["range"]
        if ranges:
            name = max(ranges, key=lambda one: ranges[one].total_ns)
            found.append(f"longest range {name} ({ranges[name].share:.1f} % of the time in ranges)")
        if self.collective_share is not None:
            found.append(f"collectives {self.collective_share:.1f} % of kernel time")
        return ", ".join(found) or "no ranges and no kernels"

    @property
    def collective_share(self) -> float | None:
        """Time of collective kernels in percent of that of all kernels, None without any."""
        kernels = self.calls["kernel"]
        total = sum(one.total_ns for one in kernels.values())
        ours = sum(one.total_ns for name, one in kernels.items() if is_collective_kernel(name))
        return 100 * ours / total if total else None


class ProfileComparison(Struct, frozen=True):
    """Rows in the order of their time, calls per backward pass, and what the texts do not hold."""

    a: Profile
    b: Profile
    rows: tuple[ProfileRow, ...]
    unknown: tuple[str, ...]
    runs_vary_pct: float | None = None

    @property
    def remark(self) -> str:
        """What the verdicts rest on, or why there is none."""
        return ONE_RUN if self.runs_vary_pct is None else stated(self.runs_vary_pct)


def profile(name: str, texts: Sequence[StatsText]) -> Profile:
    """Return one side from the texts of its captures, one for each host.

    Raises:
        TraceError: a table lacks its columns.
    """
    calls: dict[Part, dict[str, Calls]] = {"range": {}, "kernel": {}}
    cut = 0
    repeats: dict[tuple[str, str], None] = {}
    for part, reports in _TABLES:
        found = distinct_tables(texts, reports)
        repeats.update(dict.fromkeys(found.repeats))
        tables = [table for _, table in found.tables]
        rows = [row for table in tables for row in _rows(table)]
        cut += len({name for name, *_ in rows if name.endswith("…")})
        calls[part] = _summed(rows)
    run = Run(name, RunFolder(name, ()), stats=tuple(texts))
    paths = tuple(text.path for text in texts)
    return Profile(name, paths, calls, nccl_calls(run), cut, tuple(repeats))


def compare_profiles(
    a: Profile, b: Profile, *, runs_vary_pct: float | None = None
) -> ProfileComparison:
    """Compare two profiles, of one run each.

    The spread of calls is that within a run: without ``runs_vary_pct``, by how many percent two
    runs of one command differ, no difference is called better or worse.
    """
    rows = []
    for part, most in _MOST.items():
        one, other = a.calls[part], b.calls[part]
        longest = [*_longest(one, most), *_longest(other, most)]
        order = sorted(dict.fromkeys(longest), key=lambda name: -_weight(one, other, name))
        for name in order:
            pair = one.get(name), other.get(name)
            verdict: Verdict = "" if name.endswith("…") else _verdict(*pair, runs_vary_pct)
            rows.append(ProfileRow(part, name, *pair, verdict))
    return ProfileComparison(a, b, tuple(rows), tuple(_unknown(a, b)), runs_vary_pct)


_Row = tuple[str, int, int, float | None]


def _rows(table: Section) -> Iterator[_Row]:
    """Name, total time in ns, instances and deviation in ns of each row, cut ones left out."""
    total, count = table.number("Total Time"), table.number("Instances")
    times, counts = total.ns(), count.floats()
    deviation = table.column("StdDev")
    spread = deviation.ns() if isinstance(deviation, NumberColumn) else np.full(len(table), -1)
    names = _names(table)
    category = table.column("Category")
    usable = (total.state < CUT) & (count.state < CUT) & (counts > 0)
    for row in np.flatnonzero(usable).tolist():
        if isinstance(category, TextColumn) and category.cell(row) != _KERNELS:
            continue
        std = float(spread[row])
        yield names.cell(row), int(times[row]), int(counts[row]), std if std >= 0 else None


def _names(table: Section) -> TextColumn:
    found = (table.column(name) for name in _NAMES)
    column = next((one for one in found if isinstance(one, TextColumn)), None)
    if column is None:
        raise TraceError(f"{table.report} has no column of names", line=table.line)
    return column


def _summed(rows: Sequence[_Row]) -> dict[str, Calls]:
    """Calls by name; the deviation of several texts is that of all their calls together."""
    of_name: dict[str, list[_Row]] = {}
    for row in rows:
        of_name.setdefault(row[0], []).append(row)
    every = sum(total for _, total, _, _ in rows)
    found = {}
    for name, same in of_name.items():
        total, count = sum(row[1] for row in same), sum(row[2] for row in same)
        share = 100 * total / every if every else 0.0
        found[name] = Calls(total, count, share, _pooled(same, total / count, count))
    return found


def _pooled(rows: Sequence[_Row], mean: float, count: int) -> float | None:
    """Standard deviation of the calls of several rows, from their means and deviations."""
    squares = 0.0
    for _, total, calls, std in rows:
        if std is None:
            return None
        squares += (calls - 1) * std**2 + calls * (total / calls - mean) ** 2
    return math.sqrt(squares / (count - 1)) if count > 1 else None


def _longest(calls: dict[str, Calls], most: int) -> list[str]:
    return sorted(calls, key=lambda name: -calls[name].total_ns)[:most]


def _weight(a: dict[str, Calls], b: dict[str, Calls], name: str) -> float:
    return max(side[name].share if name in side else 0.0 for side in (a, b))


def _verdict(a: Calls | None, b: Calls | None, runs_vary_pct: float | None) -> Verdict:
    """Verdict on the time of a call: beyond the stated spread, and the 95 % interval (Welch)."""
    if a is None or b is None:
        return ""
    if runs_vary_pct is None:
        return "not distinguishable"
    change = b.mean_ns - a.mean_ns
    width = runs_vary_pct / 100 * a.mean_ns
    if a.std_ns is not None and b.std_ns is not None:
        error = math.sqrt(a.std_ns**2 / a.count + b.std_ns**2 / b.count)
        width = max(width, t95(max(min(a.count, b.count) - 1, 1)) * error)
    if abs(change) <= width:
        return "not distinguishable"
    return "worse" if change > 0 else "better"


def _unknown(a: Profile, b: Profile) -> Iterator[str]:
    """What the texts do not hold, one sentence each."""
    yield (
        "throughput, step time and loss: texts of nsys stats have none, and a profiled run is no "
        "evidence of them"
    )
    yield (
        "whether both did the same work: world size, batch, sequence length and number of steps "
        "are not stated"
    )
    yield _windows(a, b)
    yield "parts of a whole: ranges nest and are time of the host, so their shares never add up"
    yield "transfer times: ranges and kernels of collectives include waiting for other ranks"
    for part, words in (
        ("range", "NVTX ranges (nvtx_sum)"),
        ("kernel", "kernels (cuda_gpu_kern_sum)"),
    ):
        lacking = [name for name, side in (("A", a), ("B", b)) if not side.calls[_part(part)]]
        if lacking:
            yield f"{words} of {' and '.join(lacking)}: no such table"
    yield f"other hosts: A has the text of {_hosts(a)}, B of {_hosts(b)}"
    for label, side in (("A", a), ("B", b)):
        for left, kept in side.repeats:
            yield f"{left} of {label} is not counted as another recording: it prints {kept} again"
    if a.num_cut or b.num_cut:
        yield (
            f"names that agree as far as nsys prints them ({a.num_cut} and {b.num_cut} are cut): "
            "they count as one, without a verdict"
        )


def _part(name: str) -> Part:
    return "range" if name == "range" else "kernel"


def _windows(a: Profile, b: Profile) -> str:
    text = "totals and numbers of calls against each other: the captures may differ in length"
    if a.nccl is None or b.nccl is None:
        return text
    return f"{text} (A has {a.nccl.backward:,} backward passes, B {b.nccl.backward:,})"


def _hosts(side: Profile) -> str:
    return listed(list(side.texts), 3)


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
    from ccltui.parsers.nsys.stats_text import read_stats_text  # noqa: PLC0415 - few have any

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
