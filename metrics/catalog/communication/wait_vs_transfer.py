"""Time in collectives divided into waiting for the last rank and transfer.

The last rank to arrive does not wait: its duration, the shortest, is the transfer. The time by
which the kernel of another rank lasts longer is waiting.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ccltui.metrics.arrays.reductions import distinct_values
from ccltui.metrics.arrays.statistics import milliseconds, ratio
from ccltui.metrics.collectives import lag_tables
from ccltui.metrics.collectives.lag_tables import Chosen, transfer_ns, wait_and_transfer
from ccltui.metrics.metric import metric
from ccltui.metrics.model.classify import TYPES
from ccltui.metrics.result import Result
from ccltui.metrics.view.collective_selection import (
    chosen_of,
    describe_group,
    require_ranks,
    source_of_times,
)
from ccltui.metrics.view.match_quality import match_reasons, match_warnings, possible_match
from ccltui.metrics.view.provenance import answer

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View
    from ccltui.parsers.array_types import I64, Bool


@metric(
    unit="ratio",
    definition=(
        "Share of the time in collectives that ranks spend waiting for the last rank: the "
        "duration beyond the shortest over ranks, divided by the duration, both summed over "
        "ranks and over the collectives that all ranks of a group wait for."
    ),
    needs=("GPU kernels, or gloo's annotations", "2 ranks of one group"),
    facts=("arrivals",),
    keys=(
        "wait_share",
        "wait_ms",
        "transfer_ms",
        "num_collectives",
        "per_rank",
        "by_group",
        "by_dim",
        "by_type",
        "per_step",
        "end_spread_us",
        "match",
    ),
    label="straggler wait",
    category="stragglers",
    higher_is_better=False,
)
def wait_vs_transfer(view: View) -> Result:
    """Waiting and transfer of the selected collectives that all ranks of a group wait for."""
    require_ranks(view)
    source, warnings = source_of_times(view)
    labels = [rank.label for rank in view.ranks]
    match, chosen = possible_match(view), chosen_of(view)
    wait, transfer = _per_rank(chosen, len(labels))
    present = sorted({int(member) for one in chosen for member in one.members})
    details: dict[str, Any] = {
        **_split(int(wait.sum()), int(transfer.sum())),
        "num_collectives": sum(len(one) for one in chosen),
        "per_rank": {labels[i]: _split(int(wait[i]), int(transfer[i])) for i in present},
        "by_group": _by_group(view, chosen),
        "by_dim": _by(chosen, lambda one: [(_dim(view, one), np.ones(len(one), np.bool_))]),
        "by_type": _by(chosen, _types),
        "per_step": _per_step(chosen),
        "end_spread_us": lag_tables.end_spread(chosen),
        "match": match,
    }
    return answer(
        wait_vs_transfer,
        view,
        details,
        source=source,
        basis={
            "transfer": "shortest duration over the ranks of the collective",
            "wait": "duration beyond it; sums over ranks and collectives, concurrent ones twice",
        },
        reasons=match_reasons(view),
        warnings=[*warnings, *match_warnings(view)],
    )


def _split(wait_ns: int, transfer_ns: int) -> dict[str, Any]:
    return {
        "wait_share": ratio(wait_ns, wait_ns + transfer_ns),
        "wait_ms": milliseconds(wait_ns),
        "transfer_ms": milliseconds(transfer_ns),
    }


def _per_rank(chosen: Sequence[Chosen], num_ranks: int) -> tuple[I64, I64]:
    wait, transfer = np.zeros(num_ranks, np.int64), np.zeros(num_ranks, np.int64)
    for one in chosen:
        wait[one.members] += one.lateness.waited_ns
        transfer[one.members] += transfer_ns(one).sum()
    return wait, transfer


def _by_group(view: View, chosen: Sequence[Chosen]) -> list[dict[str, Any]]:
    rows = []
    for one in chosen:
        everything = np.ones(len(one), np.bool_)
        rows.append(
            {
                **describe_group(view, one.group),
                "num_collectives": len(one),
                **_split(*wait_and_transfer(one, everything)),
                "transfer_us": lag_tables.distribution(transfer_ns(one)),
            }
        )
    return rows


def _dim(view: View, one: Chosen) -> str:
    return str(describe_group(view, one.group)["dim"])


def _types(one: Chosen) -> list[tuple[str, Bool]]:
    return [(TYPES[kind], one.kind == kind) for kind in distinct_values(one.kind).tolist()]


def _by(
    chosen: Sequence[Chosen], named_rows: Callable[[Chosen], Sequence[tuple[str, Bool]]]
) -> Mapping[str, dict[str, Any]]:
    """Waiting and transfer by the names given to rows (masks) of each group."""
    found: dict[str, tuple[int, int, int]] = {}
    for one in chosen:
        for name, rows in named_rows(one):
            wait, transfer = wait_and_transfer(one, rows)
            before = found.get(name, (0, 0, 0))
            found[name] = (before[0] + int(rows.sum()), before[1] + wait, before[2] + transfer)
    return {
        name: {"num_collectives": count, **_split(wait, transfer)}
        for name, (count, wait, transfer) in sorted(found.items())
    }


def _per_step(chosen: Sequence[Chosen]) -> list[dict[str, Any]]:
    steps = sorted({int(step) for one in chosen for step in distinct_values(one.step) if step >= 0})
    rows = []
    for step in steps:
        parts = [wait_and_transfer(one, one.step == step) for one in chosen]
        wait, transfer = sum(part[0] for part in parts), sum(part[1] for part in parts)
        rows.append({"step": step, **_split(wait, transfer)})
    return rows


metric_cal = wait_vs_transfer.document_of
