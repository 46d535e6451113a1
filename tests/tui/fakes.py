"""A job in memory: ranks that compute and meet in collectives, with planted stragglers."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from ccltui.metrics.confidence import Sure
from ccltui.metrics.findings.finding import Finding, Where
from ccltui.metrics.metric import Metric
from ccltui.metrics.result import Reason, Result
from ccltui.metrics.unavailable import Refusal
from ccltui.metrics.view.job_view import View, ViewOptions
from ccltui.parsers.array_types import I64
from ccltui.parsers.columns import (
    MISSING,
    CollectiveArgs,
    Events,
    Note,
    ProcessGroup,
    RankTrace,
    SourceFile,
    Strings,
    Track,
)
from ccltui.parsers.discovery.discover import Capture, Discovery, FoundFile
from ccltui.parsers.ingest.load import Failed
from ccltui.parsers.job import Job
from ccltui.tui.engine.analysis import Analyst, stages
from ccltui.tui.engine.messages import (
    Fact,
    FilesRead,
    JobOpened,
    LoadEnded,
    OpenFailed,
)
from ccltui.tui.options import ExplorerOptions
from ccltui.tui.reducer import adopt
from ccltui.tui.state.answers import Findings
from ccltui.tui.state.pane_states import ALIGNMENT, OwnState
from ccltui.tui.state.scene import Scene
from ccltui.tui.state.session import Session
from ccltui.tui.state.view_state import ColumnView, TimeView, ViewState

BASE_NS = 1_700_000_000_000_000_000
COMPUTE_NS = 700_000
TRANSFER_NS = 400_000
OVERLAP_NS = 150_000

Post = Callable[[Fact], object]
STRINGS = (
    "sm90_xmma_gemm_bf16",
    "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
    "kernel",
    "user_annotation",
    "allreduce",
    "BFloat16",
    "aten::mm \x1b[31mred\x1b[0m [bold]",
)


class Plan(Struct, frozen=True):
    """``late`` maps (rank, collective) to how much later than planned that rank arrives."""

    ranks: int = 8
    steps: int = 6
    per_step: int = 14
    late: tuple[tuple[int, int, int], ...] = (
        (5, 40, 12_000_000),
        (5, 41, 3_000_000),
        (2, 20, 900_000),
    )

    @property
    def collectives(self) -> int:
        """Collectives of every rank."""
        return self.steps * self.per_step


@functools.cache
def ready_and_end(plan: Plan) -> tuple[I64, I64]:
    """When each rank reaches each collective (int64 [ranks, n]), and when each ends (int64 [n])."""
    jitter = (
        np.arange(plan.ranks)[:, None] * 7919 + np.arange(plan.collectives) * 104_729
    ) % 60_000
    delay = jitter.astype(np.int64)
    for rank, k, late_ns in plan.late:
        if rank < plan.ranks and k < plan.collectives:
            delay[rank, k] += late_ns
    ready = np.zeros_like(delay)
    end = np.zeros(plan.collectives, np.int64)
    free = np.zeros(plan.ranks, np.int64)
    for k in range(plan.collectives):
        ready[:, k] = free + COMPUTE_NS + delay[:, k]
        end[k] = ready[:, k].max() + TRANSFER_NS
        free[:] = end[k]
    return ready, end


def _events(columns: dict[str, Any]) -> Events:
    count = len(columns["start_ns"])
    full: dict[str, Any] = {
        name: columns.get(name, np.full(count, MISSING)).astype(dtype)
        for name, dtype in Events.COLUMNS
    }
    order = np.argsort(full["start_ns"], kind="stable")
    return Events(**full).take(order)


def trace(plan: Plan, rank: int, notes: tuple[Note, ...] = ()) -> RankTrace:
    """Columns of one rank: a kernel and a collective in turn, and step markers."""
    ready, end = ready_and_end(plan)
    n = plan.collectives
    free = np.concatenate([[0], end[:-1]])
    gpu = _events(
        {
            "start_ns": BASE_NS + np.concatenate([free, ready[rank] - OVERLAP_NS]),
            "dur_ns": np.concatenate([ready[rank] - free, end - ready[rank] + OVERLAP_NS]),
            "name": np.repeat([0, 1], n),
            "category": np.full(2 * n, 2),
            "track": np.repeat([0, 1], n),
            "args": np.concatenate([np.full(n, MISSING), np.arange(n)]),
        }
    )
    markers = np.arange(plan.steps)
    starts = np.concatenate([[0], end[plan.per_step - 1 :: plan.per_step]])
    annotations = _events(
        {
            "start_ns": BASE_NS + starts[:-1],
            "dur_ns": np.diff(starts),
            "name": len(STRINGS) + markers,
            "category": np.full(plan.steps, 3),
            "track": np.full(plan.steps, 2),
        }
    )
    return RankTrace(
        source=SourceFile(f"rank{rank}.json", f"/nowhere/rank{rank}.json", 4_000_000, 0),
        rank=rank,
        rank_source="distributedInfo",
        strings=Strings.of((*STRINGS, *(f"ProfilerStep#{step}" for step in markers))),
        events={"gpu": gpu, "annotations": annotations},
        collective_args=_arguments(plan),
        tracks=(
            Track("stream", "0", "7", 0, 7),
            Track("stream", "0", "20", 0, 20),
            Track("thread", "1", "1"),
        ),
        process_groups=(
            ProcessGroup("0", "default_pg", tuple(range(plan.ranks)), plan.ranks, "nccl"),
        ),
        world_size=plan.ranks,
        backend="nccl",
        host="node0",
        base_ns=BASE_NS,
        notes=notes,
        label=str(rank),
    )


def _arguments(plan: Plan) -> CollectiveArgs:
    n = plan.collectives
    values: dict[str, Any] = {
        "op": np.full(n, 4),
        "in_elems": np.full(n, 1 << 24),
        "out_elems": np.full(n, 1 << 24),
        "dtype": np.full(n, 5),
        "group": np.zeros(n),
        "group_size": np.full(n, plan.ranks),
        "seq": np.arange(n),
        "comms_id": np.zeros(n),
    }
    columns: dict[str, Any] = {
        name: values.get(name, np.full(n, MISSING)).astype(dtype)
        for name, dtype in CollectiveArgs.COLUMNS
    }
    return CollectiveArgs(**columns)


def empty_job(plan: Plan) -> Job:
    """What discovery would find: files, but no rank yet."""
    files = tuple(
        FoundFile(f"rank{r}.json", f"/nowhere/rank{r}.json", "kineto", 4_000_000, rank=r)
        for r in range(plan.ranks)
    )
    capture = Capture("", None, files, tuple(range(plan.ranks)), plan.ranks, complete=True)
    return Job("/nowhere/run-0421", Discovery("/nowhere/run-0421", files, (capture,)), capture)


class FakeLoad(Struct, frozen=True):
    """Stands in for the loader: posts the ranks of a plan from memory."""

    plan: Plan = Plan()
    failing: tuple[int, ...] = ()
    stop_after: int | None = None

    def __call__(
        self,
        path: str,
        options: ExplorerOptions,
        post: Post,
        cancelled: Callable[[], bool],
    ) -> None:
        """As ``run_load``; with ``stop_after`` it waits for the user to cancel."""
        del path, options
        job = empty_job(self.plan)
        post(JobOpened(job))
        for rank in range(self.plan.ranks):
            if self.stop_after == rank:
                while not cancelled():
                    time.sleep(0.005)
                post(LoadEnded(stopped=True))
                return
            path = f"rank{rank}.json"
            if rank in self.failing:
                error = f"{path} at byte 1,203: truncated \x1b[2Jafter 8,100 events"
                job = job.with_failure(Failed(path, error))
                post(FilesRead(job, {path: error}))
            else:
                job = job.with_rank(trace(self.plan, rank))
                post(FilesRead(job, {path: ""}))
        post(LoadEnded(stopped=False))


def fail_to_open(path: str, options: ExplorerOptions, post: Post, cancelled: object) -> None:
    """A loader that finds nothing."""
    del options, cancelled
    post(OpenFailed(f"{path}: no trace that can be opened; found no file at all"))


def _literal(name: str, unit: str, title: str, value: float | None, details: Any) -> Metric:
    """A metric that says the same whatever it is asked."""
    keys = (name, *details)

    def compute(view: View) -> Result:
        del view
        if value is None:
            raise Refusal(Reason("no_card", "no workload card here"))
        return Result(
            metric=name,
            unit=unit,
            definition=f"Literal {title} for tests, mean over ranks.",
            status="ok",
            value=value,
            details={name: value, **details},
            basis={"window": "step"},
        )

    return Metric(
        name=name,
        unit=unit,
        definition=f"Literal {title} for tests, mean over ranks.",
        needs=("GPU kernels",),
        keys=keys,
        headline=name,
        compute=compute,
        label=title,
    )


FOUND = (
    Finding(
        kind="waiting_for_rank",
        text="Everyone waits for rank 5: 14 % of the time, 2.1 ms a step.",
        more="It computes longer than its peers.",
        where=Where(ranks=("5",)),
        share=0.14,
        cost_ms=2.1,
        sure=Sure(what="high", who="medium"),
        place={"rank": "5", "time_us": 0.0, "group_number": 0, "index": 40},
        do="Compare the device of rank 5 with those of its peers.",
    ),
    Finding(
        kind="host_bound",
        text="The host is too slow: 8 % of the time the devices wait for launches, 1.2 ms a step.",
        share=0.08,
        cost_ms=1.2,
        place={"rank": "2", "time_us": 21_000.0, "length_us": 300.0},
        do="Launch less: CUDA graphs, fused operators.",
    ),
    Finding(
        kind="copies",
        text="Copies run while nothing computes: 2 % of the time, 0.3 ms a step.",
        share=0.02,
        cost_ms=0.3,
        do="Copy beside computing.",
    ),
)


def answer_details(found: Sequence[Finding] = FOUND) -> dict[str, Any]:
    """Details of `findings` of eight ranks, of which rank 5 computes longest."""
    shares = {"compute": 0.6, "waiting": 0.2, "transfer": 0.1, "copies": 0.02, "idle": 0.08}
    slow = {"compute": 0.8, "waiting": 0.0, "transfer": 0.1, "copies": 0.02, "idle": 0.08}
    ranks = {str(rank): {**shares, "waited_for": 0.0} for rank in range(8)}
    return {
        "headline": found[0].text,
        "recording": "ranks",
        "findings": [one.to_dict() for one in found],
        "unknown": ["To know more, record three steps or more."],
        "period": "step",
        "period_ms": 15.0,
        "shares": shares,
        "per_rank": {**ranks, "5": {**slow, "waited_for": 0.14}},
    }


def literal_metrics() -> dict[str, Metric]:
    """Metrics whose numbers do not depend on how metrics are defined."""
    per_rank = {
        str(rank): {"step_ms": 18.8 + rank % 3 / 10, "std": None, "n": 6} for rank in range(8)
    }
    blame = {
        "5": {"last_count": 11, "caused_wait_us": 100_000.0},
        "2": {"last_count": 23, "caused_wait_us": 9_000.0},
        "0": {"last_count": 0, "caused_wait_us": 0.0},
    }
    found = (
        _literal(
            "total_calls",
            "calls",
            "collective calls",
            672,
            {"calls_per_rank": {str(r): 84 for r in range(8)}},
        ),
        _literal("tokens", "tokens/s", "tokens per second", None, {}),
        _literal("step_ms", "ms", "step time", 18.82, {"per_rank": per_rank}),
        _literal(
            "straggler_lag", "us", "straggler lag", 238.1, {"blame": blame, "num_collectives": 84}
        ),
        _literal("findings", "ratio", "first finding", 0.14, answer_details()),
    )
    return {metric.name: metric for metric in found}


def literal_analyst() -> Analyst:
    """Everything from the fake job's columns, but for the metrics."""
    return Analyst(literal_metrics, first=lambda: None)


def full_job(plan: Plan) -> Job:
    """The job with all its ranks."""
    job = empty_job(plan)
    for rank in range(plan.ranks):
        job = job.with_rank(trace(plan, rank))
    return job


def scene(
    plan: Plan | None = None,
    *,
    pane: str = ALIGNMENT,
    cells: int = 72,
    chosen: ViewOptions | None = None,
) -> Scene:
    """A scene as it is when everything is loaded and computed."""
    plan = plan or Plan()
    job = full_job(plan)
    session = Session("/nowhere/run-0421").opened(empty_job(plan))
    for rank in range(plan.ranks):
        session = session.with_job(job, {f"rank{rank}.json": ""})
    session = session.filtered(chosen or ViewOptions()).finished(stopped=False)
    view = View(job, ViewOptions(window=session.filter.window, steps=session.filter.steps))
    state = replace(
        ViewState(), pane=pane, time=TimeView(cells=cells), columns=ColumnView(cells=cells), rows=16
    )
    start = Findings(generation=session.generation)
    *_, findings = stages(view, session.filter, start, tuple(literal_metrics().values()))
    return adopt(Scene(session, state), findings)


def own_changed(found: Scene, own: OwnState[Any], **changes: Any) -> Scene:
    """The scene with other values in the state of one pane."""
    return found.with_state(own.put(found.state, replace(own.of(found.state), **changes)))
