"""Runs that lack something, and the table of all runs of a directory with figures and remarks."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Literal

from msgspec import Struct

from ccltui.metrics.hangs.find_hang import hang_of_run
from ccltui.metrics.runs.key_figures import loss, rate_curve, step_times, throughput
from ccltui.metrics.runs.nccl_calls import nccl_calls
from ccltui.metrics.runs.run_files import Run, read_runs
from ccltui.parsers.cluster import GPU_TOPOLOGY, IB_STATUS, NCCL_LOG, NCCL_TOPOLOGY
from ccltui.parsers.format import Format
from ccltui.parsers.nsys import NSYS_REPORT, NSYS_SQLITE, NSYS_TEXT, NSYS_TEXT_TRACE
from ccltui.parsers.runs import (
    LAUNCHER_METADATA,
    PROFILE_SUMMARY,
    RUN_COMPLETE,
    STEP_LOG,
    TRAINING_LOG,
    TRAINING_METRICS,
    WATCHDOG_LOG,
)
from ccltui.parsers.side.unread_files import LOG

if TYPE_CHECKING:
    from ccltui.parsers.found_files import Discovery


State = Literal["complete", "unmarked", "incomplete"]
"""Complete: it has a mark of completion. Unmarked: it has results, but no such mark."""

_GPUS_IN_NAME: Final = re.compile(r"(?:^|[/_])(\d{1,6})gpu(?:_|/|$)")

_Expected = tuple[str, tuple[Format, ...]]
_ALWAYS: Final[tuple[_Expected, ...]] = (
    ("launcher_metadata.json", (LAUNCHER_METADATA,)),
    ("train.log", (TRAINING_LOG, WATCHDOG_LOG, LOG)),
    ("training_metrics.json", (TRAINING_METRICS,)),
    ("RUN_COMPLETE.txt", (RUN_COMPLETE,)),
)
_BY_SWITCH: Final[tuple[tuple[str, tuple[_Expected, ...]], ...]] = (
    (
        "NCCL_LOGS",
        (
            ("nccl_rank_*.log", (NCCL_LOG,)),
            ("nccl_topo.xml", (NCCL_TOPOLOGY,)),
            ("ibstat.txt", (IB_STATUS,)),
            ("topo.txt", (GPU_TOPOLOGY,)),
        ),
    ),
    (
        "NSYS",
        (
            ("nsys_*.nsys-rep or .sqlite", (NSYS_REPORT, NSYS_SQLITE)),
            ("nsys_stats_*.txt", (NSYS_TEXT, NSYS_TEXT_TRACE)),
            ("profile_summary.json", (PROFILE_SUMMARY,)),
        ),
    ),
)


class Completeness(Struct, frozen=True):
    """State of one run.

    ``missing`` are artifacts that are expected of a run of its kind. ``faults`` begin with a code:
    missing_metrics, missing_log, invalid_schema, world_size_mismatch. ``ended`` describes how the
    run ended, "" where that is not known.
    """

    state: State
    present: tuple[str, ...]
    missing: tuple[str, ...]
    faults: tuple[str, ...]
    ended: str = ""
    last_step: int | None = None
    total_steps: int | None = None

    @property
    def sentence(self) -> str:
        """Remarks on the run in one sentence, "" without any."""
        parts = []
        if self.state == "incomplete":
            of = "" if self.total_steps is None else f" of {self.total_steps:,}"
            at = "no sign of its end" if self.last_step is None else f"step {self.last_step:,}{of}"
            parts.append(f"incomplete: {at}")
        elif self.state == "unmarked":
            parts.append("results without a mark of completion")
        if self.missing:
            parts.append(f"missing: {', '.join(self.missing)}")
        if self.ended and self.state != "complete":
            parts.append(self.ended)
        parts += [fault for fault in self.faults if fault not in ("missing_metrics", "missing_log")]
        return "; ".join(parts)


def completeness(run: Run) -> Completeness:
    """Determine the state of a run. A run with nothing but a log is judged by that log alone."""
    anchored = run.folder.of(TRAINING_METRICS, STEP_LOG, LAUNCHER_METADATA, RUN_COMPLETE)
    expected = _expected(run) if anchored else ()
    held = [
        (name, bool(run.folder.of(*formats)) and not _is_broken(run, formats))
        for name, formats in expected
    ]
    end = "" if run.log is None else run.log.end.text
    if end.startswith("watchdog") and (stands := hang_of_run(run.folder.files)) is not None:
        end = f"watchdog of NCCL: {stands.text}"
    last, total = _last_step(run)
    return Completeness(
        state=_state(run, last, total),
        present=(*(name for name, there in held if there), *_optional(run)),
        missing=tuple(name for name, there in held if not there),
        faults=tuple(_faults(run, log_only=not anchored)),
        ended=end,
        last_step=last,
        total_steps=total,
    )


def _optional(run: Run) -> list[str]:
    """Return the optional artifacts that are present."""
    return [] if run.steps is None else ["training_steps.jsonl"]


def _expected(run: Run) -> tuple[_Expected, ...]:
    """Return the artifacts expected of a kind of run; small test jobs write only their results."""
    if run.metrics is not None and run.metrics.generation != "2.0":
        return (_ALWAYS[2],)
    expected = list(_ALWAYS)
    for switch, more in _BY_SWITCH:
        on = None if run.launch is None else run.launch.is_on(switch)
        if on or (on is None and switch == "NSYS" and run.profiled):
            expected += more
    return tuple(expected)


def _is_broken(run: Run, formats: tuple[Format, ...]) -> bool:
    """Whether a file of these formats exists and could not be read."""
    parts = {
        TRAINING_METRICS: run.metrics,
        LAUNCHER_METADATA: run.launch,
        RUN_COMPLETE: run.completion,
    }
    return len(formats) == 1 and formats[0] in parts and parts[formats[0]] is None


def _state(run: Run, last: int | None, total: int | None) -> State:
    end = "" if run.log is None else run.log.end.kind
    if run.completion is not None or (end == "completed" and run.metrics is None):
        return "complete"
    if run.metrics is not None:
        plain = run.metrics.generation != "2.0"
        return "complete" if plain or end == "completed" else "unmarked"
    reached = last is not None and total is not None and last >= total
    return "unmarked" if reached and end not in ("killed", "failed") else "incomplete"


def _last_step(run: Run) -> tuple[int | None, int | None]:
    """Return the last known step, and the number of steps requested."""
    steps, log = run.steps, run.log
    total = None if log is None else log.total_steps
    if total is None:
        total = run.configuration.max_steps or _requested_steps(run)
    if steps is not None and len(steps):
        return int(steps.step.max()), total
    if log is not None and len(log) and log.dialect != "plain":
        return int(log.step[-1]), total
    epochs = run.metrics.epochs if run.metrics is not None else ()
    made = [epoch.micro_steps for epoch in epochs if epoch.micro_steps is not None]
    return (sum(made) if made else None), total


def _requested_steps(run: Run) -> int | None:
    """Return the number of steps requested by the launch switches."""
    extra = "" if run.launch is None else run.launch.switches.get("GPT2_EXTRA_ARGS", "")
    match = re.search(r"--max[_-](?:train[_-])?steps[= ]+(\d{1,12})\b", extra)
    return None if match is None else int(match[1])


def _faults(run: Run, *, log_only: bool) -> list[str]:
    if log_only:
        return []
    found = []
    if run.metrics is None:
        found.append("missing_metrics")
    elif run.metrics.generation == "2.0":
        if not run.folder.of(TRAINING_LOG, WATCHDOG_LOG, LOG):
            found.append("missing_log")
        if run.metrics.missing:
            found.append(f"invalid_schema: without {', '.join(run.metrics.missing)}")
    named = _GPUS_IN_NAME.search(run.name)
    sizes = {size for size in (run.configuration.world_size, _stated_world_size(run)) if size}
    if named is not None:
        sizes.add(int(named[1]))
    if len(sizes) > 1:
        sizes_text = " against ".join(str(size) for size in sorted(sizes))
        found.append(f"world_size_mismatch: {sizes_text}")
    return found


def _stated_world_size(run: Run) -> int | None:
    return None if run.completion is None else run.completion.world_size


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
