"""Device time by category of kernel: matrix products, attention, norms, copies, …."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from ccltui.metrics.arrays.statistics import milliseconds, ratio
from ccltui.metrics.device.device_time import device_answer, device_ranks
from ccltui.metrics.metric import metric
from ccltui.metrics.model.classify import COMM, MEM
from ccltui.metrics.model.kernel_names import CATEGORIES, OTHER, bare_name, category_of
from ccltui.metrics.result import Result

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View
    from ccltui.metrics.view.rank_view import RankView

ALL: Final = (*CATEGORIES[:-1], "comm", "mem", OTHER)


class Part(Struct):
    """Sums of one category, and its name with the most time."""

    calls: int = 0
    total_ns: int = 0
    top: str = ""
    top_ns: int = -1

    def add(self, name: str, calls: int, total_ns: int) -> None:
        """Add the calls of one name."""
        self.calls += calls
        self.total_ns += total_ns
        if (total_ns, name) > (self.top_ns, self.top):
            self.top, self.top_ns = name, total_ns


@metric(
    unit="ratio",
    definition=(
        "Share of the summed device time in matrix products; the details list every category of "
        "kernels, by rules for kernel names, and the share that no rule covers."
    ),
    needs=("GPU kernels",),
    facts=("sums",),
    keys=(
        "gemm_share",
        "attention_share",
        "other_share",
        "by_category",
        "work_time_ms",
        "per_rank",
    ),
    label="GEMM share",
)
def kernel_categories(view: View) -> Result:
    """Sum the device work of every rank by category."""
    ranks = device_ranks(view)
    parts: defaultdict[str, Part] = defaultdict(Part)
    per_rank: dict[str, dict[str, int]] = {}
    for rank in ranks:
        per_rank[rank.label] = _add(rank, parts)
    total = sum(part.total_ns for part in parts.values())
    shares = {name: ratio(parts[name].total_ns, total) for name in ALL if name in parts}
    details: dict[str, Any] = {
        "gemm_share": shares.get("gemm", 0.0),
        "attention_share": shares.get("attention", 0.0),
        "other_share": shares.get(OTHER, 0.0),
        "by_category": {
            name: {
                "ms": milliseconds(parts[name].total_ns) / len(ranks),
                "share": shares[name],
                "calls": parts[name].calls,
                "top": bare_name(parts[name].top),
            }
            for name in shares
        },
        "work_time_ms": milliseconds(total) / len(ranks),
        "per_rank": {
            label: {f"{name}_ms": milliseconds(row.get(name, 0)) for name in shares}
            for label, row in per_rank.items()
        },
    }
    return device_answer(
        kernel_categories,
        view,
        details,
        basis={
            "share": "of the summed durations of all kernels and copies",
            "rules": "the first pattern that matches a kernel's name; kernels that none matches "
            "are other",
        },
    )


def _add(rank: RankView, parts: defaultdict[str, Part]) -> dict[str, int]:
    """Add the work of a rank to ``parts`` and return its sums by category."""
    own = defaultdict[str, int](int)
    for name, kind, calls, total in rank.work_by_name.rows():
        text = rank.trace.text(name)
        category = {COMM: "comm", MEM: "mem"}.get(kind) or category_of(text)
        parts[category].add(text, calls, total)
        own[category] += total
    return own


metric_cal = kernel_categories.document_of
