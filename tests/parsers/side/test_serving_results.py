"""Result files of serving benchmarks, in the forms that the tools write."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ccltui.parsers.discovery.discover import discover
from ccltui.parsers.errors import TraceError
from ccltui.parsers.side.result_files import Experiment, names_of, read_serving
from ccltui.parsers.text.json_fields import read_documents

VLLM = {
    "date": "20250601-101010",
    "backend": "vllm",
    "num_prompts": 3,
    "request_rate": "inf",
    "duration": 9.5,
    "completed": 2,
    "mean_ttft_ms": 30.0,
    "median_ttft_ms": 30.0,
    "std_ttft_ms": 10.0,
    "p99_ttft_ms": 39.8,
    "mean_tpot_ms": 5.0,
    "median_tpot_ms": 5.0,
    "p99_tpot_ms": 5.0,
    "mean_itl_ms": 5.0,
    "median_itl_ms": 4.0,
    "p99_itl_ms": 9.0,
}
DETAILED = {
    **VLLM,
    "input_lens": [10, 20, 30],
    "output_lens": [3, 1, 0],
    "ttfts": [0.020, 0.040, 0.0],
    "itls": [[0.004, 0.006], [], []],
    "generated_texts": ["a", "b", ""],
    "errors": ["", "", "timed out"],
}


def read(tmp_path: Path, document: Any, name: str = "result.json") -> tuple[Experiment, ...]:
    path = tmp_path / name
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return read_serving(path, shown=name)


def test_the_summary_of_vllm(tmp_path: Path) -> None:
    (one,) = read(tmp_path, VLLM)

    assert (one.tool, one.ttft_ms, one.tpot_ms, one.num_requests) == ("vllm", None, None, 2)
    assert one.reported["ttft"] == {"mean": 30.0, "p50": 30.0, "std": 10.0, "p99": 39.8}
    assert one.reported["itl"]["p50"] == 4.0


def test_samples_are_in_seconds_and_leave_out_failed_requests(tmp_path: Path) -> None:
    (one,) = read(tmp_path, DETAILED)

    assert one.ttft_ms is not None
    assert one.tpot_ms is not None
    assert one.itl_ms is not None
    assert one.ttft_ms.tolist() == [20.0, 40.0]
    assert one.tpot_ms.tolist() == [5.0]  # one token has no time per further token
    assert one.itl_ms.tolist() == pytest.approx([4.0, 6.0])
    assert one.num_failed == 1


def test_tokens_that_come_in_chunks_count_by_their_number(tmp_path: Path) -> None:
    """Two gaps for six tokens: the gaps are long, the time per token is not."""
    (one,) = read(tmp_path, {"ttfts": [0.1], "itls": [[0.010, 0.015]], "output_lens": [6]})

    assert one.tpot_ms is not None
    assert one.tpot_ms.tolist() == pytest.approx([5.0])


def test_several_records_are_several_experiments(tmp_path: Path) -> None:
    lines = [json.dumps({**VLLM, "backend": "sglang", "median_ttft_ms": ms}) for ms in (1, 2)]

    found = read(tmp_path, "\n".join(lines) + "\n\n", "bench_results.jsonl")

    assert [(one.tool, one.line, one.reported["ttft"]["p50"]) for one in found] == [
        ("sglang", 1, 1.0),
        ("sglang", 2, 2.0),
    ]
    assert names_of(found, "b.jsonl") == ("b.jsonl:1", "b.jsonl:2")
    assert names_of(found[:1], "b.jsonl") == ("b.jsonl",)


def test_a_record_over_several_lines_is_one(tmp_path: Path) -> None:
    assert len(read(tmp_path, json.dumps(VLLM, indent=2))) == 1
    two = json.dumps(VLLM, indent=2) + "\n" + json.dumps(VLLM, indent=2)
    assert len(read(tmp_path, two)) == 2


def test_statistics_of_nothing(tmp_path: Path) -> None:
    text = json.dumps({**VLLM, "mean_ttft_ms": float("nan"), "ttfts": [], "itls": []})

    (one,) = read(tmp_path, text)

    assert "mean" not in one.reported["ttft"]
    assert one.ttft_ms is None


def test_arrays_of_different_length_are_not_used(tmp_path: Path) -> None:
    (one,) = read(tmp_path, {**DETAILED, "output_lens": [3]})

    assert one.ttft_ms is None
    assert one.reported["ttft"]["p50"] == 30.0
    assert "output_lens" in one.notes[0].message


def test_genai_perf_calls_tpot_inter_token_latency(tmp_path: Path) -> None:
    document = {
        "request_throughput": {"unit": "requests/sec", "avg": 15.0},
        "time_to_first_token": {"unit": "ms", "avg": 40.0, "p50": 38.0, "p99": 80.0},
        "inter_token_latency": {"unit": "s", "avg": 0.006, "p50": 0.005},
        "request_count": {"unit": "count", "avg": 12.0},
        "input_config": {"model_names": ["m"]},
    }

    (one,) = read(tmp_path, document)

    assert (one.tool, one.num_requests) == ("genai-perf", 12)
    assert one.reported == {
        "ttft": {"mean": 40.0, "p50": 38.0, "p99": 80.0},
        "tpot": {"mean": 6.0, "p50": 5.0},
    }


def test_the_raw_export_of_genai_perf(tmp_path: Path) -> None:
    start = 1_745_526_100_000_000_000
    document = {
        "service_kind": "triton",
        "endpoint": "localhost",
        "experiments": [
            {
                "experiment": {"mode": "concurrency", "value": 1},
                "requests": [
                    {
                        "timestamp": start,
                        "response_timestamps": [start + 20_000_000, start + 26_000_000],
                    },
                    {"timestamp": start, "response_timestamps": []},
                    {"timestamp": start, "response_timestamps": [start], "success": False},
                    "broken",
                ],
            }
        ],
    }

    (one,) = read(tmp_path, document)

    assert one.ttft_ms is not None
    assert one.itl_ms is not None
    assert (one.ttft_ms.tolist(), one.itl_ms.tolist()) == ([20.0], [6.0])
    assert (one.tpot_ms, one.num_requests, one.num_failed) == (None, 1, 3)


def test_a_file_of_whole_latencies_is_no_experiment(tmp_path: Path) -> None:
    document = {"avg_latency": 1.5, "latencies": [1.5], "percentiles": {"50": 1.5}}

    assert read(tmp_path, document) == ()


def test_numbers_that_no_float_holds(tmp_path: Path) -> None:
    huge = "1" + "0" * 400
    found = read(tmp_path, f'{{"median_ttft_ms": 1.0, "ttfts": [{huge}, 0.5], "itls": [[], []]}}')

    assert found[0].ttft_ms is not None
    assert (found[0].ttft_ms.tolist(), found[0].num_failed) == ([500.0], 1)


def test_compressed_files(tmp_path: Path) -> None:
    path = tmp_path / "result.json.gz"
    path.write_bytes(gzip.compress(json.dumps(DETAILED).encode()))

    assert len(read_serving(path, shown="r")) == 1


@pytest.mark.parametrize("text", ["", "{", "not json", '{"a": 1} x', "\x00", "[" * 100_000])
def test_what_is_no_json_says_so(tmp_path: Path, text: str) -> None:
    with pytest.raises(TraceError, match=r"r\.json: "):
        read(tmp_path, text, "r.json")


def test_a_file_that_is_too_large_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    path.write_text(json.dumps(DETAILED))

    with pytest.raises(TraceError, match="more than 10 bytes"):
        read_documents(path, shown="r.json", max_bytes=10)
    with pytest.raises(TraceError, match="cannot be read"):
        read_documents(tmp_path / "absent", shown="absent")


def test_damaged_compression_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "r.json.gz"
    path.write_bytes(gzip.compress(json.dumps(DETAILED).encode())[:-12])

    with pytest.raises(TraceError, match="gzip"):
        read_serving(path, shown="r")


@pytest.mark.parametrize(
    ("name", "document"),
    [
        ("a.json", VLLM),
        ("a.json", {"input_lens": [1], "ttfts": [0.1], "mean_ttft_ms": 1.0}),
        ("bench_results.jsonl", VLLM),
        ("g.json", {"request_throughput": {}, "time_to_first_token": {"unit": "ms"}}),
        ("p.json", {"service_kind": "openai", "experiments": []}),
        ("profile_export.json", {"experiments": [{"requests": []}]}),
    ],
)
def test_discovery_knows_them(tmp_path: Path, name: str, document: Any) -> None:
    (tmp_path / name).write_text(json.dumps(document))

    (found,) = discover(tmp_path).files

    assert found.kind == "serving_results"


KEYS = (
    "ttfts",
    "itls",
    "output_lens",
    "errors",
    "experiments",
    "requests",
    "timestamp",
    "response_timestamps",
    "time_to_first_token",
    "unit",
    "avg",
    "median_ttft_ms",
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=5)
    ),
    max_leaves=20,
)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(JSON)
def test_any_json_is_experiments_or_none(tmp_path: Path, document: Any) -> None:
    for one in read(tmp_path, json.dumps(document)):
        for quantity in ("ttft", "tpot", "itl"):
            samples = one.samples(quantity)
            assert samples is None or samples.dtype == np.float64


@pytest.mark.parametrize("value", ["1e308", "9223372036854775808", "9" * 400, "1e400", "-1e19"])
def test_numbers_beyond_64_bits_are_no_samples(tmp_path: Path, value: str) -> None:
    text = (
        json.dumps(DETAILED)
        .replace("0.004", value)
        .replace('"completed": 2', f'"completed": {value}')
    )

    (one,) = read(tmp_path, text)

    assert one.itl_ms is not None
    assert one.itl_ms.tolist() == [6.0]
    assert one.num_requests is None
    requests = f'[{{"timestamp": {value}, "response_timestamps": [{value}, 5]}}]'
    raw = f'{{"service_kind": "x", "experiments": [{{"requests": {requests}}}]}}'
    assert [one.num_failed for one in read(tmp_path, raw)] == [1]


def test_requests_that_all_failed_have_no_latency(tmp_path: Path) -> None:
    zeros = {f"{kind}_ttft_ms": 0.0 for kind in ("mean", "median", "p99")}
    document = {"completed": 0, "failed": 12, "output_throughput": 0.0, **zeros}

    (one,) = read(tmp_path, document)

    assert (one.reported, one.tokens_per_s) == ({}, None)
    assert (one.num_requests, one.num_failed) == (0, 12)


def test_tokens_a_second(tmp_path: Path) -> None:
    (bench,) = read(tmp_path, {"median_ttft_ms": 30.0, "completed": 9, "output_throughput": 250.5})
    unit = {"unit": "ms", "avg": 20.0}
    rate = {"unit": "tokens/sec", "avg": 75.0}
    (perf,) = read(tmp_path, {"time_to_first_token": unit, "output_token_throughput": rate})

    assert (bench.tokens_per_s, perf.tokens_per_s) == (250.5, 75.0)
