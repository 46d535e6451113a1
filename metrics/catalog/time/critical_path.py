"""Share of communication on the critical path of a step, over all ranks."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ccltui.metrics.arrays.statistics import milliseconds, ratio
from ccltui.metrics.device.device_time import device_ranks, device_reasons
from ccltui.metrics.device.path_walk import PARTS, WORK, Pieces, Walk, Windows
from ccltui.metrics.metric import metric
from ccltui.metrics.model.kernel_names import bare_name
from ccltui.metrics.result import Reason, Result
from ccltui.metrics.unavailable import refuse
from ccltui.metrics.view.provenance import answer
from ccltui.parsers.array_types import I64

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View
    from ccltui.metrics.view.rank_view import RankView
    from ccltui.parsers.columns import RankTrace


_SHOWN: Final = 20


@metric(
    unit="ratio",
    definition=(
        "Share of communication in the chain of work that determined when a step ended, "
        "followed backwards over all ranks; at a collective the chain continues on the rank "
        "that arrived last."
    ),
    needs=("GPU kernels", "more with launch records and several ranks"),
    keys=(
        "comm_on_path_ratio",
        "path_ms",
        *(f"{part}_ms" for part in PARTS),
        "by_rank",
        "work",
        "num_steps",
        "num_pieces",
        "num_crossings",
        "per_step",
    ),
    headline="comm_on_path_ratio",
    label="communication on critical path",
    higher_is_better=False,
    category="stragglers",
)
def critical_path(view: View) -> Result:
    """Walk back through every step, or through the trace where no steps are measured."""
    ranks = device_ranks(view)
    walk = Walk(view)
    steps = [step for step, opened in _windows(ranks).items() if walk.walk_back(step, opened)]
    pieces = walk.pieces()
    table = _by_step(steps, pieces)
    total = table.sum(axis=0)
    length = int(total.sum())
    if not length:
        raise refuse("window_empty", "no device work in the steps or the window")
    details: dict[str, Any] = {
        "comm_on_path_ratio": ratio(int(total[PARTS.index("communication")]), length),
        "path_ms": milliseconds(length) / len(steps),
        **{
            f"{part}_ms": milliseconds(int(ns)) / len(steps)
            for part, ns in zip(PARTS, total, strict=True)
        },
        "by_rank": _by_rank(pieces, length),
        "work": _work(pieces, {rank.label: rank.trace for rank in ranks}, length),
        "num_steps": len(steps),
        "num_pieces": sum(int((one.work > 0).sum()) for one in pieces),
        "num_crossings": walk.crossings,
        "per_step": _per_step(steps, table),
    }
    return answer(
        critical_path,
        view,
        details,
        source="kernel",
        basis={
            "before": "on a rank, the work that ended last before; at a "
            "collective, the rank that arrived last, which has the shortest duration",
            "gap": "host until the launch, launch from there to the start; wait if "
            "the work was launched before the gap",
            "beginning": "the first work of any rank; until the rank where the path ends "
            "begins, the time is its host's",
            "times": "means over steps",
        },
        reasons=[*_reasons(view, walk), *device_reasons(view)],
    )


def _windows(ranks: list[RankView]) -> dict[int, Windows]:
    """Device work of every step by rank label, first start to last end; step -1 is all of it.

    A path ends with the work that ends last: the idle time after it is on the path of no step.
    """
    steps: defaultdict[int, dict[str, tuple[int, int]]] = defaultdict(dict)
    for rank in ranks:
        for step, start, end in rank.work_windows:
            steps[step][rank.label] = (start, end)
    return dict(sorted(steps.items()))


def _parts(one: Pieces) -> list[I64]:
    """Time of each piece by part, in the order of PARTS."""
    work = [np.where(one.part == kind, one.work, 0) for kind in range(len(WORK))]
    return [*work, one.host, one.launch, one.wait]


def _by_step(steps: list[int], pieces: list[Pieces]) -> I64:
    """Time by step and part, int64 ns [steps, parts]."""
    table = np.zeros((len(steps), len(PARTS)), np.int64)
    for one in pieces:
        row = np.searchsorted(steps, one.path)
        for part, values in enumerate(_parts(one)):
            # float64 counts whole nanoseconds exactly up to 104 days
            sums = np.bincount(row, weights=values, minlength=len(steps))
            table[:, part] += sums.astype(np.int64)
    return table


def _length(one: Pieces) -> int:
    return int((one.work + one.host + one.launch + one.wait).sum())


def _by_rank(pieces: list[Pieces], length: int) -> dict[str, Any]:
    lengths = sorted(((one.label, _length(one)) for one in pieces), key=lambda row: -row[1])
    return {label: {"ratio_of_path": ratio(ns, length)} for label, ns in lengths}


def _per_step(steps: list[int], table: I64) -> dict[str, dict[str, float]]:
    return {
        str(step): {
            "path_ms": milliseconds(int(row.sum())),
            **{f"{part}_ms": milliseconds(int(ns)) for part, ns in zip(PARTS, row, strict=True)},
        }
        for step, row in zip(steps, table, strict=True)
        if step >= 0
    }


def _work(pieces: list[Pieces], traces: dict[str, RankTrace], length: int) -> list[dict[str, Any]]:
    """Work with the most time on the path, by bare names."""
    found: defaultdict[tuple[str, str], int] = defaultdict(int)
    for one in pieces:
        trace = traces[one.label]
        width = len(trace.strings) + 1
        key = one.part * width + one.name + 1
        sums = np.bincount(key, weights=one.work, minlength=len(WORK) * width)
        for code in np.flatnonzero(sums).tolist():
            part, name = divmod(code, width)
            found[WORK[part], bare_name(trace.text(name - 1))] += int(sums[code])
    ordered = sorted(found.items(), key=lambda row: (-row[1], row[0]))[:_SHOWN]
    return [
        {
            "name": name,
            "part": part,
            "ms": milliseconds(ns),
            "ratio_of_path": ratio(ns, length),
        }
        for (part, name), ns in ordered
    ]


def _reasons(view: View, walk: Walk) -> list[Reason]:
    """Reasons why the path may have missed a rank."""
    world = view.world_size
    if len(walk.lanes) == 1 and world is not None and world > 1:
        text = f"1 of {world} ranks found: waiting for the others counts as communication"
        return [Reason("single_rank", text)]
    if not walk.one_clock:
        text = "the clocks are not known against each other: which rank ended last is not certain"
        return [Reason("clock_unknown", text)]
    return []


metric_cal = critical_path.document_of
