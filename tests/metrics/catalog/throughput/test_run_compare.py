"""run_compare: the change of step times, whether it is one, and runs that cannot be compared."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from factories import Event, card, job, kernel, launch, rank_trace, step
from worked import cpu_only

from ccltui.metrics.catalog.throughput import run_compare
from ccltui.metrics.registry import find
from ccltui.metrics.result import Result
from ccltui.metrics.view.job_view import View, ViewOptions
from ccltui.parsers.columns import Device, RankTrace
from ccltui.parsers.errors import TraceError
from ccltui.parsers.job import Job

Comparing = Callable[..., Result]

A100 = Device(0, "NVIDIA A100-SXM4-80GB")


def run(*lengths: float, device: Device = A100, rank: int = 0) -> RankTrace:
    """Steps of these lengths in µs, half of each computed."""
    starts = [sum(lengths[:i]) for i in range(len(lengths))]
    return rank_trace(
        rank,
        annotations=[step(i, s, n) for i, (s, n) in enumerate(zip(starts, lengths, strict=True))],
        runtime=[launch(i + 1, s) for i, s in enumerate(starts)],
        gpu=[
            event
            for i, (s, n) in enumerate(zip(starts, lengths, strict=True))
            for event in (
                Event("gemm", s, n / 2, correlation=i + 1),
                Event("gemm", s + n - 0.001, 0.001, correlation=i + 1),
            )
        ],
        devices=[device],
    )


@pytest.fixture
def compare(monkeypatch: pytest.MonkeyPatch) -> Comparing:
    def comparing(here: Job, there: Job | Exception, **more: str) -> Result:
        def opened(path: str | Path, profile_mode: str = "auto") -> Job:
            assert (str(path), profile_mode) == ("/other", "auto")
            if isinstance(there, Exception):
                raise there
            return there

        monkeypatch.setattr(run_compare, "open_job", opened)
        options = ViewOptions(overrides={"against": "/other", **more})
        return find("run_compare").run(View(here, options))

    return comparing


def test_a_change_beyond_the_spread(compare: Comparing) -> None:
    result = compare(job(run(80, 82, 78, 80)), job(run(100, 102, 98, 100)))

    assert result.status == "ok"
    assert result.value == pytest.approx(-20.0)
    row = result.details["rows"][0]
    assert (row["quantity"], row["n"], row["n_against"]) == ("iter_time_ms", 4, 4)
    assert (row["against_mean"], row["mean"]) == (pytest.approx(0.1), pytest.approx(0.08))
    # t(6) = 2.447 times sqrt(2 * (8/3) / 4) µs
    assert row["half_width"] == pytest.approx(2.447 * (2 * (8 / 3) / 4) ** 0.5 / 1000)
    assert result.details["verdict"] == "not distinguishable from noise between runs"


@pytest.mark.parametrize(("percent", "verdict"), [("10", "less"), ("25", "not distinguishable")])
def test_the_spread_between_runs_is_stated(compare: Comparing, percent: str, verdict: str) -> None:
    here, there = job(run(80, 82, 78, 80)), job(run(100, 102, 98, 100))

    result = compare(here, there, runs_vary_pct=percent)

    assert result.details["verdict"] == verdict
    assert compare(here, there, runs_vary_pct="much").reason == "not_applicable"
    parts = {row["quantity"]: row["mean"] for row in result.details["rows"]}
    assert parts["comp_ms"] == pytest.approx(0.04, rel=1e-3)
    assert parts["idle_ms"] == pytest.approx(0.04, rel=1e-3)


def test_a_change_inside_the_spread_is_none(compare: Comparing) -> None:
    result = compare(job(run(90, 120, 100)), job(run(80, 110, 105)))

    assert result.details["verdict"] == "not distinguishable"
    assert result.value == pytest.approx(100 * (310 / 295 - 1))


def test_one_step_each_tells_no_spread(compare: Comparing) -> None:
    result = compare(job(run(80)), job(run(100)))

    assert result.details["verdict"] == "unknown: one step each"
    assert result.details["rows"][0]["half_width"] is None


@pytest.mark.parametrize(
    ("there", "stated", "named"),
    [
        (run(100, device=Device(0, "NVIDIA H100")), {}, "device"),
        (run(100), {"seq_len": 4096}, "seq_len"),
        (run(100), {"precision": "fp8"}, "precision"),
        (run(100), {"tp": 8}, "tp"),
        (run(100, rank=1), {}, "ranks"),
    ],
)
def test_runs_that_differ_are_not_compared(
    compare: Comparing,
    there: RankTrace,
    stated: dict[str, object],
    named: str,
) -> None:
    of_both: dict[str, object] = {"seq_len": 2048, "precision": "bf16", "tp": 4}
    here = job(run(90), card=card(**of_both))

    result = compare(here, job(there, card=card(**of_both | stated)))

    assert (result.status, result.reason) == ("unavailable", "not_applicable")
    assert f"{named}: " in result.reasons[0].message


def test_what_only_one_run_states_makes_it_partial(compare: Comparing) -> None:
    result = compare(job(run(80, 80), card=card(seq_len=2048)), job(run(100, 100)))

    assert (result.status, result.reason) == ("partial", "card_incomplete")
    assert result.reasons[0].message.endswith("seq_len")
    assert result.details["verdict"] == "not distinguishable from noise between runs"


def test_a_run_against_itself_changes_nothing(compare: Comparing) -> None:
    result = compare(job(run(80, 90)), job(run(80, 90)))

    assert result.value == 0.0
    assert {row["verdict"] for row in result.details["rows"]} == {"not distinguishable"}


def test_what_it_needs(compare: Comparing) -> None:
    alone = find("run_compare").run(View(job(run(80))))
    broken = compare(job(run(80)), TraceError("cannot be listed", path="/other"))
    empty = compare(job(run(80)), job(kinds=()))
    unmarked = compare(job(run(80)), job(rank_trace(0, gpu=[kernel("k", 0, 1)], devices=[A100])))
    host = compare(job(cpu_only()), job(cpu_only()))

    assert (alone.reason, "against" in alone.reasons[0].message) == ("no_trace", True)
    assert (broken.reason, "/other" in broken.reasons[0].message) == ("no_trace", True)
    assert (empty.reason, "the other run" in empty.reasons[0].message) == ("no_trace", True)
    assert unmarked.reason == "no_step_markers"
    assert host.reason == "no_step_markers"
