"""ttft and tpot: latencies of requests from result files, never averages of averages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from factories import card, job
from worked import measure, worked_example

from ccltui.metrics.registry import find
from ccltui.metrics.result import Result
from ccltui.metrics.view.job_view import View, ViewOptions
from ccltui.parsers.job import start_job

SUMMARY = {"backend": "vllm", "completed": 5, "mean_ttft_ms": 12.0, "median_ttft_ms": 11.0}
SAMPLES = {
    **SUMMARY,
    "ttfts": [0.010, 0.030, 0.020, 0.040],
    "itls": [[0.002], [0.004, 0.004], [], [0.006] * 3],
    "output_lens": [2, 3, 1, 4],
}


def run(directory: Path, name: str, **options: Any) -> Result:
    return find(name).run(View(start_job(directory), ViewOptions(**options)))


def write(directory: Path, **documents: Any) -> Path:
    for name, document in documents.items():
        (directory / f"{name}.json").write_text(json.dumps(document))
    return directory


def test_a_distribution_over_requests(tmp_path: Path) -> None:
    result = run(write(tmp_path, a=SAMPLES), "ttft")

    assert (result.status, result.value, result.source) == ("ok", 25.0, "side_file")
    assert result.details["ttft_ms"] == {
        "mean": 25.0,
        "p50": 25.0,
        "p90": 40.0,
        "p95": 40.0,
        "p99": 40.0,
        "n": 4,
    }
    assert (result.details["source_file"], result.details["aggregation"]) == (
        "a.json",
        "per_request",
    )
    assert result.inputs["side_files"] == ["a.json"]


def test_time_per_token_and_gaps(tmp_path: Path) -> None:
    details = run(write(tmp_path, a=SAMPLES), "tpot").details

    assert details["tpot_ms"]["n"] == 3  # a request of one token has none
    assert details["p50_tpot_ms"] == pytest.approx(4.0)
    assert details["itl_ms"]["n"] == 6
    assert details["itl_ms"]["mean"] == pytest.approx(28 / 6)


def test_a_reported_summary_is_labelled_as_one(tmp_path: Path) -> None:
    result = run(write(tmp_path, a=SUMMARY), "ttft")

    assert (result.value, result.details["aggregation"]) == (11.0, "reported_summary")
    assert result.details["ttft_ms"] == {
        "mean": 12.0,
        "p50": 11.0,
        "p90": None,
        "p95": None,
        "p99": None,
        "n": 5,
    }
    mean_only = run(write(tmp_path, a={"mean_ttft_ms": 3.0}), "ttft")
    assert (mean_only.value, mean_only.basis["p50_ttft_ms"]) == (
        3.0,
        "the mean: no median is reported",
    )


def test_several_files_are_several_experiments(tmp_path: Path) -> None:
    directory = write(tmp_path, rate_2=SUMMARY, rate_10=SAMPLES)

    result = run(directory, "ttft")

    assert (result.value, result.details["source_file"]) == (11.0, "rate_2.json")
    assert [row["source_file"] for row in result.details["experiments"]] == [
        "rate_2.json",
        "rate_10.json",
    ]
    assert "never averaged" in result.warnings[0]
    chosen = run(directory, "ttft", overrides={"result_file": "rate_10.json"})
    assert chosen.value == 25.0
    wrong = run(directory, "ttft", overrides={"result_file": "rate_3.json"})
    assert (wrong.reason, "rate_10.json" in wrong.reasons[0].message) == ("no_side_file", True)


def test_an_unreadable_file_does_not_affect_the_others(tmp_path: Path) -> None:
    directory = write(tmp_path, a=SUMMARY)
    (directory / "b.json").write_text('{"median_ttft_ms": 3.0, ')

    result = run(directory, "ttft")

    assert (result.status, result.reasons[0].file, result.value) == ("partial", "b.json", 11.0)


def test_aliases() -> None:
    assert find("TTFT") is find("ttft")
    assert find("TPOT") is find("tpot")


@pytest.mark.parametrize("name", ["ttft", "tpot"])
def test_latency_metrics_need_result_files(name: str, tmp_path: Path) -> None:
    from_trace = measure(name, worked_example())
    assert (from_trace.reason, from_trace.value) == ("no_side_file", None)
    assert "trace_proxy_latency" in from_trace.reasons[0].message
    assert measure(name, worked_example(), card=card(phase="training")).reason == ("phase_mismatch")
    assert find(name).run(View(job(kinds=()))).reason == "no_trace"
    latencies = write(tmp_path, q={"avg_latency": 1.0, "latencies": [1.0]})
    assert run(latencies, name).reason == "no_side_file"


def test_requests_in_any_order(tmp_path: Path) -> None:
    turned = {
        key: value[::-1] if isinstance(value, list) else value for key, value in SAMPLES.items()
    }
    for name in ("ttft", "tpot"):
        one = run(write(tmp_path, a=SAMPLES), name).details
        other = run(write(tmp_path, a=turned), name).details
        assert one == other
