"""Sentences of findings: what happens, where, what it costs; and what to do about it.

A sentence has at most three numbers, begins with what is known, and names things as an engineer
would. Nothing is computed here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from ccltui.metrics.findings.finding import Kind
from ccltui.metrics.findings.words import ranks_text
from ccltui.parsers.numbers import percent, time_text

MOST_CHARACTERS: Final = 200
"""Longest headline: what reads aloud in one breath."""


class Idle(Struct, frozen=True):
    """How idle time of one cause is stated.

    Attributes:
        kind: class of the finding.
        text: sentence with the places ``device`` (the subject with its verb) and ``share``.
        do: what to do.
    """

    kind: Kind
    text: str
    do: str


_RECORD_LAUNCHES: Final = (
    "Record host events too (ProfilerActivity.CPU and CUDA, or nsys --trace=cuda,nvtx,osrt): they "
    "show what the device waits for."
)

IDLE: Final[Mapping[str, Idle]] = {
    "data_loading": Idle(
        "data_loading",
        "{device} idle {share} of the time while the host loads data",
        "Load data earlier: more workers in the DataLoader, prefetching, pinned memory, or a "
        "faster file system.",
    ),
    "checkpoint": Idle(
        "checkpoint",
        "{device} idle {share} of the time while the host saves a checkpoint",
        "Save checkpoints asynchronously (torch.distributed.checkpoint.async_save), or less often.",
    ),
    "garbage_collection": Idle(
        "garbage_collection",
        "{device} idle {share} of the time while Python collects garbage",
        "Collect garbage at the same step on all ranks (gc.disable, then gc.collect every N "
        "steps), or freeze what lives on (gc.freeze).",
    ),
    "compilation": Idle(
        "host_bound",
        "{device} idle {share} of the time while the host compiles or loads kernels",
        "Record after the warm-up; keep shapes fixed, so that nothing is compiled again in later "
        "steps, and load kernels early (CUDA_MODULE_LOADING=EAGER).",
    ),
    "synchronisation": Idle(
        "host_synchronisation",
        "{device} idle {share} of the time because the host waits for the device before it "
        "launches more work",
        "Remove synchronisation from the step: .item(), .cpu(), print of a tensor, "
        "torch.cuda.synchronize.",
    ),
    "allocation": Idle(
        "host_allocation",
        "{device} idle {share} of the time while the host allocates memory",
        "Keep the allocator from freeing and asking again: "
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, fixed shapes, a warm-up before the "
        "measured steps.",
    ),
    "operators": Idle(
        "host_bound",
        "the host is too slow: {share} of the time {waits} for operators to launch work",
        "Launch less: torch.compile, CUDA graphs, fused operators, larger batches.",
    ),
    "host_other": Idle(
        "host_bound",
        "{waits} {share} of the time while the host launches nothing and runs nothing that was "
        "recorded",
        "See what the host does there: record Python (with_stack=True) or NVTX ranges; it may be "
        "Python code, input, or another process on its CPUs.",
    ),
    "launch_latency": Idle(
        "launch_latency",
        "{share} of the time {waits} for work that was just launched to start",
        "Launch ahead of the device: fewer synchronisations and larger kernels, or CUDA graphs.",
    ),
    "between_kernels": Idle(
        "kernel_gaps",
        "{device} idle {share} of the time in short gaps between kernels",
        "Run fewer and larger kernels: fusion, torch.compile, CUDA graphs.",
    ),
    "dependency": Idle(
        "stream_dependency",
        "{device} idle {share} of the time because launched work waits for another stream or event",
        "Look at what the stream waits for in the Timeline; let independent work run meanwhile.",
    ),
    "between_markers": Idle(
        "host_bound",
        "{device} idle {share} of the time between steps",
        "See what the host does between steps: data, logging, evaluation, checkpoints.",
    ),
    "unknown": Idle(
        "idle_unknown",
        "{device} idle {share} of the time; no launch is recorded that would show why",
        _RECORD_LAUNCHES,
    ),
}
"""By cause of idle time, as the partition names it."""


def idle_text(cause: str, share: float, num_ranks: int, who: str = "") -> str:
    """Return the sentence on idle time of one cause; ``who`` names the rank that has most.

    The share is of the time of all devices, so that they are the subject also then.
    """
    one = num_ranks == 1
    most = f", mostly that of {who}," if who else ""
    device = "the device is" if one else f"the devices{most} are"
    waits = "the device waits" if one else f"the devices{most} wait"
    return IDLE[cause].text.format(device=device, waits=waits, share=percent(share))


CAUSES: Final[Mapping[str, tuple[str, str]]] = {
    "compute": (
        "its kernels take longer than those of its peers",
        "Compare its GPU with its peers: clock, temperature, power limit, other processes "
        "(nvidia-smi -q), and its share of the work.",
    ),
    "more_kernels": (
        "it runs more kernels than its peers",
        "Compare its share of the work with its peers: layers, batch, extra branches.",
    ),
    "unequal_work": (
        "it has more work: its all-to-alls move more data",
        "Balance the load: routing of experts, sharding of tables, length of sequences.",
    ),
    "previous_collective": ("a collective of another group delayed it", ""),
    "copies": (
        "it copies data while nothing computes",
        "Overlap its copies with computing: pinned memory, non_blocking=True.",
    ),
    "slow_transfer": (
        "its transfers take longer",
        "Test its links (nccl-tests, ibstat, nvidia-smi topo -m).",
    ),
    "data_loading": ("its host loads data meanwhile", IDLE["data_loading"].do),
    "checkpoint": ("its host saves a checkpoint meanwhile", IDLE["checkpoint"].do),
    "garbage_collection": (
        "Python collects garbage on its host meanwhile",
        IDLE["garbage_collection"].do,
    ),
    "compilation": (
        "its host compiles or loads code meanwhile",
        "Compile before the measured steps, and keep shapes fixed.",
    ),
    "allocation": ("its host allocates memory meanwhile", IDLE["allocation"].do),
    "synchronisation": (
        "its host waits in a synchronisation meanwhile",
        IDLE["synchronisation"].do,
    ),
    "host_blocked": (
        "its host is in one long operation meanwhile",
        "Find that operation: open the finding in the explorer, or record Python "
        "(with_stack=True).",
    ),
    "host_work": ("its host is still running operators", IDLE["operators"].do),
    "host_stall": (
        "its device idles, and its host runs no operator: it sleeps, waits, or runs Python code",
        IDLE["host_other"].do,
    ),
    "host_late": ("its host launches the work late", IDLE["host_other"].do),
    "earlier_lag": ("it was late before, where the others did not wait for it", ""),
    "not_recorded": (
        "its file is not here",
        "Find its trace, or record it: the reason for its delay is only in there.",
    ),
}
"""By cause of a late rank: the sentence about it, and what to do."""


def waiting_text(
    labels: tuple[str, ...], num_ranks: int, share: float, cost: str, *, all_here: bool = True
) -> str:
    """Return the headline of ranks that the others wait for; without labels, of waiting alone.

    ``all_here`` is whether all ranks of the job are recorded.
    """
    much = f"{percent(share)} of the time{cost}"
    if not labels:
        return f"Ranks wait for each other {much}"
    others = "everyone waits" if all_here else "the other recorded ranks wait"
    if num_ranks == 2:
        others = "the other rank waits"
    return f"{others} for {ranks_text(labels)}: {much}"


def cost_text(cost_ms: float | None, *, by_steps: bool) -> str:
    """Return ``, 749 ms a step`` or ``, 749 ms in all``, "" where the cost is unknown."""
    if cost_ms is None:
        return ""
    return f", {time_text(cost_ms)} {'a step' if by_steps else 'in all'}"


CLASSES: Final[Mapping[Kind, str]] = {
    "hang": "dumps, logs or NCCL's RAS show that the job hangs, and which ranks did not arrive",
    "waiting_for_rank": "ranks wait for one that comes late to collectives or transfers",
    "slow_worker": "one rank computes longer than its peers, proved by a replay",
    "occasional_worker": "one rank computes longer than usual in some steps",
    "slow_node": "all ranks of one host compute longer than the others",
    "heavy_stage": "one pipeline stage has more work than the others",
    "uneven_microbatches": "micro-batches hold unequal work",
    "uneven_experts": "experts get unequal numbers of tokens",
    "slow_link": "transfers of one pair or group take longer than comparable ones",
    "random": "times vary by chance over ranks and steps",
    "pipeline_bubble": "stages of a pipeline wait for each other by its schedule",
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
    "idle_unknown": "devices idle, and no launch is recorded that would show why",
    "copies": "copies run while nothing computes",
    "compute_bound": "devices compute nearly all the time; the largest kernels are named",
    "slow_steps": "single steps take much longer than the others",
    "cpu_bound": "a job without devices spends its time in operators",
    "collective_wait": "a job without devices spends its time in collectives",
    "uneven_ranks": "a rank of a job without devices comes last to collectives",
    "kernel_totals": "totals of `nsys stats`: the largest kernels and calls by share",
    "range_totals": "totals of `nsys stats`: the largest ranges by share",
    "transfer_spread": "a recording filtered to some kernels: how long they take",
    "counts": "execution traces alone: operators and communication calls",
    "run_log": "logs of runs and benchmarks: step time, throughput, bandwidth",
    "choice": "several recordings that are not ranks of one job: one line each",
    "nothing": "a recording without work: what it holds, and what to record",
}
"""What each class of finding means."""
