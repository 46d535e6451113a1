"""Divide the measured time of devices into computation, communication, copies and idle time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ccltui.metrics.result import Reason
from ccltui.metrics.unavailable import refuse
from ccltui.metrics.view.data_quality import guessed_steps, without_device_times

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View
    from ccltui.metrics.view.rank_view import RankView


def device_ranks(view: View) -> list[RankView]:
    """Return the ranks whose kernels were recorded.

    Raises:
        Refusal: no rank has kernels, or the selection has no device work.
    """
    ranks = [rank for rank in view.ranks if rank.facts.has_kernels]
    if not ranks:
        kind = "CPU-only trace"
        if any(rank.facts.has_device for rank in view.ranks):
            kind = "only copies and the like ran on the device"
        elif not any(rank.trace.is_of_profiler for rank in view.ranks):
            kind = "no event of a category that PyTorch writes"
        raise without_device_times(view, f"{kind}: no kernel was recorded on any rank")
    if not any(rank.window_ns for rank in ranks):
        raise refuse("window_empty", "no device work in the steps or the window")
    return ranks


def device_reasons(view: View) -> list[Reason]:
    """Return why numbers of device time are partial: ranks without kernels, steps only guessed.

    Of ranks whose device has a wrong clock every result has a reason.
    """
    without_kernels = [
        Reason("no_gpu_events", _without_kernels(rank), rank=rank.label)
        for rank in view.ranks
        if not rank.facts.has_kernels and not rank.facts.has_wrong_clock
    ]
    return [*without_kernels, *guessed_steps(view)]


def _without_kernels(rank: RankView) -> str:
    if rank.facts.has_device:
        return f"rank {rank.label} has device work, but no kernel"
    return f"rank {rank.label} is a CPU-only trace"


def require_communication_on_device(ranks: Sequence[RankView]) -> None:
    """Refuse where collectives were recorded and none of them ran on the device.

    A job without collectives is not refused: its communication time is 0.

    Raises:
        Refusal: all collectives ran on the host.
    """
    every = [rank.recorded_calls for rank in ranks]
    hosted = [calls for calls in every if len(calls) and calls.source != "kernel"]
    if hosted and not any(len(rank.facts.busy[0]) for rank in ranks):
        source = hosted[0].source
        raise refuse(
            "no_collectives",
            f"the collectives ran on the host ({source}): they occupy no time of the device",
        )
