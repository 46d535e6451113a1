"""Known answer of a job of many ranks: what is injected, who it is, and what it costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ccltui.demo.injected_faults import delay_sentence, link_sentence
from ccltui.demo.profiler_view import drift_ppb, offset_ns
from ccltui.demo.scale.lockstep import Lane, simulate_lanes
from ccltui.demo.spec import Spec
from ccltui.demo.topology import Topology
from ccltui.parsers.window import format_ranks


def step_ns(lanes: Sequence[Lane], spec: Spec) -> float:
    """Mean time of a step: from the start of the hosts to the end of all work, over the steps."""
    last = max(int(time.max()) for lane in lanes for time in lane.steps[-1].times)
    return last / spec.steps


def large_truth(spec: Spec, topology: Topology, lanes: Sequence[Lane]) -> dict[str, Any]:
    """Answer as plain values; the job is simulated once more without each fault.

    ``cost_ms`` is the mean step less the mean step without this fault.
    """
    mean_ns = step_ns(lanes, spec)
    faults = []
    for alike in _alike(spec):
        rest = tuple(one for one in spec.stragglers if one not in alike)
        links = tuple(one for one in spec.slow_links if one not in alike)
        without = replace(spec, stragglers=rest, slow_links=links)
        clean_ns = step_ns(simulate_lanes(without, topology), without)
        faults.append(_fault(spec, topology, alike) | {"cost_ms": (mean_ns - clean_ns) / 1e6})
    faults.sort(key=lambda fault: -fault["cost_ms"])
    hosts = range(spec.num_hosts)
    names = [topology.host_name(host * spec.gpus_per_node) for host in hosts]
    return {
        "ranks": spec.world_size,
        "nodes": spec.num_hosts,
        "layout": {name: getattr(spec, name) for name in ("pp", "dp_replicate", "dp_shard", "tp")},
        "order": "pp, dp_replicate, dp_shard, tp; tp innermost",
        "steps": spec.steps,
        "micro_batches": spec.micro_batches,
        "tokens_per_step": spec.global_batch * spec.seq_len,
        "step_ms": mean_ns / 1e6,
        "faults": faults,
        "clock_offset_ms": {name: offset_ns(spec, h) / 1e6 for h, name in enumerate(names)},
        "clock_drift_ppm": {name: drift_ppb(spec, h) / 1e3 for h, name in enumerate(names)},
    }


def _alike(spec: Spec) -> list[list[Any]]:
    """Injected faults, those that differ only in the rank together."""
    found: dict[object, list[Any]] = {}
    for one in spec.stragglers:
        found.setdefault((one.cause, one.extra_ns, one.steps), []).append(one)
    return [*found.values(), *([link] for link in spec.slow_links)]


def _fault(spec: Spec, topology: Topology, alike: list[Any]) -> dict[str, Any]:
    first = alike[0]
    ranks = [one.rank for one in alike]
    if not hasattr(first, "cause"):
        group = topology.group_of(first.dimension, first.rank)
        members = list(group.ranks) if group is not None else ranks
        return {"cause": "slow_group", "ranks": members, "text": link_sentence(first)}
    named = format_ranks(frozenset(ranks))
    who = f"rank {named}" if len(ranks) == 1 else f"each of the ranks {named}"
    steps = None if first.steps is None else [spec.first_step + one for one in first.steps]
    text = delay_sentence(spec, first, who)
    hosts = {topology.host_name(rank) for rank in ranks}
    return {
        "cause": first.cause,
        "ranks": ranks,
        "host": hosts.pop() if len(hosts) == 1 else None,
        "extra_ms": first.extra_ns / 1e6,
        "steps": steps,
        "text": text,
    }
