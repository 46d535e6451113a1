"""The rows of golden.json that TraceLens and HTA measured, and how they follow from ours."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
from golden_rows import Number, Value, rank_of
from golden_rules import Read, Rule, ratio, us, wait, whole
from other_tools import (
    KINDS,
    TraceLensGroup,
    by_name,
    by_position,
    gib_per_s,
    hta_exclusive,
    hta_straggler,
    hta_work,
)

from ccltui.metrics.catalog.communication.comm_comp_overlap import measure


def _collective(number: Number) -> TraceLensGroup:
    size = re.fullmatch(r"coll\[.*/([\d.]+|Unknown)\]\..*", number.metric)
    assert size is not None
    known = size[1] != "Unknown"
    return by_position(number.paths, elements=int(float(size[1])) if known else None)


def _straggler(number: Number) -> float:
    everyone = _ranks_beside(number)
    group, column = by_position(everyone), everyone.index(number.path)
    values = {
        "straggler.total_wait_time_us": us(float(wait(group.start)[:, column].sum())),
        "straggler.times_arrived_last": int((group.start.argmax(axis=1) == column).sum()),
        "straggler.times_arrived_first": int((group.start.argmin(axis=1) == column).sum()),
        "straggler.total_nccl_dur_us": round(us(measure(rank_of(number.path)).comm_sum), 1),
    }
    if number.trace == "b200_eager" and number.metric.endswith("dur_us"):
        return round(us(by_name(number.path).comm.total_ns), 1)
    return values[number.metric]


def _ranks_beside(number: Number) -> tuple[Path, ...]:
    """The files that the tool was given together with this one."""
    folder = number.path.parent
    if number.trace.startswith("synth4"):
        last = "rank3_clk" if number.trace == "synth4_clk" else "rank3"
        names = ("rank0", "rank1", "rank2", last)
        return tuple(folder / f"{name}.json.gz" for name in names)
    if number.trace.startswith("trace_filter"):
        return tuple(folder / f"sampled_rank-{rank}.json.gz" for rank in (0, 1))
    return number.paths


FILLS = "TraceLens counts fills (memset) as computation, ours are copies and fills together"

BY_NAME = "TraceLens knows collectives by their names: see multimem_all_reduce_kernel above"

TRACELENS = (
    Rule("TraceLens", "total_time_us", whole(lambda p: us(p.span))),
    Rule("TraceLens", "idle_time_us", whole(lambda p: us(p.idle))),
    Rule(
        "TraceLens",
        "total_comm_time_us",
        lambda n: us(by_name(n.path).comm.total_ns),
        traces=("b200_eager",),
        differs=BY_NAME,
    ),
    Rule(
        "TraceLens",
        "n_comm_kernels",
        lambda n: by_name(n.path).num_comm,
        traces=("b200_eager",),
        differs=BY_NAME,
    ),
    Rule("TraceLens", "total_comm_time_us", whole(lambda p: us(p.comm))),
    Rule("TraceLens", "n_comm_kernels", whole(lambda p: p.num_comm)),
    Rule(
        "TraceLens",
        "computation_time_us",
        lambda n: us(by_name(n.path).comp.total_ns),
        differs=FILLS,
    ),
    Rule(
        "TraceLens",
        "exposed_comm_time_us",
        lambda n: us((by_name(n.path).comm - by_name(n.path).comp).total_ns),
        differs=FILLS,
    ),
    Rule(
        "TraceLens",
        "comm_overlap_ratio",
        lambda n: ratio(
            (by_name(n.path).comm & by_name(n.path).comp).total_ns, by_name(n.path).comm.total_ns
        ),
        differs=FILLS,
    ),
    Rule(
        "TraceLens",
        "exposed_memcpy_time_us",
        lambda n: us(
            (by_name(n.path).copies - by_name(n.path).comp - by_name(n.path).comm).total_ns
        ),
        differs=FILLS,
    ),
    Rule("TraceLens NcclAnalyser", r"coll\[.*\]\.count", lambda n: len(_collective(n).start)),
    Rule(
        "TraceLens NcclAnalyser",
        r"coll\[.*\]\.comm_latency_mean",
        lambda n: us(float(_collective(n).dur.min(axis=1).mean())),
    ),
    Rule(
        "TraceLens NcclAnalyser",
        r"coll\[.*\]\.skew in start time_mean",
        lambda n: us(float(np.ptp(_collective(n).start, axis=1).mean())),
        differs="by clocks as recorded; ours are corrected (synth4_clk: 64, not 2564 µs)",
    ),
    Rule(
        "TraceLens NcclAnalyser",
        r"coll\[.*\]\.skew in end time_mean",
        lambda n: us(float(np.ptp(_collective(n).start + _collective(n).dur, axis=1).mean())),
        differs="by clocks as recorded; the 2500 µs of synth4_clk are our offset of rank 3",
    ),
    Rule(
        "TraceLens NcclAnalyser",
        r"coll\[.*\]\.(algo|bus) bw \(GB/s\)_mean",
        lambda n: gib_per_s(_collective(n), on_the_bus="bus bw" in n.metric),
        differs="a mean of rates per 2^30 bytes called GB/s; ours is bytes over time in 10^9",
    ),
    Rule(
        "TraceLens NcclAnalyser",
        r"straggler\..*",
        _straggler,
        differs="by starts as recorded, a rank alone is both first and last; ours refuses one rank",
    ),
)


def hta(read: Callable[[Number, bool], Value]) -> Read:
    """Of all steps, or of all but the last."""
    return lambda number: read(number, "all steps" in number.tool)


def _hta_busy(number: Number, every_step: bool) -> dict[str, int]:
    work = hta_work(number.path, every_step=every_step)
    busy, compute = work.busy.total, work.of("COMPUTATION").total
    idle = work.span - busy
    return {"idle": idle, "compute": compute, "rest": work.span - idle - compute}


def _hta_overlap(number: Number, every_step: bool) -> float:
    work = hta_work(number.path, every_step=every_step)
    comm, comp = work.of("COMMUNICATION").time, work.of("COMPUTATION").time
    return round(100 * ratio((comm & comp).total_ns, comm.total_ns), 2)


def _hta_kinds(number: Number, every_step: bool) -> int:
    kinds = number.metric.partition(":")[2].split(" overlapping ")
    assert set(kinds) <= set(KINDS)
    works = [hta_work(path, every_step=every_step) for path in number.paths]
    return sum(hta_exclusive(work, kinds) for work in works)


KEPT = (
    "HTA keeps work that a call launched before the last step (or its end), cuts to whole µs, and "
    "counts synchronisation and an operator that names a stream as work"
)

HTA = (
    Rule(
        "HTA",
        re.escape("kernel_time(us)"),
        hta(lambda n, every: hta_work(n.path, every_step=every).span),
        differs=KEPT,
    ),
    Rule(
        "HTA",
        re.escape("idle_time(us)"),
        hta(lambda n, every: _hta_busy(n, every)["idle"]),
        differs=KEPT,
    ),
    Rule(
        "HTA",
        re.escape("compute_time(us)"),
        hta(lambda n, every: _hta_busy(n, every)["compute"]),
        differs=KEPT,
    ),
    Rule(
        "HTA",
        re.escape("non_compute_time(us)"),
        hta(lambda n, every: _hta_busy(n, every)["rest"]),
        differs=KEPT,
    ),
    Rule(
        "HTA",
        "comm_comp_overlap_pctg",
        hta(_hta_overlap),
        differs=f"{KEPT}; two decimals of a percentage",
    ),
    Rule(
        "HTA",
        "kernel_type:.*",
        hta(_hta_kinds),
        differs=KEPT,
    ),
    Rule(
        "HTA",
        re.escape("potential_stragglers(k=1)"),
        hta(lambda n, every: [hta_straggler(n.paths, every_step=every)]),
        differs="HTA names whoever starts one long kernel last; ours needs most of the lag of "
        "collectives that surely match, and blames nobody on trace_filter",
    ),
)
