"""Where device work was launched: the runtime call and the operator around it."""

from __future__ import annotations

import pytest
from factories import Event, launch, rank_trace

from ccltui.metrics.model.launch_site import launch_site


def test_the_innermost_operator_on_the_thread_of_the_launch() -> None:
    trace = rank_trace(
        0,
        gpu=[Event("gemm", 40, 10, correlation=5)],
        runtime=[launch(5, 30, 4, thread=1)],
        cpu_ops=[Event("linear", 10, 60, 1), Event("mm", 20, 30, 1), Event("load", 25, 30, 2)],
    )

    found = launch_site(trace, 0)

    assert found is not None
    assert (found.call.name, found.delay_ns) == ("cudaLaunchKernel", 10_000)
    assert found.operator is not None
    assert (found.operator.name, found.operator.end_ns - found.operator.start_ns) == ("mm", 30_000)


def test_the_operator_that_the_trace_names_comes_before_the_innermost() -> None:
    trace = rank_trace(
        0,
        gpu=[Event("gemm", 40, 10, correlation=5, external_id=9)],
        runtime=[launch(5, 30, 4, thread=1)],
        cpu_ops=[Event("linear", 10, 60, 1, external_id=9), Event("mm", 20, 30, 1)],
    )

    found = launch_site(trace, 0)

    assert found is not None
    assert found.operator is not None
    assert found.operator.name == "linear"


def test_a_launch_that_is_not_recorded_is_no_site() -> None:
    trace = rank_trace(0, gpu=[Event("gemm", 40, 10)], cpu_ops=[Event("mm", 20, 30, 1)])

    assert launch_site(trace, 0) is None
    with pytest.raises(IndexError):
        launch_site(trace, 1)
