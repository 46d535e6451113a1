"""Count NCCL calls per backward pass, from the ranges listed by `nsys stats`.

Counts of two captures differ with their length; divided by the backward passes of the same capture
they are comparable. A text may be a copy of another, the same report in another format or unit, or
hold the reports of several recordings: each recording is counted once.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec import Struct

from ccltui.metrics.runs.run_files import Run
from ccltui.parsers.nsys.typed_table import EXACT, NumberColumn, TextColumn

if TYPE_CHECKING:
    from ccltui.parsers.nsys.typed_table import Section, StatsText


_NAMES: Final = ("Range", "Name", "Operation")
_COUNTS: Final = ("Instances", "Count", "Num Calls", "Calls")
_ENOUGH_DIGITS: Final = 6
"""Decimal digits of times that must agree for two tables to be of one recording.

Other hosts of a job have the same names and counts, and one chance in a million to have the same
times to six digits."""


class Distinct(Struct, frozen=True):
    """Tables of one report, each of a recording of its own.

    Attributes:
        tables: path of the text and table.
        repeats: path of a text that was left out, and of the text whose recording it repeats.
    """

    tables: tuple[tuple[str, Section], ...]
    repeats: tuple[tuple[str, str], ...] = ()


def distinct_tables(texts: Sequence[StatsText], reports: Sequence[str]) -> Distinct:
    """Return the tables of the first of ``reports`` that each text has, recordings counted once.

    Of two tables of one recording the whole one is taken, then the one with more rows.
    """
    found: list[tuple[str, Section]] = []
    repeats: dict[tuple[str, str], None] = {}
    for text in texts:
        for table in _of(text, reports):
            same = next((at for at, (_, one) in enumerate(found) if is_same(one, table)), None)
            if same is None:
                found.append((text.path, table))
                continue
            kept, left = found[same], (text.path, table)
            if _worth(table) > _worth(kept[1]):
                found[same], kept, left = left, left, kept
            if left[0] != kept[0]:
                repeats[left[0], kept[0]] = None
    return Distinct(tuple(found), tuple(repeats))


def _of(text: StatsText, reports: Sequence[str]) -> list[Section]:
    """Tables of the first report that the text has."""
    for report in reports:
        found = [one for one in text.tables if one.report.partition(":")[0] == report]
        if found:
            return found
    return []


def _worth(table: Section) -> tuple[bool, bool, int]:
    origin = table.provenance
    return not origin.command, origin.window is None, len(table)


def is_same(a: Section, b: Section) -> bool:
    """Return whether two tables of a report are of one recording: by its file, or by their rows.

    Nodes may each have recorded into a file of one name (``/tmp/report1``): where rows of the same
    window differ, so do the recordings.
    """
    files = [_recording(one) for one in (a, b)]
    digits = _agreeing_digits(a, b)
    if all(files) and files[0] == files[1]:
        return digits is not None or a.provenance.window != b.provenance.window
    return digits is not None and digits >= _ENOUGH_DIGITS


def _recording(table: Section) -> str:
    """Path of the recording without its ending: .nsys-rep and .sqlite are the same one."""
    path = table.provenance.database
    return str(PurePosixPath(path).with_suffix("")) if path else ""


def _agreeing_digits(a: Section, b: Section) -> float | None:
    """Digits to which times of the rows that both have agree; None where a row differs."""
    rows = [_distinct_rows(one) for one in (a, b)]
    digits = 0.0
    shared = rows[0].keys() & rows[1].keys()
    if 2 * len(shared) < min(map(len, rows)):
        return 0.0  # most rows of the shorter one have no like: names are of other widths
    for name in shared:
        (count, total, step), (other, total_b, step_b) = rows[0][name], rows[1][name]
        coarser = max(step, step_b)
        if count != other or abs(total - total_b) > coarser:
            return None
        digits += float(np.log10(max(total / coarser, 1)))
    return digits


def _distinct_rows(table: Section) -> dict[str, tuple[int, int, float]]:
    """Count, total time and its last printed digit in ns of each name that is there once."""
    names = next((c for c in table.columns if c.name in _NAMES), None)
    counts = next((c for c in table.columns if c.name in _COUNTS), None)
    total = table.column("Total Time")
    if not (
        isinstance(names, TextColumn)
        and isinstance(counts, NumberColumn)
        and isinstance(total, NumberColumn)
        and total.step_ns
    ):
        return {}
    times, step = total.ns(), total.step_ns
    usable = np.flatnonzero((total.state == EXACT) & (counts.state == EXACT) & ~names.cut)
    found: dict[str, tuple[int, int, float]] = {}
    twice = set()
    for row in usable.tolist():
        name = names.values[row]
        twice |= {name} & found.keys()
        found[name] = (int(counts.mantissa[row]), int(times[row]), step)
    return {name: row for name, row in found.items() if name not in twice}


_BACKWARD: Final = ("DeepSpeedEngine.backward", "train/backward", "backward")
_NCCL: Final = re.compile(r"(?:^|:)nccl([A-Z]\w*)$")
_REPORTS: Final = ("nvtx_sum", "nvtxsum", "nvtx_pushpop_sum")
_SETUP: Final = re.compile(r"Comm|Group|GetUniqueId|MemAlloc|RedOp")


class NcclCalls(Struct, frozen=True):
    """Ranges of one run, summed over all captures; ``instances`` by operation, such as AllReduce.

    ``exhaustive``: an operation that is not listed was not called.
    """

    instances: dict[str, int]
    backward: int
    backward_range: str
    files: tuple[str, ...]
    exhaustive: bool

    def per_backward(self, operation: str) -> float | None:
        """Return the calls of an operation per backward pass; None where not known."""
        if operation not in self.instances and not self.exhaustive:
            return None
        return self.instances.get(operation, 0) / self.backward


class _Source(Struct, frozen=True):
    path: str
    counts: dict[str, int]
    exhaustive: bool

    @property
    def calls(self) -> dict[str, int]:
        """Instances of NCCL operations, without set-up and grouping."""
        found = {m[1]: n for name, n in self.counts.items() if (m := _NCCL.search(name))}
        return {op: n for op, n in found.items() if not _SETUP.search(op)}

    @property
    def backward(self) -> tuple[str, int]:
        """The range of a backward pass and its instances, ("", 0) where there is none."""
        for key in _BACKWARD:
            count = max((n for name, n in self.counts.items() if name.endswith(key)), default=0)
            if count:
                return key, count
        return "", 0


def nccl_calls(run: Run) -> NcclCalls | None:
    """Count the NCCL calls in the nsys texts of a run, or in its summary without any text.

    None where neither lists ranges of NCCL and of backward passes.
    """
    sources = [
        _of_table(path, table) for path, table in distinct_tables(run.stats, _REPORTS).tables
    ]
    if not run.stats and run.summary is not None:
        counts = {one.name: one.instances for one in run.summary.ranges if one.instances}
        sources = [_Source("profile_summary.json", counts, exhaustive=False)]
    return _calls(sources)


def _calls(sources: Sequence[_Source]) -> NcclCalls | None:
    """Sum the captures that count backward passes by the same range."""
    counting = [source for source in sources if source.calls and source.backward[1]]
    if not counting:
        return None
    name = counting[0].backward[0]
    alike = [source for source in counting if source.backward[0] == name]
    instances: Counter[str] = Counter()
    for source in alike:
        instances.update(source.calls)
    return NcclCalls(
        instances=dict(instances.most_common()),
        backward=sum(source.backward[1] for source in alike),
        backward_range=name,
        files=tuple(dict.fromkeys(source.path for source in alike)),
        exhaustive=all(source.exhaustive for source in alike),
    )


def _of_table(path: str, table: Section) -> _Source:
    """Return the exactly known instances of ranges of one recording."""
    rows = _rows(table)
    exhaustive = len(rows) == len(table) and not table.provenance.command
    return _Source(path, rows, exhaustive)


def _rows(section: Section) -> dict[str, int]:
    from ccltui.parsers.nsys.typed_table import EXACT, NumberColumn, TextColumn  # noqa: PLC0415

    names = next((c for c in section.columns if c.name in ("Range", "Name")), None)
    counts = next((c for c in section.columns if c.name in ("Instances", "Count")), None)
    if not isinstance(names, TextColumn) or not isinstance(counts, NumberColumn):
        return {}
    return {
        names.cell(row): int(counts.mantissa[row])
        for row in range(len(names))
        if counts.state[row] == EXACT and not counts.decimals
    }
