"""trace_proxy_latency: passes of inference servers, and what their names say."""

from __future__ import annotations

import pytest
from factories import Event, card, launch, rank_trace, step
from worked import cpu_only, measure

from ccltui.metrics.model.rank_steps import steps_of
from ccltui.metrics.workload.job_steps import Batch, batch_of
from ccltui.parsers.columns import RankTrace
from ccltui.parsers.window import Window

PREFILL = "execute_context_1(888_788544)_generation_0(0)"
DECODE = "execute_context_0(0)_generation_8(8)"
MIXED = "execute_context_1(100)_generation_7(7)"


@pytest.mark.parametrize(
    ("name", "batch"),
    [
        (PREFILL, Batch("prefill", 888, 788544)),
        (DECODE, Batch("decode", 8, None)),
        (MIXED, Batch("mixed", 107)),
        ("execute_context_0(0_0)_generation_64(64_99)", Batch("decode", 64, 99)),
        (
            "execute_32_context_0(sq0sk0sqsq0sqsk0)_generation_32(sq32sk55086sqsq32sqsk55086)",
            Batch("decode", 32, 55086),
        ),
        (
            "execute_40_context_1(sq40sk50sqsq1600sqsk2000)_generation_0(sq0sk0sqsq0sqsk0)",
            Batch("prefill", 40, 2000),
        ),
        ("execute_context_0(0)_generation_0(0)", Batch("unknown", 0)),
        ("run_batch", Batch("unknown")),
        ("run_batch bs=4", Batch("unknown")),
        ("execute_diffusion_1_0x0", None),
        ("ProfilerStep#3", None),
        ("rerun_batch", None),
    ],
)
def test_what_a_name_says(name: str, batch: Batch | None) -> None:
    assert batch_of(name) == batch


def served(*passes: tuple[str, float], device: bool = True, rank: int = 0) -> RankTrace:
    """Passes of 100 µs on the host every 1000 µs, with device work of so many µs."""
    rows = [(name, us, 1000.0 * i, i) for i, (name, us) in enumerate(passes)]
    return rank_trace(
        rank,
        annotations=[Event(name, at, 100, 1) for name, _, at, _ in rows],
        runtime=[launch(i, at + 10) for _, _, at, i in rows if device],
        gpu=[Event("gemm", at + 50, us, correlation=i) for _, us, at, i in rows if device],
    )


def test_phases_by_name() -> None:
    result = measure(
        "trace_proxy_latency",
        served((PREFILL, 400), (DECODE, 20), (DECODE, 30), (MIXED, 90), (DECODE, 40)),
    )

    details = result.details
    assert result.value == 0.04
    assert details["trace_proxy_prefill_ms"] == 0.4
    assert details["trace_proxy_decode_iter_ms"] == 0.03
    assert details["decode_iter_ms"] == {
        "mean": pytest.approx(0.03),
        "p50": 0.03,
        "p90": 0.04,
        "p95": 0.04,
        "p99": 0.04,
        "n": 3,
    }
    assert (details["mixed_iter_ms"]["n"], details["num_iterations"]) == (1, 5)
    assert result.basis["duration"].startswith("device work")
    assert "queueing" in result.warnings[0]


def test_where_no_name_tells_the_first_pass_is_prefill() -> None:
    result = measure("trace_proxy_latency", served(("run_batch", 300), ("run_batch", 20)))

    assert result.details["trace_proxy_prefill_ms"] == 0.3
    assert result.details["trace_proxy_decode_iter_ms"] == 0.02
    assert "first pass" in result.basis["phase"]


def test_without_a_device_the_marker_counts() -> None:
    result = measure("trace_proxy_latency", served((DECODE, 0), (DECODE, 0), device=False))

    assert (result.value, result.basis["duration"]) == (0.1, "marker")


def test_several_passes_are_steps_in_either_spelling() -> None:
    long = "execute_32_context_0(sq0sk0sqsq0sqsk0)_generation_32(sq32sk9sqsq32sqsk9)"
    for name in (long, DECODE):
        steps, marker = steps_of(served((name, 5), (name, 5)))
        assert (len(steps), marker) == (2, "execute_context")


def test_a_prefill_alone_leaves_decode_open() -> None:
    details = measure("trace_proxy_latency", served((PREFILL, 400))).details

    assert (details["trace_proxy_prefill_ms"], details["trace_proxy_decode_iter_ms"]) == (0.4, None)


def test_a_window_chooses_passes_by_their_marker() -> None:
    trace = served((PREFILL, 400), (DECODE, 20), (DECODE, 30))

    details = measure("trace_proxy_latency", trace, window=Window(900_000, 1_900_000)).details

    assert (details["num_iterations"], details["trace_proxy_decode_iter_ms"]) == (1, 0.02)


def test_what_it_needs() -> None:
    assert measure("trace_proxy_latency", cpu_only()).reason == "no_step_markers"
    trained = rank_trace(0, annotations=[step(1, 0, 10)])
    assert measure("trace_proxy_latency", trained).reason == "no_step_markers"
    stated = card(phase="training")
    assert measure("trace_proxy_latency", served((DECODE, 5)), card=stated).reason == (
        "phase_mismatch"
    )
