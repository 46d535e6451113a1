"""Who has more work by the times of the ranks themselves: a stage, or some micro-batches.

Ranks of one pipeline stage compute alike, whatever their calls are matched to; a stage with more
layers computes longer on all of them (`heavier_stage`). Ranks that handle the same micro-batches,
on several stages or in one tensor-parallel group, take longer together in the steps whose
micro-batches have more work, each by the same part; slow devices do not (`uneven_work`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from ccltui.metrics.arrays.typical import lower_median
from ccltui.metrics.device.device_time import device_ranks
from ccltui.metrics.findings.waits.own_times import (
    CLEAR_EXCESS,
    LEAST_EXCESS,
    NamedByTimes,
    Speeds,
    has_stages,
    host_of_all,
    speeds_of,
)
from ccltui.metrics.model.classify import COMP
from ccltui.parsers.array_types import F64, I64

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View
    from ccltui.metrics.view.rank_view import RankView

SAME_STAGE: Final = 0.25
"""Share of the excess of a stage by which its ranks differ: they run one program."""
APART: Final = 0.5
"""Share of the excess of a stage by which no rank of another one may come closer to it."""
SAME_WORK: Final = 0.5
"""Difference of two ranks over what each varies by, where they handle the same micro-batches: 0.02
to 0.41 in the median of such ranks of 13 generated jobs, and 1.2 to 1.8 in 10 with equal work."""
OTHER_WORK: Final = 0.7
"""The same from which on, in the median, two ranks handle others: between the two."""
LEAST_SPREAD: Final = 0.03
"""Variation that costs something: that of the same 13 jobs is 0.04 to 0.16."""
FEWEST_STEPS: Final = 4
"""In fewer steps ranks vary alike by chance."""
STAGES: Final = (2, 4, 8)
"""Numbers of stages that are tried where no file tells them."""
MOST_HITS: Final = 0.5
"""Share of steps that are far longer from which on a rank is slow, and not by chance."""
KNOWN: Final = 0.5
"""Share of steps in which a rank has to be comparable: those with less leave too few steps."""
OTHER_WORK_LOG: Final = (0.1, 0.8)
"""Logarithms, to base 2, of times of kernels that differ by their work, and not by their pass."""
MOST_DIFFER: Final = 0.6
"""Share of kernels that differ so: 0.64 to 0.85 of 7 generated jobs with unequal micro-batches, and
0.1 to 0.6 of 4 with equal ones."""


def heavier_stage(view: View) -> NamedByTimes | None:
    """Return the pipeline stage that computes longer than the others, None where none does.

    Stages are blocks of ranks in the order of their numbers, as in Megatron-LM and DeepSpeed.
    """
    return view.remember(heavier_stage, lambda: _heavier(device_ranks(view)))


def _heavier(ranks: Sequence[RankView]) -> NamedByTimes | None:
    count = len(ranks)
    if count < 4 or not has_stages(ranks) or any(rank.rank is None for rank in ranks):
        return None
    compute = np.array([rank.comp_ns / max(rank.window_ns, 1) for rank in ranks])
    order = np.argsort(compute)
    size = count - 1 - int(np.diff(compute[order]).argmax())
    heavy, others = order[count - size :], order[: count - size]
    if size < 2 or 2 * size > count or count % size:
        return None
    numbers = sorted(int(ranks[one].rank or 0) for one in heavy.tolist())
    if numbers[-1] - numbers[0] != size - 1 or numbers[0] % size:
        return None
    usual = lower_median(compute[others])
    excess = float(compute[heavy].mean()) - usual
    factor = 1 + excess / max(usual, 1e-9)
    spread = float(np.ptp(compute[heavy]))
    gap = float(compute[heavy].min() - compute[others].max())
    if excess < LEAST_EXCESS or factor < 1 + CLEAR_EXCESS:
        return None
    if spread > SAME_STAGE * excess or gap < APART * excess:
        return None
    waiting = float((1 - compute[others]).mean())
    # Work that is shared out remains to be done: the stage keeps its part of it.
    share = min(excess * len(others) / count, waiting)
    labels = tuple(ranks[one].label for one in sorted(heavy.tolist()))
    host = host_of_all(ranks, labels)
    kind = "heavy_stage" if host is None else "slow_node"
    return NamedByTimes(kind, labels, share, "low", factor, host=host)


def uneven_work(view: View) -> NamedByTimes | None:
    """Return that micro-batches have unequal work, None where nothing shows it."""
    return view.remember(uneven_work, lambda: _uneven(speeds_of(view), device_ranks(view)))


def _uneven(speeds: Speeds | None, ranks: Sequence[RankView]) -> NamedByTimes | None:
    if speeds is None:
        return None
    known, factor = _comparable(speeds)
    if len(known) < 4 or factor.shape[1] < FEWEST_STEPS:
        return None
    beyond = factor - factor.mean(axis=1, keepdims=True)
    staged = has_stages(ranks) and not (speeds.step_ids >= 0).all()
    whole = staged and len(known) == len(ranks)
    for varies in _without_stages(beyond) if whole else [beyond]:
        classes = _classes(varies)
        if classes is None:
            continue
        members = [[ranks[known[place]] for place in one] for one in classes]
        if not staged or not _may_be_stages(members):
            of_class = np.array([varies[one].mean(axis=0) for one in classes])
            share = _lost(of_class, ranks)
            return NamedByTimes("uneven_microbatches", (), share, "medium")
    return None


def _lost(factor: F64, ranks: Sequence[RankView]) -> float:
    """Return what is lost where all wait in each step for those that take longest in it.

    Args:
        factor: time of ranks, or sets of ranks, over what is usual, [sets, steps].
        ranks: all ranks.
    """
    longer = float((factor.max(axis=0) - factor.mean(axis=0)).mean())
    compute = np.array([rank.comp_ns / max(rank.window_ns, 1) for rank in ranks])
    return min(longer * float(compute.mean()), float((1 - compute).mean()))


def uneven_passes(view: View) -> NamedByTimes | None:
    """Return what passes of unequal work cost, where these are known to have that."""
    speeds = speeds_of(view)
    factor = None if speeds is None else _comparable(speeds)[1]
    if factor is None or not factor.size:
        return None
    return NamedByTimes("uneven_microbatches", (), _lost(factor, device_ranks(view)), "low")


def _comparable(speeds: Speeds) -> tuple[I64, F64]:
    """Return the ranks that are known in most steps, and their factors in steps with all."""
    known = np.flatnonzero((~np.isnan(speeds.by_step)).mean(axis=1) > KNOWN)
    factor = speeds.by_step[known]
    return known, np.asarray(factor[:, ~np.isnan(factor).any(axis=0)])


def by_chance(view: View) -> NamedByTimes | None:
    """Return that single steps of several ranks take longer by chance, None where others do too.

    They are few and far longer, and in all other steps all ranks take as long as usual.
    """
    speeds = speeds_of(view)
    factor = None if speeds is None else _comparable(speeds)[1]
    if factor is None or not len(factor) or factor.shape[1] < FEWEST_STEPS:
        return None
    hits = factor >= 1 + CLEAR_EXCESS
    of_rank = hits.mean(axis=1)
    if int((of_rank > 0).sum()) < 2 or float(of_rank.max()) >= MOST_HITS:
        return None
    if float(factor[~hits].std()) > LEAST_SPREAD:
        return None
    return NamedByTimes("random", (), _lost(factor, device_ranks(view)), "low")


def _without_stages(beyond: F64) -> Iterator[F64]:
    """Yield how ranks vary over a window, then without what those of a stage have in common.

    Stages differ in the order of forward and backward passes, which parts of a window show.
    """
    yield beyond
    count = len(beyond)
    for stages in STAGES:
        if count % stages == 0 and count >= 2 * stages:
            of_stage = beyond.reshape(stages, count // stages, -1)
            yield (of_stage - of_stage.mean(axis=1, keepdims=True)).reshape(count, -1)


def _classes(beyond: F64) -> list[list[int]] | None:
    """Return the sets of ranks that vary together, None where they are not all of one size.

    All sets vary: where one does and the others do not, its ranks may share a slow host.
    """
    own = (beyond**2).mean(axis=1)
    if math.sqrt(own.mean()) < LEAST_SPREAD or math.sqrt(own.min()) < LEAST_SPREAD / 2:
        return None
    left = np.ones(len(beyond), np.bool_)
    classes: list[list[int]] = []
    while left.any():
        rank = int(left.argmax())
        difference = np.sqrt(((beyond - beyond[rank]) ** 2).mean(axis=1))
        ratio = difference / np.sqrt((own + own[rank]) / 2)
        alike = ratio <= SAME_WORK
        size = int(alike.sum())
        apart = size < len(beyond) and float(np.median(ratio[~alike])) >= OTHER_WORK
        if size < 2 or not apart or not left[alike].all():
            return None
        if classes and size != len(classes[0]):
            return None
        classes.append(np.flatnonzero(alike).tolist())
        left &= ~alike
    return classes


def _may_be_stages(classes: Sequence[Sequence[RankView]]) -> bool:
    """Whether sets of ranks may be stages, or several of them, which order their passes otherwise.

    Kernels of one pass take the same time on them, and one of a forward pass half of a backward
    one: most differ by other parts only where the work does.
    """
    first, *others = (_main_kernels(one[0]) for one in classes)
    differ = [np.abs(np.log2(one / first)) for one in others if len(one) == len(first)]
    work = [((one > OTHER_WORK_LOG[0]) & (one < OTHER_WORK_LOG[1])).mean() for one in differ]
    return len(differ) < len(others) or min(map(float, work)) < MOST_DIFFER


def _main_kernels(rank: RankView) -> F64:
    """Return the durations of the kernels of the name that takes longest, in order of time."""
    gpu = rank.trace.group("gpu")
    rows = np.flatnonzero((rank.facts.classes == COMP) & rank.starts_inside & (gpu.name >= 0))
    name = np.bincount(gpu.name[rows], gpu.dur_ns[rows]).argmax() if len(rows) else 0
    mine = rows[gpu.name[rows] == name]
    order = np.argsort(gpu.start_ns[mine], kind="stable")
    found: F64 = np.maximum(gpu.dur_ns[mine[order]], 1).astype(np.float64)
    return found
