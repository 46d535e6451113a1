"""Sentences about a job and names of its parts that pages and the explorer share.

Every number in them is one of a metric's result; nothing is computed here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ccltui.metrics.model.rank_steps import LOOP_PERIOD
from ccltui.metrics.result import Result
from ccltui.parsers.numbers import counted, time_text

Results = Mapping[str, Result]

_IDLE: Final = {
    "data_loading": "data loading",
    "checkpoint": "checkpoint",
    "garbage_collection": "garbage collection",
    "compilation": "compilation",
    "allocation": "allocation",
    "synchronisation": "synchronisation",
    "operators": "host operators",
    "between_markers": "host between steps",
    "host_other": "host, not recorded",
    "launch_latency": "launch latency",
    "launch_call": "long launches",
    "between_kernels": "between kernels",
    "dependency": "dependency",
    "unknown": "cause unknown",
}


def details_of(results: Results, name: str) -> Mapping[str, Any]:
    """Return the details of a result that has a value, empty for any other."""
    result = results.get(name)
    return {} if result is None or result.status == "unavailable" else result.details


def step_time(results: Results) -> str:
    """Return the step time with its spread and the number of steps, "" where it is unknown.

    Steps are timed by their markers, each on its slowest rank, and by the measured time of ranks,
    which is what costs are stated of: both are named where they differ in print.
    """
    found = details_of(results, "iter_time")
    mean, count = found.get("avg_iter_time_ms"), found.get("num_iterations")
    if mean is None:
        return ""
    spread, several = found.get("std_iter_time_ms"), count != 1
    answer = details_of(results, "findings")
    period = answer.get("period_ms") if answer.get("period") == "step" else None
    apart = period is not None and time_text(period) != time_text(mean)
    is_loop = results["iter_time"].basis.get("duration") == LOOP_PERIOD
    by = "By the decode loop" if is_loop else "By the step markers"
    text = f"{by} a step takes" if apart else "A step takes"
    spread_text = f"standard deviation {time_text(spread)}, " if several and spread else ""
    parts = [f"{text} {time_text(mean)} ({spread_text}n = {count})"]
    median = found.get("p50_iter_time_ms")
    slowest = details_of(results, "step_variability").get("slowest_step") or {}
    longest = slowest.get("iter_time_ms")
    if several and median is not None:
        parts.append(f"The median step takes {time_text(median)}")
    if several and longest is not None and time_text(longest) != time_text(median or 0.0):
        parts.append(f"The slowest, step {slowest['step']}, takes {time_text(longest)}")
    if apart and period is not None:
        has_devices = "step_ms" in details_of(results, "step_composition")
        of = "On the devices" if has_devices else "Averaged over ranks"
        mean_over = ", mean over ranks" if has_devices else ""
        parts.append(f"{of} a step takes {time_text(period)}{mean_over}")
    return f"{'. '.join(parts)}."


def hidden_elsewhere(count: int) -> str:
    """Return that device events which overlap on a stream count here, and not everywhere."""
    one = count == 1
    overlap = "overlaps another of its stream" if one else "overlap another of their stream"
    kept = "it counts here, Perfetto hides it" if one else "they count here, Perfetto hides them"
    return f"{counted(count, 'device event')} {overlap}: {kept}."


def part_name(part: Mapping[str, Any]) -> str:
    """Return the name of a part of `step_composition` for a legend."""
    kind, name = part["kind"], str(part["part"])
    if kind == "communication":
        return "transfer" if name == "unknown" else f"transfer of {name}"
    if kind == "bubble":
        return "bubble"
    if kind == "waiting":
        return "waiting for late ranks"
    return f"idle: {_IDLE.get(name, name)}" if kind == "idle" else name


def recorded(
    ranks: int, world_size: int | None, missing: str = "", *, is_sample: bool = False
) -> str:
    """Return how many of the ranks are recorded, and which are not.

    Args:
        ranks: Number of ranks that are read.
        world_size: Number of ranks of the job, None where nothing states it.
        missing: The ranks that are not read, as ranges.
        is_sample: Whether files of other ranks are not read on purpose.
    """
    if world_size is not None and ranks > world_size:
        return f"{ranks} traces of {counted(world_size, 'rank')} are read: some ranks have several."
    of = "" if world_size is None else f"{ranks} of "
    whole = ranks if world_size is None else world_size
    noun = "rank" if whole == 1 else "ranks"
    what = f"{of}{whole} {noun} {'is' if ranks == 1 else 'are'}"
    if is_sample:
        absent = f", not {missing}" if missing else ""
        return f"{what} read, a sample{absent}: a rank that is not read is never named."
    return f"{what} recorded" + (f"; missing {missing}." if missing else ".")


def matched(results: Results) -> str:
    """Return how many collectives are matched and how surely, "" where none are."""
    match = details_of(results, "straggler_lag").get("match") or {}
    sure = [f"{match[level]} {level}" for level in ("high", "medium", "low") if match.get(level)]
    if not sure:
        return ""
    left = [f"{match[kind]} {kind}" for kind in ("mismatched", "incomplete") if match.get(kind)]
    apart = f"; {', '.join(left)}" if left else ""
    return f"Collectives matched between ranks, by confidence: {', '.join(sure)}{apart}."


def clocks(results: Results) -> str:
    """Return how precisely the clocks are known, "" where they are not."""
    bar = details_of(results, "clock_offsets").get("residual_p95_us")
    if bar is None:
        return ""
    # Of the other ranks, a reason of the metric says why not.
    which = "Clocks that can be compared" if results["clock_offsets"].reasons else "Clocks"
    return f"{which} agree within {time_text(bar / 1000)}." if bar >= 1 else f"{which} are aligned."
