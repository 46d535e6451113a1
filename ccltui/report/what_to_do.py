"""What to do about a verdict: the first check or change for each class of cause.

These sentences are advice, not measurements: they state where to look, and who is concerned comes
from the verdict.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

_BY_CLASS: Final = {
    "slow_worker": "Compare the device of {who} with its peers: clocks, temperature, power limit, "
    "other processes (nvidia-smi -q). Run once with another device in its place: if the slowness "
    "stays with the device, replace it; if it stays with the rank, compare its work.",
    "slow_node": "Compare {who} with the other hosts: clocks, cooling, power limits, other jobs. "
    "Run once without it.",
    "occasional_worker": "See what runs on {who} in its slow steps: other processes, throttling, "
    "hardware errors (nvidia-smi -q, the log of the system).",
    "heavy_stage": "Move layers away from {who}, or divide the stages by time instead of by number "
    "of layers.",
    "uneven_microbatches": "Give micro-batches equal work: sort or pack sequences by length.",
    "uneven_experts": "Look at how tokens are routed: balance the load of experts, or limit their "
    "capacity.",
    "slow_link": "Test the link of {who} alone (nccl-tests between the two), then its errors and "
    "counters, and which transport NCCL chose (NCCL_DEBUG=INFO).",
    "host": "See what the hosts of {who} do while their devices idle: --metric idle_causes "
    "--detail, and the chain of the worst collective in the explorer.",
    "random": "No rank is to be repaired: times vary by chance. What all ranks lose is stated "
    "under losses.",
    "no_straggler": "No rank is to be repaired. What all ranks lose alike is stated under losses.",
    "inconclusive": "Replace nothing on this evidence. Record three steps or more of all ranks, "
    "with host events and process groups, and what is listed as missing.",
}
_BY_HOST_CAUSE: Final = {
    "data_loading": "Load data earlier: more workers, prefetching, a faster store.",
    "garbage_collection": "Collect garbage at the same step on all ranks, or freeze what lives on "
    "(gc.freeze).",
    "checkpoint": "Save checkpoints asynchronously, or less often.",
    "allocation": "Keep the allocator from freeing and asking anew: expandable segments, fewer "
    "changes of shapes.",
    "synchronisation": "Remove synchronisation with the host from the step: .item(), .cpu() "
    "and prints.",
    "compilation": "Compile before the measured steps, and keep shapes fixed.",
    "host_blocked": "Find the long operation in which the host is: ccltui inspect --kind cpu_ops "
    "shows its stack where one is recorded (with_stack=True).",
    "host_work": "Launch less: CUDA graphs, torch.compile, fused operators.",
    "host_stall": "Record what the host does (record_shapes, with_stack, NVTX ranges): nothing "
    "explains its gaps, which may also be other processes on its CPUs.",
}
_NO_VERDICT: Final = "Nobody can be named; the headline and missing state why."
_NO_TRACE: Final = (
    "No profiler trace was read: ccltui doctor DIR lists what each file is. To learn what slows a "
    "job down, record all ranks with the PyTorch profiler or nsys. For a job that hung, put the "
    "logs of all ranks here: what their watchdogs print names the rank that did not arrive."
)
_APART: Final = (
    "If the job hung, look first at rank {rank}, whose collectives begin or end apart from those "
    "of its peers: its log, the stack of its process (py-spy dump), and flight recorder dumps of "
    "all ranks."
)
_MOST_NAMED: Final = 4


def what_to_do(
    verdict: Mapping[str, Any],
    chain: Mapping[str, Any],
    *,
    apart: str | None = None,
    is_opened: bool = True,
) -> tuple[str, ...]:
    """Return what to do, the most important first.

    Args:
        verdict: details of the metric ``verdict``; empty where it is unavailable.
        chain: details of the metric ``blame_chain``.
        apart: rank whose collectives begin or end apart from those of all its peers, None
            without one.
        is_opened: whether any trace was read.
    """
    name = verdict.get("verdict")
    if not is_opened:
        return (_NO_TRACE,)
    actions = [] if apart is None else [_APART.format(rank=apart)]
    if name is None:
        return (*actions, _NO_VERDICT)
    culprit = verdict.get("culprit")
    if name == "host" and (cause := _host_cause(verdict, culprit, chain)):
        actions.append(_BY_HOST_CAUSE[cause])
    if text := _BY_CLASS.get(str(name)):
        actions.append(text.format(who=who(culprit) or "the ranks concerned"))
    return tuple(actions) or (_NO_VERDICT,)


def _host_cause(
    verdict: Mapping[str, Any], culprit: Mapping[str, Any] | None, chain: Mapping[str, Any]
) -> str | None:
    """Return what the host does: as the verdict states it, else where the waiting began."""
    why = str(verdict.get("why", ""))
    stated = next((one for one in _BY_HOST_CAUSE if one.replace("_", " ") in why), None)
    if stated is not None:
        return stated
    cause, root = chain.get("root_cause"), str(chain.get("root_rank"))
    is_of_culprit = not culprit or root in map(str, culprit.get("ranks") or ())
    return cause if cause in _BY_HOST_CAUSE and is_of_culprit else None


def who(culprit: Mapping[str, Any] | None) -> str:
    """Return the culprit in words, "" where nobody is named."""
    if not culprit:
        return ""
    if culprit.get("host") is not None:
        return f"host {culprit['host']}"
    if culprit.get("pair"):
        return f"ranks {' and '.join(map(str, culprit['pair']))}"
    if culprit.get("stage") is not None:
        return f"stage {culprit['stage']}"
    ranks: Sequence[Any] = culprit.get("ranks") or ()
    if ranks:
        more = len(ranks) - _MOST_NAMED
        named = ", ".join(map(str, ranks[:_MOST_NAMED])) + (f" and {more} more" if more > 0 else "")
        return f"rank {named}" if len(ranks) == 1 else f"ranks {named}"
    return "" if culprit.get("group") is None else f"group {culprit['group']}"
