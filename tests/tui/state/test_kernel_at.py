"""What a rank was doing at the cursor."""

from __future__ import annotations

import pytest
from fakes import BASE_NS, COMPUTE_NS, Plan, ready_and_end, scene, trace

from ccltui.tui.state.kernel_at import Running, running_at, running_at_cursor
from ccltui.tui.state.pane_names import TIMELINE

GEMM = "sm90_xmma_gemm_bf16"
NCCL = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


@pytest.mark.parametrize(
    ("time_ns", "name", "stream"),
    [(0, GEMM, 7), (COMPUTE_NS - 160_000, GEMM, 7), (COMPUTE_NS - 140_000, NCCL, 20)],
)
def test_the_latest_to_start_is_named(time_ns: int, name: str, stream: int) -> None:
    running = running_at(trace(Plan(), 0), BASE_NS + time_ns)

    assert running is not None
    assert (running.name, running.stream) == (name, stream)


def test_before_and_after_everything_it_is_idle() -> None:
    rank = trace(Plan(), 0)
    _, end = ready_and_end(Plan())

    assert running_at(rank, BASE_NS - 1) is None
    assert running_at(rank, BASE_NS + int(end[-1])) is None
    assert running_at(rank, BASE_NS + int(end[-1]) - 1) is not None


def test_at_the_cursor_of_a_scene() -> None:
    found = scene(pane=TIMELINE)
    found = found.with_state(found.state.select(rank="3", time_ns=1_000))
    ready, _ = ready_and_end(Plan())

    assert running_at_cursor(found) == Running(GEMM, 7, int(ready[3, 0]))
