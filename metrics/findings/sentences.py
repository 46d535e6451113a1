"""Sentences of findings: what happens, where, what it costs; and what to do about it.

A sentence has at most three numbers, begins with what is known, and names things as an engineer
would. Nothing is computed here.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from msgspec import Struct

from ccltui.metrics.findings.finding import Kind
from ccltui.metrics.view.words import (
    BETWEEN_HOSTS,
    group_text,
    longer_than,
    numbers_text,
    ranks_text,
)
from ccltui.parsers.numbers import percent, time_text

MOST_CHARACTERS: Final = 200
"""Longest headline: what reads aloud in one breath."""


class Idle(Struct, frozen=True):
    """How idle time of one cause is stated.

    Attributes:
        kind: class of the finding.
        text: sentence with the places ``device_is`` (the subject with its verb) and ``share``.
        do: what to do.
    """

    kind: Kind
    text: str
    do: str


RECORD: Final = (
    "Record a few steps on all ranks with the PyTorch profiler (activities CPU and CUDA, "
    "export_chrome_trace on each rank) or with nsys; docs/collect.md has scripts."
)
_RECORD_LAUNCHES: Final = (
    "Record host events too (ProfilerActivity.CPU and CUDA, or nsys --trace=cuda,nvtx,osrt): they "
    "show what the device waits for."
)

IDLE: Final[Mapping[str, Idle]] = {
    "data_loading": Idle(
        "data_loading",
        "{device_is} idle {share} of the time while the host loads data",
        "Load data earlier: more DataLoader workers, prefetching, pinned memory, or a faster "
        "file system.",
    ),
    "checkpoint": Idle(
        "checkpoint",
        "{device_is} idle {share} of the time while the host saves a checkpoint",
        "Save checkpoints asynchronously (torch.distributed.checkpoint.async_save), or less often.",
    ),
    "garbage_collection": Idle(
        "garbage_collection",
        "{device_is} idle {share} of the time while Python collects garbage",
        "Collect garbage at the same step on all ranks (gc.disable(), then gc.collect() every N "
        "steps), or exclude long-lived objects (gc.freeze()).",
    ),
    "compilation": Idle(
        "host_bound",
        "{device_is} idle {share} of the time while the host compiles or loads kernels",
        "Record after the warm-up; keep shapes fixed, so that nothing is compiled again in later "
        "steps, and load kernels early (CUDA_MODULE_LOADING=EAGER).",
    ),
    "synchronisation": Idle(
        "host_synchronisation",
        "{device_is} idle {share} of the time because the host waits for the device before it "
        "launches more work",
        "Remove synchronisation from the step: .item(), .cpu(), printing a tensor, "
        "torch.cuda.synchronize().",
    ),
    "allocation": Idle(
        "host_allocation",
        "{device_is} idle {share} of the time while the host allocates memory",
        "Stop the allocator from freeing and reallocating memory: "
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, fixed shapes, a warm-up before the "
        "measured steps.",
    ),
    "operators": Idle(
        "host_bound",
        "the host is too slow: {waits} {share} of the time for operators to launch work",
        "Launch fewer kernels: torch.compile, CUDA graphs, fused operators, larger batches.",
    ),
    "host_other": Idle(
        "host_bound",
        "{waits} {share} of the time while no recorded work runs on the host",
        "Find out what the host does while the device waits: record Python stacks "
        "(with_stack=True) or NVTX ranges. It may be Python code, data loading, or another "
        "process on its CPUs.",
    ),
    "launch_latency": Idle(
        "launch_latency",
        "{waits} {share} of the time between the launch of a kernel and its start",
        "Let the host launch further ahead of the device: fewer synchronisations, larger "
        "kernels, or CUDA graphs.",
    ),
    "launch_call": Idle(
        "host_bound",
        "{device_is} idle {share} of the time while the host is inside long calls that launch "
        "kernels",
        "Find out what these calls wait for. The first launch of a kernel loads its code: "
        "record after the warm-up, or load kernels early (CUDA_MODULE_LOADING=EAGER).",
    ),
    "between_kernels": Idle(
        "kernel_gaps",
        "{device_is} idle {share} of the time in short gaps between kernels",
        "Run fewer and larger kernels: fusion, torch.compile, CUDA graphs.",
    ),
    "dependency": Idle(
        "stream_dependency",
        "{device_is} idle {share} of the time because launched work waits for another stream or "
        "event",
        "Look in the Timeline at what the stream waits for, and run independent work in that time.",
    ),
    "between_markers": Idle(
        "host_bound",
        "{device_is} idle {share} of the time between steps",
        "Find out what the host does between steps: data loading, logging, evaluation, "
        "checkpoints.",
    ),
    "unknown": Idle(
        "idle_unknown",
        "{device_is} idle {share} of the time for a reason that is not recorded",
        _RECORD_LAUNCHES,
    ),
}
"""By cause of idle time, as the partition names it."""


def idle_text(cause: str, share: float, num_ranks: int, who: str = "") -> str:
    """Return the sentence on idle time of one cause; ``who`` names the rank that has most.

    The share is of the time of all devices, so that they are the subject also then.
    """
    one = num_ranks == 1
    most = f", mainly that of {who}," if who else ""
    device_is = "the device is" if one else f"the devices{most} are"
    waits = "the device waits" if one else f"the devices{most} wait"
    return IDLE[cause].text.format(device_is=device_is, waits=waits, share=percent(share))


UNRECORDED_HOST: Final = "host_unrecorded"
"""Cause of a rank whose device idles, of which no event of the host is recorded."""
CAUSES: Final[Mapping[str, tuple[str, str]]] = {
    "compute": (
        "its kernels take longer than those of its peers",
        "Compare the GPU of the late rank with those of its peers: clock, temperature, power "
        "limit, other processes (nvidia-smi -q), and its share of the work.",
    ),
    "more_kernels": (
        "it runs more kernels than its peers",
        "Compare the late rank's share of the work with that of its peers: layers, batch size, "
        "extra branches.",
    ),
    "unequal_work": (
        "it has more work: its all-to-alls move more data",
        "Balance the load: expert routing, sharding of embedding tables, sequence lengths.",
    ),
    "previous_collective": ("a collective of another group delayed it", ""),
    "copies": (
        "it copies data while nothing computes",
        "Overlap the copies of the late rank with computation: pinned memory, non_blocking=True.",
    ),
    "slow_transfer": (
        "its transfers take longer",
        "Test the links of the late rank (nccl-tests, ibstat, nvidia-smi topo -m).",
    ),
    "data_loading": ("its device waits while its host loads data", IDLE["data_loading"].do),
    "checkpoint": ("its device waits while its host saves a checkpoint", IDLE["checkpoint"].do),
    "garbage_collection": (
        "its device waits while Python collects garbage on its host",
        IDLE["garbage_collection"].do,
    ),
    "compilation": (
        "its device waits while its host compiles or loads code",
        "Compile before the measured steps, and keep shapes fixed.",
    ),
    "allocation": ("its device waits while its host allocates memory", IDLE["allocation"].do),
    "synchronisation": (
        "its device runs out of work while its host synchronises with it",
        IDLE["synchronisation"].do,
    ),
    "host_blocked": (
        "its device waits while its host is in one long operation",
        "Find the long operation of the host: open the finding in the explorer, or record Python "
        "stacks (with_stack=True).",
    ),
    "host_work": (
        "its device waits while its host is still running operators",
        IDLE["operators"].do,
    ),
    "host_stall": (
        "its device idles, and its host runs no operator: it sleeps, waits, or runs Python code",
        IDLE["host_other"].do,
    ),
    UNRECORDED_HOST: ("its device idles, and its host is not recorded", _RECORD_LAUNCHES),
    "host_late": ("its host launches the work late", IDLE["host_other"].do),
    "earlier_lag": (
        "it was already late at an earlier collective, where the others did not wait for it",
        "",
    ),
    "not_read": (
        "its file is here, but is not read yet or cannot be read",
        "Wait until all files are read; ccltui doctor lists those that cannot be.",
    ),
    "not_recorded": (
        "its file is missing",
        "Find its trace, or record it: only that trace shows why it is late.",
    ),
}
"""By cause of a late rank: the sentence about it, and what to do."""


def waiting_text(
    labels: tuple[str, ...],
    waiting: Collection[str],
    share: float,
    cost: str,
    *,
    all_here: bool = True,
) -> str:
    """Return the headline of ranks that the others wait for; without labels, of waiting alone.

    Args:
        labels: the ranks that are waited for.
        waiting: the ranks in view; those waited for may not be among them.
        share: share of the time.
        cost: see `cost_text`.
        all_here: whether all ranks of the job are recorded.
    """
    much = f"{percent(share)} of the time{cost}"
    if not labels:
        return f"Ranks wait for each other {much}"
    others = "everyone waits" if all_here else "the other recorded ranks wait"
    if all_here and not set(labels) & set(waiting):
        others = "the selected ranks wait" if len(waiting) > 1 else "the selected rank waits"
    elif len(waiting) == 2:
        others = "the other rank waits" if all_here else "the other recorded rank waits"
    return f"{others} for {ranks_text(labels)}: {much}"


def cost_text(cost_ms: float | None, *, by_steps: bool) -> str:
    """Return ``, 749 ms a step`` or ``, 749 ms in all``, "" where the cost is unknown."""
    if cost_ms is None:
        return ""
    return f", {time_text(cost_ms)} {'a step' if by_steps else 'in all'}"


CLASSES: Final[Mapping[Kind, str]] = {
    "failure": "why the job ended, by the lines of its logs: the cause before what follows from it",
    "hang": "dumps, logs or NCCL's RAS show that the job hangs, and which ranks did not arrive",
    "waiting_for_rank": "ranks wait for one that arrives late at collectives or transfers",
    "slow_worker": "one rank computes longer than its peers, as a replay shows",
    "occasional_worker": "one rank computes longer than usual in some steps",
    "slow_node": "all ranks of one host compute longer than the others",
    "heavy_stage": "one pipeline stage has more work than the others",
    "uneven_microbatches": "micro-batches have unequal work",
    "uneven_experts": "experts get unequal numbers of tokens",
    "slow_link": "transfers of one pair or group take longer than comparable ones",
    "slow_replica": "one replica of a server takes longer for a pass of decode than the others",
    "slow_layer": "one node of a CUDA or HIP graph takes longer on one rank than on the others",
    "random": "times vary by chance over ranks and steps",
    "pipeline_bubble": "pipeline stages wait for each other as their schedule requires",
    "exposed_communication": "communication runs while nothing computes",
    "data_loading": "devices idle while the host loads data",
    "host_allocation": "devices idle while the host allocates memory",
    "host_synchronisation": "devices idle while the host waits for them",
    "checkpoint": "devices idle while the host saves a checkpoint",
    "garbage_collection": "devices idle while Python collects garbage",
    "host_bound": "devices wait for the host to launch work",
    "launch_latency": "time between a launch and the start of its kernel",
    "stream_dependency": "launched work waits for another stream or an event",
    "kernel_gaps": "short gaps between kernels",
    "idle_unknown": "devices idle for a reason that is not recorded, as launches are not",
    "copies": "copies run while nothing computes",
    "compute_bound": "devices compute nearly all the time; the largest kernels are named",
    "slow_steps": "single steps take much longer than the others: time of other findings too",
    "cpu_bound": "a job without devices spends its time in operators",
    "collective_wait": "a job without devices spends its time in collectives",
    "uneven_ranks": "in a job without devices, one rank arrives last at collectives",
    "kernel_totals": "totals of `nsys stats`: the largest kernels and calls by share",
    "range_totals": "totals of `nsys stats`: the largest ranges by share",
    "transfer_spread": "a recording with only some of the kernels: how long they take",
    "counts": "execution traces alone: operators and communication calls",
    "run_log": "logs of runs and benchmarks: step time, throughput, bandwidth",
    "choice": "several recordings that are not ranks of one job: one line each",
    "nothing": "a recording without any work: what it contains, and what to record",
}
"""What each class of finding means."""


_DO: Final[Mapping[str, str]] = {
    "slow_worker": "Compare the GPU of {who} with its peers: clock, temperature, power limit, "
    "other processes (nvidia-smi -q). Run once on another GPU: if the slowness stays with the GPU, "
    "replace it; if it stays with the rank, compare its work.",
    "slow_node": "Compare {who} with the other hosts: clocks, cooling, power limits, other jobs. "
    "Run the job once without it.",
    "occasional_worker": "Find out what else runs on {who} in its slow steps: other processes, "
    "throttling, "
    "hardware errors (nvidia-smi -q, dmesg).",
    "heavy_stage": "Move layers away from {who}, or divide the stages by time instead of by number "
    "of layers.",
    "uneven_microbatches": "Give micro-batches equal work: sort or pack sequences by length.",
    "uneven_experts": "Balance the load of experts: look at how tokens are routed, or limit the "
    "capacity of an expert.",
    "slow_link": "Test the link of {who} alone (nccl-tests between the two); check its error "
    "counters, and which transport NCCL chose (NCCL_DEBUG=INFO).",
    "random": "No rank needs fixing: times vary by chance.",
}


def what_to_do(kind: str, culprit: Mapping[str, Any]) -> str:
    """Return what to do about a culprit of a kind."""
    return _DO[kind].format(who=who_text(culprit) or "the ranks concerned")


def named_text(
    kind: str, culprit: Mapping[str, Any], share: float, *, at_most: bool = False
) -> str:
    """Return the sentence on a culprit, with the share of time that it costs, or costs at most."""
    who = who_text(culprit)
    times = culprit.get("factor")
    several = len(culprit.get("ranks") or ()) > 1 and culprit.get("host") is None
    compute = "compute" if several else "computes"
    cost = f"{'up to ' if at_most else ''}{percent(share)} of the time is lost"
    steps = culprit.get("steps") or ()
    match kind:
        case "slow_worker":
            peers = "their peers" if several else "its peers"
            return f"{who} {compute} {longer_than(times, peers)}: {cost}"
        case "slow_node":
            return f"all ranks of {who} compute {longer_than(times, 'their peers')}: {cost}"
        case "occasional_worker":
            named = numbers_text([str(step) for step in steps])
            noun = "step" if len(steps) == 1 else "steps"
            when = f"in {noun} {named}" if steps else "in some steps"
            return f"{who} {compute} {longer_than(times, 'usual')} {when}: {cost}"
        case "heavy_stage":
            takes = "take" if several and culprit.get("stage") is None else "takes"
            ranks = [str(one) for one in culprit.get("ranks") or ()]
            if ranks and who.startswith("stage "):
                who = f"{who} ({ranks_text(ranks)})"
            return f"{who} {takes} {longer_than(times, 'the other stages')}: {cost}"
        case "uneven_microbatches":
            return (
                f"micro-batches have unequal work, as with sequences of different lengths: {cost}"
            )
        case "uneven_experts":
            of = f", most on {who}" if who else ""
            return f"experts get unequal numbers of tokens{of}: {cost}"
        case "slow_link":
            if culprit.get("gbps") is not None:
                return f"transfers between hosts run at {culprit['gbps']:.2g} GB/s per rank: {cost}"
            if culprit.get("group") == BETWEEN_HOSTS:
                return f"transfers between hosts take longer than computation: {cost}"
            return f"transfers between {who} take {longer_than(times, 'other transfers')}: {cost}"
        case _:
            return f"times vary by chance over ranks and steps: {cost}"


def who_text(culprit: Mapping[str, Any]) -> str:
    """Return a culprit in words, "" where nobody is named."""
    group = culprit.get("group")
    if group == BETWEEN_HOSTS:
        return group_text(group)
    if culprit.get("host") is not None:
        return f"host {culprit['host']}"
    if culprit.get("pair"):
        return f"ranks {' and '.join(map(str, culprit['pair']))}"
    if culprit.get("stage") is not None:
        return f"stage {culprit['stage']}"
    ranks = [str(one) for one in culprit.get("ranks") or ()]
    if ranks:
        return ranks_text(ranks)
    return "" if group is None else group_text(group)
