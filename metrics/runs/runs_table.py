"""Build the table of all runs of a directory: one row per run, with figures and remarks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

from ccltui.metrics.runs.completeness import Completeness, completeness
from ccltui.metrics.runs.key_figures import loss, rate_curve, step_times, throughput
from ccltui.metrics.runs.nccl_calls import nccl_calls
from ccltui.metrics.runs.run_files import Run, read_runs

if TYPE_CHECKING:
    from ccltui.parsers.found_files import Discovery


class RunRow(Struct, frozen=True):
    """Key figures of a run; None where not known. Curves are over the course of the run."""

    name: str
    completeness: Completeness
    world_size: int | None
    tokens_per_s: float | None
    tokens_source: str
    step_p50_ms: float | None
    step_p95_ms: float | None
    step_caveat: str
    train_loss: float | None
    val_loss: float | None
    loss_curve: tuple[float | None, ...]
    rate_curve: tuple[float | None, ...]
    allreduce_per_backward: float | None
    git_commit: str
    profiled: bool | None
    remarks: tuple[str, ...]

    @property
    def is_doubtful(self) -> bool:
        """Whether there are remarks on its figures."""
        return self.completeness.state != "complete" or bool(self.remarks or self.step_caveat)


def run_table(discovery: Discovery) -> tuple[RunRow, ...]:
    """Return a row for every run below a directory, in the natural order of their names."""
    return tuple(_row(run) for run in read_runs(discovery))


def _row(run: Run) -> RunRow:
    rate, times, losses, calls = throughput(run), step_times(run), loss(run), nccl_calls(run)
    return RunRow(
        name=run.name,
        completeness=completeness(run),
        world_size=run.world_size,
        tokens_per_s=None if rate is None else rate.tokens_per_s,
        tokens_source="" if rate is None else rate.source,
        step_p50_ms=_ms(None if times is None else times.p50_s),
        step_p95_ms=_ms(None if times is None else times.p95_s),
        step_caveat="" if times is None else times.caveat,
        train_loss=None if losses is None else losses.last_train,
        val_loss=None if losses is None else losses.best_val,
        loss_curve=() if losses is None else losses.curve,
        rate_curve=rate_curve(run),
        allreduce_per_backward=None if calls is None else calls.per_backward("AllReduce"),
        git_commit=run.git_commit,
        profiled=run.profiled,
        remarks=tuple(_remarks(run, () if rate is None else rate.checks)),
    )


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else 1000 * seconds


def _remarks(run: Run, checks: Sequence[str]) -> list[str]:
    remarks = [*run.problems, *checks, *run.notes]
    if run.profiled:
        remarks.append("nsys was recording: its throughput may be lower than without")
    return remarks
