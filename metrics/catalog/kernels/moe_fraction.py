"""Share of kernel time in the parts of a mixture of experts, identified by names."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ccltui.metrics.arrays.intervals import union
from ccltui.metrics.arrays.reductions import distinct_values
from ccltui.metrics.arrays.statistics import milliseconds, ratio
from ccltui.metrics.device.device_time import device_ranks, device_reasons
from ccltui.metrics.metric import metric
from ccltui.metrics.model.classify import COMM, COMP, TYPES, any_name, distinct, few_texts
from ccltui.metrics.model.dimensions import DIMS, MODES
from ccltui.metrics.result import Result
from ccltui.metrics.unavailable import refuse
from ccltui.metrics.view.provenance import answer
from ccltui.parsers.array_types import Bool
from ccltui.parsers.columns import Group

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View
    from ccltui.metrics.view.rank_view import RankView

PATTERN: Final = re.compile(
    r"""(?<![a-zA-Z])moe(?![a-z]) | MoE | MOE(?![a-z]) | (?i:expert|routing|router|gating)
    | (?i:top_?k)(?![a-z]) | (?i:grouped_?(?:gemm|mm)) | GroupProblemShape | matmul_ogs
    | (?i:token|expert|moe|deep_ep)(?i:\w|::|\s){0,40}?(?i:dispatch|combine)
    """,
    re.VERBOSE,
)
"""Names of parts of a mixture of experts. A bare "dispatch" or "combine" proves nothing."""

_HOST: Final[tuple[Group, ...]] = ("cpu_ops", "annotations")
_ALL_TO_ALL: Final = TYPES.index("AllToAll")
_EXPERTS: Final = DIMS.index("ep")
_GUESSED: Final = MODES.index("heuristic")
_SHOWN: Final = 30


@metric(
    unit="ratio",
    definition=(
        "Share of the summed kernel time in kernels of a mixture of experts: those with such a "
        "name, launched inside an operator with such a name, or exchanging tokens between "
        "experts."
    ),
    needs=("GPU kernels", "names of experts, routing or grouped products"),
    facts=("calls", "sums"),
    keys=(
        "moe_fraction",
        "moe_ms",
        "expert_comm_ms",
        "kernel_time_ms",
        "matched_names",
        "num_matched_names",
        "per_rank",
    ),
    sums=(lambda view, rank: _sums(view, rank),),  # noqa: PLW0108 (it is defined below)
    label="expert kernels (by name)",
    category="experts",
)
def moe_fraction(view: View) -> Result:
    """Time of kernels with a name of the pattern, or launched inside an operator with one."""
    if view.card.value("moe") is False:
        raise refuse(
            "not_applicable", "according to the card the model is not a mixture of experts"
        )
    ranks = device_ranks(view)
    found = [_sums(view, rank) for rank in ranks]
    sums = [one for one, _ in found]
    matched: defaultdict[str, int] = defaultdict(int)
    for _, names in found:
        for name, time_ns in names.items():
            matched[name] += time_ns
    if not matched:
        raise refuse(
            "not_applicable",
            "no kernel, operator or group is named like a part of a mixture of experts",
        )
    total = {key: sum(row[key] for row in sums) for key in sums[0]}
    details: dict[str, Any] = {
        "moe_fraction": ratio(total["moe"], total["kernels"]),
        "moe_ms": milliseconds(total["moe"]) / len(ranks),
        "expert_comm_ms": milliseconds(total["comm"]) / len(ranks),
        "kernel_time_ms": milliseconds(total["kernels"]) / len(ranks),
        "matched_names": _named(matched),
        "num_matched_names": len(matched),
        "per_rank": {
            rank.label: {"moe_fraction": ratio(row["moe"], row["kernels"])}
            for rank, row in zip(ranks, sums, strict=True)
        },
    }
    return answer(
        moe_fraction,
        view,
        details,
        source="kernel",
        basis={
            "method": "heuristic: names of kernels, and of operators around their launch",
            "share": "of the summed durations of all kernels",
        },
        reasons=device_reasons(view),
        warnings=["heuristic: read matched_names before believing the share"],
    )


def _sums(view: View, rank: RankView) -> tuple[dict[str, int], dict[str, int]]:
    """Return kernel time in ns, and the time that each name accounts for."""
    return rank.sum_up(_sums, lambda: _sums_of(view, rank))


def _sums_of(view: View, rank: RankView) -> tuple[dict[str, int], dict[str, int]]:
    matched: defaultdict[str, int] = defaultdict(int)
    kernels, exchanging = rank.facts.classes <= COMP, _expert_calls(view, rank)
    texts = few_texts(rank.trace.strings)
    if not exchanging.any() and texts is not None and not _is_any_named(texts):
        return {"moe": 0, "comm": 0, "kernels": rank.device_sums().kernels_ns}, {}
    gpu, clipped = rank.trace.group("gpu"), rank.clipped_ns
    named = kernels & _by_name(rank, gpu.name, matched, clipped)
    inside = kernels & ~named & _inside_operators(rank, matched, kernels & ~named)
    exchange = exchanging & kernels & ~named & ~inside
    if exchange.any():
        matched["all-to-all of experts"] += int(clipped[exchange].sum())
    moe = named | inside | exchange
    talks = moe & (rank.facts.classes == COMM)
    sums = {
        "moe": int(clipped[moe].sum()),
        "comm": int(clipped[talks].sum()),
        "kernels": int(clipped[kernels].sum()),
    }
    return sums, matched


@lru_cache(maxsize=8)
def _is_any_named(texts: tuple[str, ...]) -> bool:
    """Whether any string of a rank is named like a part of a mixture of experts."""
    return any(PATTERN.search(text) for text in texts)


def _by_name(
    rank: RankView, names: np.ndarray[Any, Any], matched: defaultdict[str, int], clipped: Any
) -> Bool:
    chosen = [i for i in distinct(names) if PATTERN.search(rank.trace.text(i))]
    for i in chosen:
        matched[rank.trace.text(i)] += int(clipped[names == i].sum())
    return any_name(rank.trace.strings, names, chosen)


def _inside_operators(rank: RankView, matched: defaultdict[str, int], candidates: Bool) -> Bool:
    """Mask of kernels launched while a host range of such a name was open on the same thread."""
    runtime, launches = rank.trace.group("runtime"), rank.facts.launch_row
    found = np.zeros(len(launches), np.bool_)
    rows = np.flatnonzero(candidates & (launches >= 0))
    for group in _HOST:
        events = rank.trace.group(group)
        for name in distinct(events.name):
            if not PATTERN.search(rank.trace.text(name)):
                continue
            ranges = np.flatnonzero(events.name == name)
            rest = rows[~found[rows]]
            launch = launches[rest]
            hit = np.zeros(len(rest), np.bool_)
            for track in distinct_values(events.track[ranges]):
                mine = ranges[events.track[ranges] == track]
                opened = union(events.start_ns[mine], events.end_ns[mine])
                here = runtime.track[launch] == track
                hit[here] = opened.contains(runtime.start_ns[launch[here]])
            if hit.any():
                matched[rank.trace.text(name)] += int(rank.clipped_ns[rest[hit]].sum())
                found[rest[hit]] = True
    return found


def _expert_calls(view: View, rank: RankView) -> Bool:
    """Rows of ``gpu`` that exchange tokens on a group that is known as that of the experts.

    An all-to-all alone is no evidence of experts: recommendation models exchange embeddings so.
    """
    rows = np.zeros(len(rank.facts.classes), np.bool_)
    calls = view.with_dims(rank, rank.recorded_calls)
    exchanges = calls.kind == _ALL_TO_ALL
    if calls.event_group == "gpu" and exchanges.any():
        dims, modes = view.dims_of(calls)
        known = (dims == _EXPERTS) & (modes != _GUESSED)
        rows[calls.rows.of("gpu")[known & exchanges]] = True
    return rows


def _named(matched: dict[str, int]) -> list[dict[str, Any]]:
    ordered: Iterable[tuple[str, int]] = sorted(matched.items(), key=lambda row: (-row[1], row[0]))
    return [{"name": name, "ms": milliseconds(ns)} for name, ns in list(ordered)[:_SHOWN]]


metric_cal = moe_fraction.document_of
