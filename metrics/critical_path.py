"""What a step's length is made of: the chain of work, over all ranks, that decided its end."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, Final

from metrics.device_time import device_ranks, without_device
from metrics.directory import metric_cal as metric_cal_of
from metrics.envelope import answer
from metrics.kernel_names import bare_name
from metrics.path_walk import PARTS, Path, Walk, last_work, together
from metrics.refusal import refuse
from metrics.registry import Metric
from metrics.result import Reason, Result
from metrics.statistics import milliseconds, ratio

if TYPE_CHECKING:
    from metrics.rank_view import RankView
    from metrics.view import View

_SHOWN: Final = 20


def compute(view: View) -> Result:
    """Walk back through every step, or through the trace where no steps are measured."""
    ranks = device_ranks(view)
    walk = Walk(view)
    paths: dict[int, Path] = {}
    for step, opened in _windows(ranks).items():
        last = last_work(walk, opened)
        if last is not None:
            paths[step] = walk.back(*last, opened)
    total = together(list(paths.values()))
    if not total.total_ns:
        raise refuse("window_empty", "no device work in the steps or the window")
    details: dict[str, Any] = {
        "comm_on_path_ratio": ratio(total.parts["communication"], total.total_ns),
        "path_ms": milliseconds(total.total_ns) / len(paths),
        **{f"{part}_ms": milliseconds(total.parts[part]) / len(paths) for part in PARTS},
        "by_rank": _by_rank(total),
        "work": _work(total),
        "num_steps": len(paths),
        "num_pieces": total.pieces,
        "num_crossings": total.crossings,
        "per_step": {str(step): _row(path) for step, path in sorted(paths.items()) if step >= 0},
    }
    return answer(
        METRIC,
        view,
        details,
        source="kernel",
        basis={
            "before": "on a rank, the work that ended last before; through a collective, the "
            "member that came last by its duration",
            "gap": "until the launch the host's, from there to the start the launch's; wait where "
            "it was launched in time",
            "times": "means over steps",
        },
        reasons=[*_reasons(view, ranks), *without_device(view)],
    )


def _windows(ranks: list[RankView]) -> dict[int, dict[str, tuple[int, int]]]:
    """Windows of every step by rank label; step -1 is the whole trace."""
    steps: defaultdict[int, dict[str, tuple[int, int]]] = defaultdict(dict)
    for rank in ranks:
        for step, start, end in rank.step_windows:
            steps[step][rank.label] = (start, end)
    return dict(steps)


def _by_rank(path: Path) -> dict[str, Any]:
    ordered = sorted(path.by_rank.items(), key=lambda row: (-row[1], row[0]))
    return {label: {"ratio_of_path": ratio(ns, path.total_ns)} for label, ns in ordered}


def _row(path: Path) -> dict[str, Any]:
    longest = max(path.by_rank, key=lambda label: path.by_rank[label], default=None)
    parts = {f"{part}_ms": milliseconds(path.parts[part]) for part in PARTS}
    return {"path_ms": milliseconds(path.total_ns), **parts, "rank": longest}


def _work(path: Path) -> list[dict[str, Any]]:
    """What takes most of the way, by bare names."""
    found: defaultdict[tuple[str, str], int] = defaultdict(int)
    for (part, name), length in path.by_work.items():
        found[part, bare_name(name)] += length
    ordered = sorted(found.items(), key=lambda row: (-row[1], row[0]))[:_SHOWN]
    return [
        {
            "name": name,
            "part": part,
            "ms": milliseconds(ns),
            "ratio_of_path": ratio(ns, path.total_ns),
        }
        for (part, name), ns in ordered
    ]


def _reasons(view: View, ranks: list[RankView]) -> list[Reason]:
    """Why the way may have missed a rank."""
    world = view.world_size
    if len(ranks) == 1 and world is not None and world > 1:
        text = f"1 of {world} ranks found: waiting for the others counts as communication"
        return [Reason("single_rank", text)]
    labels = [rank.label for rank in ranks]
    if len(ranks) > 1 and not view.options.raw_clocks and not view.clocks.comparable(labels):
        text = "the clocks are not known against each other: which rank ended last is not certain"
        return [Reason("clock_unknown", text)]
    return []


METRIC = Metric(
    name="critical_path",
    unit="ratio",
    definition=(
        "Share of communication in the chain of work that decided when a step ended, followed "
        "backwards over all ranks: through a collective it leads to the rank that came last."
    ),
    needs=("GPU kernels", "launch records and several ranks to tell more"),
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
    compute=compute,
    label="communication on path",
    higher_is_better=False,
    category="stragglers",
)
metric_cal = metric_cal_of(METRIC.name)
