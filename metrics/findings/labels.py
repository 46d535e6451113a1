"""Short names of findings, for lists in which their sentences have no room."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ccltui.metrics.findings.words import numbers_text, ranks_text, short_name

_LABELS: Final[Mapping[str, str]] = {
    "waiting_for_rank": "waiting for {who}",
    "slow_worker": "{who} computes slowly",
    "occasional_worker": "{who} is slow at times",
    "slow_node": "{who} computes slowly",
    "heavy_stage": "{who} has more work",
    "uneven_microbatches": "uneven micro-batches",
    "uneven_experts": "uneven experts",
    "slow_link": "slow link of {who}",
    "random": "times vary by chance",
    "pipeline_bubble": "pipeline bubble",
    "exposed_communication": "{call} not hidden",
    "data_loading": "host loads data",
    "host_allocation": "host allocates memory",
    "host_synchronisation": "host waits for the GPU",
    "checkpoint": "host saves a checkpoint",
    "garbage_collection": "Python collects garbage",
    "host_bound": "host launches too slowly",
    "launch_latency": "launch latency",
    "stream_dependency": "waiting for another stream",
    "kernel_gaps": "gaps between kernels",
    "idle_unknown": "idle, cause unknown",
    "copies": "copies not hidden",
    "compute_bound": "compute",
    "slow_steps": "slow {steps}",
    "cpu_bound": "operators on the host",
    "collective_wait": "collectives on the host",
    "uneven_ranks": "waiting for {who}",
    "kernel_totals": "kernels and calls",
    "range_totals": "ranges",
    "transfer_spread": "spread of one kernel",
    "counts": "operators and calls",
    "run_log": "log of the run",
    "choice": "several recordings",
    "hang": "the job hangs",
    "nothing": "no work is recorded",
}


def label_of(kind: str, where: Mapping[str, Any]) -> str:
    """Return a short name of a finding with its place: ``waiting for rank 0``."""
    return _LABELS[kind].format(who=_who(where), call=_call(where), steps=_steps(where))


def _who(where: Mapping[str, Any]) -> str:
    if where["host"] is not None:
        return f"host {where['host']}"
    if where["stage"] is not None:
        return f"stage {where['stage']}"
    if where["ranks"]:
        return ranks_text(where["ranks"])
    return "ranks" if where["group"] is None else f"group {where['group']}"


def _call(where: Mapping[str, Any]) -> str:
    kernel = where["kernel"]
    name = "communication" if kernel in (None, "unknown") else short_name(kernel)
    return name if where["group"] is None else f"{name} of {where['group']}"


def _steps(where: Mapping[str, Any]) -> str:
    steps = where["steps"]
    if len(steps) == 1:
        return f"step {steps[0]}"
    return f"steps {numbers_text([str(one) for one in steps])}" if steps else "steps"
