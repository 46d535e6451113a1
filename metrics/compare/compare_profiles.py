"""Compare two profiles of which only texts of ``nsys stats`` are there.

Only numbers that do not depend on the length of a recording are compared: shares, times of one
call, and calls per backward pass. What such texts do not hold is listed beside the numbers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final, Literal

import numpy as np
from msgspec import Struct

from ccltui.metrics.compare.compare_runs import Verdict
from ccltui.metrics.compare.spread import ONE_RUN, stated, t95
from ccltui.metrics.model.classify import is_collective_kernel
from ccltui.metrics.runs.nccl_calls import NcclCalls, distinct_tables, nccl_calls
from ccltui.metrics.runs.run_files import Run
from ccltui.parsers.discovery.run_settings import RunFolder
from ccltui.parsers.errors import TraceError
from ccltui.parsers.names import listed
from ccltui.parsers.nsys.text_reports.typed_table import CUT, NumberColumn, TextColumn

if TYPE_CHECKING:
    from ccltui.parsers.nsys.text_reports.typed_table import Section, StatsText

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
