"""Findings on jobs with devices: parts of the partition of rank time, and who causes them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct
from msgspec.structs import replace

from ccltui.metrics.arrays.reductions import distinct_values, joined, median_along
from ccltui.metrics.arrays.statistics import milliseconds
from ccltui.metrics.confidence import Level, Sure
from ccltui.metrics.device.device_time import device_ranks, require_communication_on_device
from ccltui.metrics.findings.accused import NAMED
from ccltui.metrics.findings.causes.activity import HOST_BLOCKED
from ccltui.metrics.findings.causes.instance_report import describe
from ccltui.metrics.findings.culprits import OF_HOSTS, Culprits, details_of
from ccltui.metrics.findings.finding import Answer, Evidence, Finding, Where
from ccltui.metrics.findings.rank_time.partition import (
    OTHERS,
    UNKNOWN,
    Part,
    partition,
    place_of,
    split_time,
    total_of,
)
from ccltui.metrics.findings.rank_time.portions import Portions, portions_of
from ccltui.metrics.findings.recordings.single_findings import (
    SlowLengths,
    by_replica,
    in_slow_steps,
    prefill_apart,
    slow_finding,
    slow_lengths,
    slow_operator,
    slow_replicas,
    with_slow_node,
)
from ccltui.metrics.findings.sentences import (
    CAUSES,
    IDLE,
    RECORD,
    cost_text,
    idle_text,
    waiting_text,
)
from ccltui.metrics.model.classify import COMP, GENERIC
from ccltui.metrics.model.communicator_groups import format_ranks
from ccltui.metrics.model.kernel_names import bare_name, category_of
from ccltui.metrics.unavailable import Refusal
from ccltui.metrics.view.data_quality import missing_ranks
from ccltui.metrics.view.rank_view import in_turn
from ccltui.metrics.view.words import sentence, short_name
from ccltui.metrics.workload.call_parts import dims_of_types
from ccltui.parsers.numbers import counted, percent, time_text

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View
    from ccltui.metrics.view.rank_view import RankView

MATERIAL: Final = 0.01
"""Share of rank time below which a finding is not listed: half a per cent to one is the scatter of
step times between runs of one job."""
COMPUTE_BOUND: Final = 0.9
"""Share of computing from which on nothing else is worth more than the kernels themselves."""
MOSTLY: Final = 0.6
LARGE_LOSS: Final = 0.1
"""Where devices compute `MOSTLY` and no loss reaches this share, kernels are what to look at."""
OWN_SHARE: Final = 0.6
"""Ranks of a job are named for idle time where they have this share of it."""
_WEIGHTS: Final[Mapping[Level, float]] = {"high": 12.0, "medium": 9.0, "low": 6.0, "unknown": 3.0}
"""A fault comes before a cost that is up to so many times larger and that every step of such a
program has (transfers, launches, copies, the bubble of a schedule), the surer it is the more: a
fault can be fixed as a whole, those costs lowered only in part. With a third of these weights the
planted fault stood behind such a cost in 20 of 143 jobs, with these in 6."""
FAULT: Final = 0.02
"""Share of rank time from which on a fault comes before computing, however much that takes: twice
the share that is material at all."""
SHORT_SPAN: Final = 0.1
"""Part of a recording below which the span of device work is too short to be called the time; hosts
begin somewhat before their devices, and end after them."""
_SHOWN_KERNELS: Final = 3
_ALL_IN_ONE: Final = "Its kernels perform all operations, and their names tell none."


class Scale(Struct, frozen=True):
    """Rank time of a view and the period that costs are stated for.

    Attributes:
        ranks: number of ranks with device work.
        span_ns: device span of all ranks together.
        steps: steps of each rank, None where no step is measured or ranks differ.
    """

    ranks: int
    span_ns: int
    steps: int | None

    @property
    def period_ms(self) -> float:
        """Device span of a step, or of the window, mean over ranks."""
        return milliseconds(self.span_ns) / self.ranks / (self.steps or 1)

    @property
    def of_period(self) -> str:
        """The period in words: "a step of 29.1 ms", or the length of the window."""
        length = time_text(self.period_ms)
        return f"a step of {length}" if self.steps else length

    def share(self, ns: float) -> float:
        """Share of rank time."""
        return ns / self.span_ns if self.span_ns else 0.0

    def cost_ms(self, ns: float) -> float:
        """Time a step, mean over ranks."""
        return milliseconds(ns) / self.ranks / (self.steps or 1)

    def cost(self, ns: float) -> str:
        """Time a step in words."""
        return cost_text(self.cost_ms(ns), by_steps=self.steps is not None)


def scale_of(ranks: Sequence[RankView]) -> Scale:
    """Return rank time and period of ranks with device work."""
    counts = {len(rank.step_windows) if rank.by_steps else 0 for rank in ranks}
    steps = counts.pop() or None if len(counts) == 1 else None
    return Scale(len(ranks), sum(rank.window_ns for rank in ranks), steps)


def device_answer(view: View) -> Answer:
    """Return the findings on a job with kernels, the headline first.

    Raises:
        Refusal: no rank has kernels in the selection.
    """
    ranks = device_ranks(view)
    scale = scale_of(ranks)
    computing = _computing(ranks, scale)
    try:
        require_communication_on_device(ranks)
        lost = partition(view).losses
        portions: Portions | None = portions_of(view)
        unknown: tuple[str, ...] = ()
    except Refusal as refusal:
        lost, portions = [], None
        unknown = tuple(sentence(reason.message) for reason in refusal.reasons)
        computing = replace(
            computing, more=" ".join(filter(None, (computing.more, _rest(ranks, scale))))
        )
    culprits = Culprits(view, scale.period_ms, by_steps=scale.steps is not None)
    slow = slow_lengths(view, ranks) if scale.steps else None
    found = [
        *_waiting(view, scale, lost, culprits),
        *_communication(view, scale, lost),
        *_bubble(view, scale, lost),
        *_copies(view, scale, lost),
        *_idle(view, scale, ranks, lost, slow),
    ]
    found = culprits.refine(found)
    # a finding that is not listed tells nobody why a step is slow
    listed = [one for one in found if (one.share or 0.0) >= MATERIAL]
    explained = {step for one in listed for step in one.where.steps}
    blamed = {rank for one in found if _is_fault(one) for rank in one.where.ranks}
    if slow is not None and not explained & set(slow.steps):
        found.append(slow_finding(view, ranks, slow, scale.period_ms, blamed))
    found += slow_replicas(view)
    found = with_slow_node(view, ranks, found, lambda ns: (scale.share(ns), scale.cost_ms(ns)))
    ordered = _ranked([one for one in found if (one.share or 0.0) >= MATERIAL], computing)
    if sum(len(rank.trace.group("gpu")) for rank in ranks) == 1:  # of no step of any job
        ordered[0] = replace(ordered[0], do=RECORD)
    return Answer(
        recording="ranks" if len(view.job.ranks) > 1 else "one_rank",
        findings=by_replica(view, ordered),
        unknown=(*unknown, *culprits.unknown(), *prefill_apart(view)),
        period="step" if scale.steps else "window",
        period_ms=scale.period_ms,
        portions=portions,
    )


def _ranked(found: Sequence[Finding], computing: Finding) -> list[Finding]:
    """Order findings: the headline first, computing first where it takes nearly all time."""
    ordered = sorted(found, key=_weight, reverse=True)
    share = computing.share or 0.0
    largest = max((one.share or 0.0 for one in ordered), default=0.0)
    is_bound = share >= COMPUTE_BOUND or (share >= MOSTLY and largest < LARGE_LOSS)
    has_fault = any(_is_fault(one) and (one.share or 0.0) >= FAULT for one in ordered)
    if not ordered or (is_bound and not has_fault):
        return [computing, *ordered]
    return [*ordered, computing] if share else ordered


def _is_fault(one: Finding) -> bool:
    """Return whether a cause is not meant to be there.

    It is a difference between ranks, or hosts that a replay shows to hold up all ranks.
    """
    is_waiting = one.kind in ("waiting_for_rank", "slow_steps") and bool(one.where.ranks)
    if one.kind in ("slow_replica", "slow_layer"):
        return True
    return one.kind in NAMED or is_waiting or (one.kind in OF_HOSTS and _is_replayed(one))


def _is_replayed(one: Finding) -> bool:
    return one.saves_ms is not None or any(item.metric == "verdict" for item in one.evidence)


def _weight(one: Finding) -> float:
    share = one.share or 0.0
    if not _is_fault(one):
        return share
    if one.kind == "waiting_for_rank" and not _is_replayed(one):
        return share * _WEIGHTS["unknown"]  # the others may wait for it without any loss
    return share * _WEIGHTS[one.sure.who if one.where.ranks else one.sure.what]


def _waiting(
    view: View, scale: Scale, lost: Sequence[Part], culprits: Culprits
) -> Iterator[Finding]:
    """Yield a finding for each rank that the others wait for, and one for all other waiting.

    A rank is named where it was busy while the others waited, more for it than for anybody else.
    """
    waits = [loss for loss in lost if loss.kind == "straggler"]
    shares = {loss.what: scale.share(loss.total_ns) for loss in waits}
    here, all_here = [rank.label for rank in view.ranks], not view.job.missing_ranks
    by_rank = [
        loss
        for loss in waits
        if loss.what != OTHERS
        and culprits.is_supported(
            loss.what,
            shares[loss.what],
            max((share for what, share in shares.items() if what != loss.what), default=0.0),
        )
    ]
    rest = [loss for loss in waits if loss not in by_rank]
    for own in (*([loss] for loss in by_rank), *([rest] if rest else [])):
        total = sum(loss.total_ns for loss in own)
        share, cost = scale.share(total), scale.cost(total)
        label = own[0].what if own is not rest else ""
        labels = (label,) if label else ()
        cause = culprits.cause_of(label)
        more, do = CAUSES.get(cause, ("", ""))
        place = place_of(view, own[0])
        if cause == HOST_BLOCKED and place is not None:
            more += _long_operation(view, label, place)
        yield Finding(
            kind="waiting_for_rank",
            text=sentence(waiting_text(labels, here, share, cost, all_here=all_here)),
            more=sentence(more),
            where=Where(ranks=labels),
            share=share,
            cost_ms=scale.cost_ms(total),
            saves_why="no replay shows how much shorter a step would be",
            sure=Sure(what="high", who=culprits.sure_of(label) if labels else "unknown"),
            evidence=tuple(_evidence(lost, loss, scale.share(loss.total_ns)) for loss in own[:4]),
            place=place,
            do=do,
        )


def _long_operation(view: View, label: str, place: Mapping[str, Any]) -> str:
    """Return the name of the operation that the host of a rank was in at the longest wait for it.

    "" where another cause made it late there.
    """
    if "index" not in place:
        return ""
    found = describe(view, place["group_number"], place["index"], doing=False)
    if found is None or found.last != label or found.evidence is None:
        return ""
    names = [one for one in found.evidence.host if one.cause == found.cause == HOST_BLOCKED]
    if not names:
        return ""
    much = time_text(milliseconds(names[0].dur_ns))
    return f": {short_name(names[0].name)}, {much} at the longest wait"


def _evidence(lost: Sequence[Part], loss: Part, share: float) -> Evidence:
    """Return the row of `fix_first` that states a loss."""
    number = next(number for number, one in enumerate(lost) if one is loss)
    return Evidence("fix_first", f"losses.{number}.share", share, "ratio")


def _communication(view: View, scale: Scale, lost: Sequence[Part]) -> Iterator[Finding]:
    """Yield exposed communication by type and dimension, groups of one dimension together."""
    dims = dims_of_types(view)
    merged: dict[tuple[str, str], list[Part]] = {}
    for loss in lost:
        if loss.kind == "communication":
            name = loss.what.partition(" of ")[0]
            dim = dims.get((name, loss.group), UNKNOWN)
            merged.setdefault((name, dim), []).append(loss)
    for (name, dim), own in merged.items():
        ns = sum(one.total_ns for one in own)
        share, cost = scale.share(ns), scale.cost(ns)
        what = _communication_name(view, name, dim, own)
        yield Finding(
            kind="exposed_communication",
            text=sentence(f"{what} is not hidden: {percent(share)} of the time{cost}"),
            more=" ".join(
                filter(
                    None, (_ALL_IN_ONE if name == GENERIC else "", sentence(_what_it_holds(view)))
                )
            ),
            where=Where(group=None if dim == UNKNOWN else dim, kernel=name),
            share=share,
            cost_ms=scale.cost_ms(ns),
            saves_why="how much of it can be hidden depends on the program",
            sure=Sure(what="high"),
            evidence=tuple(_evidence(lost, one, scale.share(one.total_ns)) for one in own[:4]),
            place=place_of(view, own[0]),
            do="Overlap communication with computation (bucket sizes, prefetching, another "
            "stream), send less (gradient accumulation, lower precision), or use a faster link.",
        )


def _bubble(view: View, scale: Scale, lost: Sequence[Part]) -> Iterator[Finding]:
    """Yield the finding on time in transfers between stages: a receive runs until data is sent."""
    own = [loss for loss in lost if loss.kind == "bubble"]
    if not own:
        return
    ns = sum(one.total_ns for one in own)
    share = scale.share(ns)
    name = own[0].what.partition(" of ")[0]  # that of the largest
    known = details_of(view, "pipeline_bubble")
    measured = _bubble_ratio(known)
    evidence = [_evidence(lost, one, scale.share(one.total_ns)) for one in own[:4]]
    if measured is not None:
        evidence.append(Evidence("pipeline_bubble", "bubble_ratio", measured, "ratio"))
    yield Finding(
        kind="pipeline_bubble",
        text=sentence(
            f"pipeline stages wait for each other in {name} {percent(share)} of the time"
            f"{scale.cost(ns)}"
        ),
        more=_bubble_measured(known),
        where=Where(group="pp", kernel=name),
        share=share,
        cost_ms=scale.cost_ms(ns),
        saves_why="how short the bubble can be depends on the schedule",
        sure=Sure(what="medium"),
        evidence=tuple(evidence),
        place=place_of(view, own[0]),
        do="Use more micro-batches, an interleaved or zero-bubble schedule, or stages that take "
        "equal time.",
    )


def _bubble_ratio(known: Mapping[str, Any]) -> float | None:
    """Return the bubble, None where only idle time is known, of which a bubble is any part."""
    ratio: float | None = known.get("bubble_ratio")
    return None if known.get("method") == "idle_only" else ratio


def _bubble_measured(known: Mapping[str, Any]) -> str:
    """Return how the time in transfers and the metric `pipeline_bubble` differ, with its theory."""
    told = "A receive runs until its data arrives, so most of this time is the pipeline bubble."
    measured, expected = _bubble_ratio(known), known.get("theoretical_ratio")
    if measured is None:
        return told
    told = (
        f"The pipeline bubble is {percent(measured)}: idle time in steps counts too, the time in "
        "which data moves does not"
    )
    if expected is None:
        return f"{told}."
    shape = f"{known['pp']} stages and {known['microbatches']} micro-batches"
    return f"{told}; {percent(expected)} is expected of {shape}."


def _communication_name(view: View, name: str, dim: str, own: Sequence[Part]) -> str:
    """Return what communicates; a kernel that performs all operations does not tell which."""
    told = "communication" if name in (UNKNOWN, GENERIC) else name
    if name == UNKNOWN:
        return told
    if dim != UNKNOWN:
        return f"{told} of {dim}"
    if len({one.what for one in own}) > 1:
        return told
    group = view.group(own[0].group) if own[0].group >= 0 else None
    if group is None or not group.implied:
        return own[0].what.replace(name, told, 1)
    # Of an inferred group no file states more than its stream.
    everyone = len(group.ranks) == len(view.job.ranks)
    ranks = "" if everyone else f" of ranks {format_ranks(group.ranks)}"
    return f"{told} on {group.description}{ranks}"


def _what_it_holds(view: View) -> str:
    """Say whether exposed communication may contain waiting for ranks that are not here."""
    missing, here = len(missing_ranks(view)), len(view.job.ranks)
    if missing:
        return (
            f"only {here} of {counted(here + missing, 'rank')} {'is' if here == 1 else 'are'} "
            "recorded: part of this may be waiting for the others"
        )
    if here == 1:
        return "one rank alone does not show how much of this is waiting for others"
    return ""


def _copies(view: View, scale: Scale, lost: Sequence[Part]) -> Iterator[Finding]:
    for loss in lost:
        if loss.kind == "copies":
            share, cost = scale.share(loss.total_ns), scale.cost(loss.total_ns)
            yield Finding(
                kind="copies",
                text=sentence(
                    f"copies run while nothing computes: {percent(share)} of the time{cost}"
                ),
                share=share,
                cost_ms=scale.cost_ms(loss.total_ns),
                saves_why="how much of it can be hidden depends on the program",
                evidence=(_evidence(lost, loss, share),),
                place=place_of(view, loss),
                do="Copy less, and overlap copies with computation: pinned memory "
                "(pin_memory=True) and non_blocking=True.",
            )


_KEEP_MEMORY: Final = (
    "Allocate memory of the device once, before the part that has to be fast, and keep it, or take "
    "it from a pool (cudaMallocAsync)."
)


def _are_of_torch(ranks: Sequence[RankView]) -> bool:
    """Return whether PyTorch runs, whose allocator has settings: by operators, else by kernels."""
    if any(len(rank.trace.group("cpu_ops")) for rank in ranks):
        return True
    return any(
        "at::native" in rank.trace.text(name)
        for rank in ranks
        for name in distinct_values(rank.trace.group("gpu").name).tolist()
    )


def _idle(
    view: View,
    scale: Scale,
    ranks: Sequence[RankView],
    lost: Sequence[Part],
    slow: SlowLengths | None,
) -> Iterator[Finding]:
    for loss in _with_loading(lost):
        if loss.kind != "idle":
            continue
        share, form = scale.share(loss.total_ns), IDLE[loss.what]
        labels = _mostly_of(loss, scale.ranks)
        who = "" if not labels else f"rank {labels[0]}" if len(labels) == 1 else ""
        text, cost = idle_text(loss.what, share, scale.ranks, who), scale.cost(loss.total_ns)
        detail = _idle_detail(view, loss, ranks, scale)
        do = detail.do or form.do
        if form.kind == "host_allocation" and not _are_of_torch(ranks):
            do = _KEEP_MEMORY
        causes = [one.what for one in lost if _holds(loss, one)]
        once = None if slow is None else in_slow_steps(slow, ranks, loss.total_ns, causes)
        yield Finding(
            kind=form.kind,
            text=sentence(text + (cost if once is None else once.text)),
            more=" ".join(filter(None, (*map(sentence, detail.more), once.more if once else ""))),
            where=Where(
                ranks=labels, kernel=detail.kernel, steps=slow.steps if slow and once else ()
            ),
            share=share,
            cost_ms=scale.cost_ms(loss.total_ns),
            saves_why="the work after the idle time may have to wait for something else",
            sure=Sure(what="low" if loss.what == UNKNOWN else "high"),
            evidence=tuple(
                _evidence(lost, one, scale.share(one.total_ns)) for one in lost if _holds(loss, one)
            ),
            place=place_of(view, loss),
            do=do if once is None else f"{do} {once.do}",
        )


def _with_loading(lost: Sequence[Part]) -> Iterator[Part]:
    """Yield losses, idle time while code is loaded with that of a host in no operator.

    Both are the host's, outside of operators; the larger one gives the sentence.
    """
    idle = {one.what: one for one in lost if one.kind == "idle"}
    other, loading = idle.get("host_other"), idle.get("compilation")
    if other is None or loading is None or loading.total_ns > other.total_ns:
        yield from lost
        return
    labels = {*other.by_rank, *loading.by_rank}
    both = {one: other.by_rank.get(one, 0) + loading.by_rank.get(one, 0) for one in labels}
    for one in lost:
        if one is other:
            yield replace(other, by_rank=both)
        elif one is not loading:
            yield one


def _holds(loss: Part, one: Part) -> bool:
    """Return whether a part of the partition is in a finding's loss."""
    if one is loss:
        return True
    is_merged = loss.kind == "idle" and loss.what == "host_other" and loss.place is one.place
    return one.kind == "idle" and (
        (is_merged and one.what == "host_other")
        or (loss.what == "host_other" and one.what == "compilation")
    )


def _mostly_of(loss: Part, num_ranks: int) -> tuple[str, ...]:
    """Return the rank that has most of a loss, empty where several share it or there is one."""
    if num_ranks < 2:
        return ()
    label = max(loss.by_rank, key=lambda one: (loss.by_rank[one], one))
    is_most = loss.by_rank[label] >= max(OWN_SHARE, 1.5 / num_ranks) * loss.total_ns
    return (label,) if is_most else ()


class _Detail(Struct, frozen=True):
    """Further sentences on idle time, the name of the call that they are about, and what to do."""

    more: tuple[str, ...] = ()
    kernel: str | None = None
    do: str = ""


def _idle_detail(view: View, loss: Part, ranks: Sequence[RankView], scale: Scale) -> _Detail:
    if loss.what not in ("operators", "launch_latency", "between_kernels"):
        return _Detail()
    size = view.remember(_kernel_size, lambda: _kernel_size(ranks, scale))
    if loss.what != "operators":
        return _Detail((size,))
    label = max(loss.by_rank, key=lambda one: (loss.by_rank[one], one))
    found = slow_operator(next(rank for rank in ranks if rank.label == label))
    if found is None:
        return _Detail((size,))
    who = f"rank {label}" if scale.ranks > 1 else ""
    return _Detail((found.text(who), size), found.name, found.do)


def _kernel_size(ranks: Sequence[RankView], scale: Scale) -> str:
    """Return how many kernels a step has, and how short: what a host has to keep up with."""
    every = joined(rank.trace.group("gpu").dur_ns[rank.starts_inside] for rank in in_turn(ranks))
    if not len(every):
        return ""
    number = round(len(every) / scale.ranks / (scale.steps or 1))
    median = milliseconds(float(median_along(every)))
    period = "a step" if scale.steps else "in all"
    return f"{counted(number, 'kernel')} {period}, with a median duration of {time_text(median)}"


def _computing(ranks: Sequence[RankView], scale: Scale) -> Finding:
    """Return the finding on computing: its share, and what computes longest."""
    total = total_of(split_time(rank) for rank in ranks)
    computing = total.comp_only + total.overlap
    share = scale.share(computing)
    categories: Counter[str] = Counter()
    kernels: Counter[str] = Counter()
    for rank in ranks:
        table = rank.work_by_name
        for name, kind, ns in zip(table.name, table.kind, table.total_ns, strict=True):
            if kind == COMP and ns:
                text = rank.trace.text(int(name)) if name >= 0 else ""
                kernels[bare_name(text)] += int(ns)
                categories[category_of(text)] += int(ns)
    work = sum(kernels.values())
    largest, ns = categories.most_common(1)[0] if categories else ("", 0)
    subject = "the device computes" if scale.ranks == 1 else "the devices compute"
    span = _short_span(ranks) or "the time"
    text = f"{subject} {percent(share)} of {span}"
    top = kernels.most_common(_SHOWN_KERNELS)
    if work and span == "the time":  # a sentence has three numbers at most
        named = largest != "other"
        takes = f"{_CATEGORY_NAMES[largest]} take" if named else f"{short_name(top[0][0])} takes"
        text += f"; {takes} {_much(ns if named else top[0][1], work)}"
    more = "; ".join(f"{short_name(name)} {percent(one / work)}" for name, one in top if work)
    return Finding(
        kind="compute_bound",
        text=sentence(text),
        more=sentence(f"largest kernels: {more}" if more else ""),
        where=Where(kernel=top[0][0] if top else None),
        share=share,
        cost_ms=scale.cost_ms(computing),
        saves_why="their times do not show how much faster the kernels could be",
        evidence=(Evidence("temporal_breakdown", "comp_ratio", share, "ratio"),),
        do="Look at the largest kernels (Kernels pane): shapes, precision, fusion; --metric mfu "
        "compares with the peak of the device.",
    )


def _rest(ranks: Sequence[RankView], scale: Scale) -> str:
    """Say how long devices do nothing where collectives ran on hosts: of that, no part is known."""
    idle = scale.share(total_of(split_time(rank) for rank in ranks).idle)
    return sentence(
        f"{percent(idle)} of the time nothing runs on the device: part of it may be waiting for "
        "collectives on the host"
        if idle >= MATERIAL
        else ""
    )


def _short_span(ranks: Sequence[RankView]) -> str:
    """Return the span of device work in words where it is a small part of the recording, else "".

    A device that works for 11 us of a recording of 34 ms computes all of its own span, and yet
    nobody would say that it computes all the time.
    """
    work = sum(rank.facts.extent.total_ns for rank in ranks)
    recorded = sum((r.trace.last_ns or 0) - (r.trace.first_ns or 0) for r in in_turn(ranks))
    if work >= SHORT_SPAN * recorded:
        return ""
    measured = sum(rank.window_ns for rank in ranks)
    work_ms, recorded_ms = (milliseconds(ns) / len(ranks) for ns in (measured, recorded))
    return (
        f"the {time_text(work_ms)} between its first and last work, in a recording of "
        f"{time_text(recorded_ms)}"
    )


def _much(part: int, whole: int) -> str:
    return "all of that" if part == whole else f"{percent(part / whole)} of that"


_CATEGORY_NAMES: Final = {
    "gemm": "matrix products",
    "attention": "attention kernels",
    "convolution": "convolutions",
    "softmax": "softmax kernels",
    "embedding": "embeddings",
    "norm": "normalisations",
    "moe": "expert kernels",
    "copy": "copying kernels",
    "gather": "gathers and scatters",
    "random": "random numbers",
    "reduction": "reductions",
    "elementwise": "element-wise kernels",
    "optimizer": "optimizer kernels",
}
