"""Device work of which it is a guess to which step it belongs: results are partial, and say so."""

from __future__ import annotations

import pytest
from factories import allreduce, job, kernel, rank_trace, step

from ccltui.metrics.registry import metrics
from ccltui.metrics.view.job_view import View, ViewOptions

TEXT = (
    "2 of 4 device events of rank 0 have no launch record, and it is not clear which step "
    "launched them: each counts in the most likely step, if any"
)


def view_of_short_markers(options: ViewOptions | None = None) -> View:
    """The host needs 20 us for a step, the device 60, and no launch is recorded."""
    trace = rank_trace(
        annotations=[step(n, 100 * n, 20) for n in (1, 2)],
        gpu=[
            event
            for n in (1, 2)
            for event in (kernel("gemm", 100 * n + 5, 25), allreduce(100 * n + 40, 25))
        ],
    )
    return View(job(trace), options)


@pytest.mark.parametrize(
    "name", ["comm_comp_overlap", "temporal_breakdown", "gpu_busy", "kernels", "memory_transfer"]
)
def test_times_of_the_device_are_partial_with_the_number(name: str) -> None:
    result = metrics()[name].run(view_of_short_markers())

    assert result.status == "partial"
    assert [(r.code, r.message) for r in result.reasons] == [("uncorrelated_work", TEXT)]


def test_guessed_work_counts_in_the_step_before_it() -> None:
    found = metrics()["comm_comp_overlap"].run(view_of_short_markers()).details

    assert (found["num_comm_kernels"], found["num_comp_kernels"]) == (2, 2)
    assert found["window_ms"] == pytest.approx(0.16)  # 105 to 205, and 205 to 265


def test_counts_of_all_calls_need_no_step() -> None:
    assert metrics()["coll_call_num"].run(view_of_short_markers()).status == "ok"
    one_step = view_of_short_markers(ViewOptions(steps=(2, 2)))
    found = metrics()["coll_call_num"].run(one_step)
    assert (found.status, found.reason, found.value) == ("partial", "uncorrelated_work", 1)


def test_the_whole_trace_needs_no_step() -> None:
    whole = view_of_short_markers(ViewOptions(span="trace"))

    assert metrics()["comm_comp_overlap"].run(whole).status == "ok"
