"""Count NCCL calls per backward pass, from the ranges listed by `nsys stats`.

Counts of two captures differ with their length; divided by the backward passes of the same
capture they are comparable.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from ccltui.metrics.runs.distinct_tables import distinct_tables
from ccltui.metrics.runs.run_files import Run

if TYPE_CHECKING:
    from ccltui.parsers.nsys.text_reports.typed_table import Section

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
    from ccltui.parsers.nsys.text_reports.typed_table import EXACT, NumberColumn, TextColumn  # noqa: PLC0415

    names = next((c for c in section.columns if c.name in ("Range", "Name")), None)
    counts = next((c for c in section.columns if c.name in ("Instances", "Count")), None)
    if not isinstance(names, TextColumn) or not isinstance(counts, NumberColumn):
        return {}
    return {
        names.cell(row): int(counts.mantissa[row])
        for row in range(len(names))
        if counts.state[row] == EXACT and not counts.decimals
    }
