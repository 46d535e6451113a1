"""Small traces that several tests measure, with the answers in their words."""

from __future__ import annotations

from factories import Event, allreduce, copy, job, kernel, launch, rank_trace, step

from ccltui.metrics.registry import find
from ccltui.metrics.result import Result
from ccltui.metrics.view.job_view import View, ViewOptions
from ccltui.parsers.columns import RankTrace


def measure(name: str, *ranks: RankTrace, card: object = None, **options: object) -> Result:
    """Result of the metric called ``name`` for a job of these ranks."""
    view = View(job(*ranks, card=card), ViewOptions(**options))  # type: ignore[arg-type]
    return find(name).run(view)


def worked_example(rank: int = 0) -> RankTrace:
    """Window [0, 100): K = [10,50) + [60,70), C = [40,80), M = [75,90); marks at both ends."""
    return rank_trace(
        rank,
        gpu=[
            kernel("mark", 0, 0),
            kernel("gemm", 10, 40),
            kernel("gemm", 60, 10),
            allreduce(40, 40),
            copy(75, 15),
            kernel("mark", 100, 0),
        ],
    )


def two_steps(rank: int = 0, *, shift_us: float = 0.0, second: int = 2) -> RankTrace:
    """Two steps; device work [10, 80) and [100, 160), 20 µs of nothing between them."""
    return rank_trace(
        rank,
        annotations=[step(1, 0, 100), step(second, 100, 100)],
        runtime=[launch(i, t) for i, t in ((1, 5), (2, 20), (3, 105), (4, 120))],
        gpu=[
            Event("gemm", 10, 40, correlation=1),
            Event("ncclKernel_AllReduce_a", 40, 40, 20, correlation=2),
            Event("gemm", 100, 50, correlation=3),
            Event("ncclKernel_AllReduce_a", 140, 20, 20, correlation=4),
        ],
        shift_us=shift_us,
    )


def cpu_only(rank: int = 0) -> RankTrace:
    """A trace without device events."""
    return rank_trace(rank, cpu_ops=[Event("aten::mm", 0, 1, 1)])


def gloo(rank: int = 0) -> RankTrace:
    """Kernels that compute, and collectives on the host."""
    return rank_trace(
        rank,
        gpu=[kernel("gemm", 0, 100)],
        cpu_ops=[Event("c10d::allreduce_", 10, 5, 1)],
        annotations=[Event("gloo:all_reduce", 20, 30, 2)],
    )


def gloo_alone(rank: int = 0) -> RankTrace:
    """Collectives on the host, and no device at all."""
    return rank_trace(
        rank,
        cpu_ops=[Event("c10d::allreduce_", 10, 5, 1)],
        annotations=[Event("gloo:all_reduce", 20, 30, 2)],
    )
