"""Divide the measured time of devices into computation, communication, copies and idle time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from ccltui.metrics.arrays.intervals import Intervals
from ccltui.metrics.arrays.statistics import milliseconds, ratio
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
    hosted = [rank for rank in ranks if len(rank.calls) and rank.calls.source != "kernel"]
    if hosted and not any(len(rank.facts.busy[0]) for rank in ranks):
        source = hosted[0].calls.source
        raise refuse(
            "no_collectives",
            f"the collectives ran on the host ({source}): they occupy no time of the device",
        )


@dataclass(frozen=True, slots=True)
class TimeSplit:
    """Disjoint parts of the windows of one rank, in ns; their sum is ``window``.

    Attributes:
        window: measured time.
        idle: time without device work.
        comp_only: time in computation alone.
        comm_only: time in communication alone, the exposed communication.
        overlap: time in both.
        mem_only: time in copies while no kernel runs; a copy beside a kernel counts as the kernel.
        other_comm: time in collectives of groups that the view does not select.
    """

    window: int
    idle: int
    comp_only: int
    comm_only: int
    overlap: int
    mem_only: int
    other_comm: int

    @property
    def busy(self) -> int:
        """Time in any device work."""
        return self.window - self.idle

    def __add__(self, other: TimeSplit) -> TimeSplit:
        return TimeSplit(*(getattr(self, n) + getattr(other, n) for n in PARTS_AND_WINDOW))


PARTS_AND_WINDOW = tuple(field.name for field in fields(TimeSplit))
PARTS = PARTS_AND_WINDOW[1:]


def split_time(rank: RankView, windows: Intervals | None = None) -> TimeSplit:
    """Return the parts of the rank's windows, or of ``windows``, which must be inside them."""
    comm, comp, mem = rank.comm, rank.comp, rank.mem
    occupied, window = rank.occupied, rank.window_ns
    if windows is not None:
        comm, comp, mem = comm & windows, comp & windows, mem & windows
        occupied, window = occupied & windows, windows.total_ns
    overlap = (comm & comp).total_ns
    kernels = comm | comp
    chosen = kernels.total_ns + (mem - kernels).total_ns
    return TimeSplit(
        window=window,
        idle=window - occupied.total_ns,
        comp_only=comp.total_ns - overlap,
        comm_only=comm.total_ns - overlap,
        overlap=overlap,
        mem_only=chosen - kernels.total_ns,
        other_comm=occupied.total_ns - chosen,
    )


def total_of(parts: Iterable[TimeSplit]) -> TimeSplit:
    """Sum parts over ranks."""
    total = TimeSplit(0, 0, 0, 0, 0, 0, 0)
    for part in parts:
        total = total + part
    return total


def split_row(part: TimeSplit) -> dict[str, Any]:
    """Return the JSON form: every part in ms and as a share of the window."""
    row: dict[str, Any] = {f"{name}_ms": milliseconds(getattr(part, name)) for name in PARTS}
    row |= {f"{name}_ratio": ratio(getattr(part, name), part.window) for name in PARTS}
    return {"window_ms": milliseconds(part.window), **row}


def mean_row(parts: Mapping[str, TimeSplit]) -> dict[str, Any]:
    """Return `split_row` over ranks: times are means over ranks, shares those of the sums."""
    total = total_of(parts.values())
    row = split_row(total)
    return {k: v / len(parts) if k.endswith("_ms") else v for k, v in row.items()}
