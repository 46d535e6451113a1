"""Calls of NCCL for each backward pass, from the ranges that `nsys stats` lists.

Counts of two captures differ with their length; divided by the backward passes of the same
capture they can be compared.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import Final

from metrics.runs.run import Run
from parsers.nsys.text_table import EXACT, NumberColumn, Section, StatsText, TextColumn

_BACKWARD: Final = ("DeepSpeedEngine.backward", "train/backward", "backward")
_NCCL: Final = re.compile(r"(?:^|:)nccl([A-Z]\w*)$")
_SETUP: Final = re.compile(r"Comm|Group|GetUniqueId|MemAlloc|RedOp")


@dataclass(frozen=True, slots=True)
class NcclCalls:
    """Ranges of one run, all texts added up; ``instances`` by operation, such as AllReduce."""

    instances: dict[str, int]
    backward: int
    backward_range: str
    files: tuple[str, ...]

    def per_backward(self, operation: str) -> float | None:
        """Calls of an operation for each backward pass, None without any backward pass."""
        return self.instances.get(operation, 0) / self.backward if self.backward else None


def nccl_calls(run: Run) -> NcclCalls | None:
    """What the texts of a run say, None where none lists ranges of NCCL and of backward passes."""
    instances: Counter[str] = Counter()
    backward: Counter[str] = Counter()
    files: list[str] = []
    captures: set[str] = set()
    for text in run.stats:
        counts = _ranges(text, captures)
        calls = {m[1]: n for name, n in counts.items() if (m := _NCCL.search(name))}
        if not calls:
            continue
        files.append(text.path)
        instances.update({op: n for op, n in calls.items() if not _SETUP.search(op)})
        backward.update({key: _of_range(counts, key) for key in _BACKWARD})
    name = next((key for key in _BACKWARD if backward[key]), "")
    if not files or not name:
        return None
    return NcclCalls(dict(instances.most_common()), backward[name], name, tuple(files))


def _of_range(counts: dict[str, int], key: str) -> int:
    return max((n for name, n in counts.items() if name.endswith(key)), default=0)


def _ranges(text: StatsText, captures: set[str]) -> dict[str, int]:
    """Instances of every range that is known exactly, of captures that were not met before."""
    found: dict[str, int] = {}
    for section in text.sections:
        if section.report.partition(":")[0] not in ("nvtx_sum", "nvtxsum", "nvtx_pushpop_sum"):
            continue
        capture = section.provenance.database
        if capture and capture in captures:
            continue
        captures.add(capture)
        found.update(_rows(section))
    return found


def _rows(section: Section) -> dict[str, int]:
    names = next((c for c in section.columns if c.name in ("Range", "Name")), None)
    counts = next((c for c in section.columns if c.name in ("Instances", "Count")), None)
    if not isinstance(names, TextColumn) or not isinstance(counts, NumberColumn):
        return {}
    return {
        names.cell(row): int(counts.mantissa[row])
        for row in range(len(names))
        if counts.state[row] == EXACT and not counts.decimals
    }
