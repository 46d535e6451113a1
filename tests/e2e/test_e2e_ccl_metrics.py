"""``ccl-metrics``: exactly the interface of the tool that it replaces."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from shell import CCL_METRICS
from warm_shell import run

from ccltui.demo import Spec, write_job

AVAILABLE = """\
Available metrics:
  - coll_call_num
  - throughput_tokens
  - iter_time
  - comm_comp_overlap
  - pipeline_bubble
  - traffic_distribution
  - straggler_lag
"""


def test_the_list_has_names_and_no_aliases() -> None:
    done = run(CCL_METRICS, "--list-metrics")

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(AVAILABLE)
    assert "_16" not in done.stdout


@pytest.mark.parametrize("extra", [(), ("--output-json",), ("--profile-mode", "torch")])
def test_one_metric_is_its_dictionary_with_indent_2(job: Path, extra: tuple[str, ...]) -> None:
    done = run(CCL_METRICS, "--trace", job, "--metric", "coll_call_num_16", *extra)

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith('{\n  "metric": "coll_call_num",\n  "schema": 1,\n')
    document = json.loads(done.stdout)
    assert document["status"] == "ok"
    assert document["reason"] is None
    assert document["total_calls"] == sum(document["calls_per_rank"].values()) > 0


def test_several_metrics_are_keyed_by_name(job: Path) -> None:
    done = run(CCL_METRICS, "--trace", job, "--metric", "iter_time", "--metric=straggler_lag")

    document = json.loads(done.stdout)
    assert list(document) == ["iter_time", "straggler_lag"]
    assert document["iter_time"]["metric"] == "iter_time"


def test_a_refusal_is_3_with_reasons_and_null_keys(one_rank: Path) -> None:
    done = run(CCL_METRICS, "--trace", one_rank, "--metric", "straggler_lag")

    document = json.loads(done.stdout)
    assert done.returncode == 3
    assert (document["status"], document["reason"]) == ("unavailable", "single_rank")
    assert document["mean_lag_us"] is None
    assert document["reasons"][0]["code"] == "single_rank"


@pytest.mark.parametrize("kind", ["absent", "empty", "foreign", "broken"])
def test_nothing_to_read_is_1_with_a_document(tmp_path: Path, kind: str) -> None:
    directory = tmp_path / "run"
    if kind != "absent":
        directory.mkdir()
    if kind == "foreign":
        (directory / "notes.txt").write_text("nothing here")
    if kind == "broken":
        (directory / "kineto_trace_0.json").write_bytes(b"\x00\x01\x02")

    done = run(CCL_METRICS, "--trace", directory, "--metric", "iter_time")

    document = json.loads(done.stdout)
    assert done.returncode == 1, done.stdout
    assert document["status"] == "unavailable"
    assert document["avg_iter_time_ms"] is None
    assert done.stderr != ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--metric", "iter_time"], "--trace DIR is missing"),
        (["--trace", "x"], "--metric NAME is missing"),
        (["--trace", "x", "--metric", "iter_tme"], "did you mean iter_time"),
        (["--trace", "x", "--metric", "a", "--profile-mode", "tpu"], "invalid choice: 'tpu'"),
    ],
)
def test_a_wrong_command_line_is_2(arguments: list[str], message: str) -> None:
    plain = run(CCL_METRICS, *arguments)
    as_json = run(CCL_METRICS, *arguments, "--output-json")

    assert (plain.returncode, plain.stdout) == (2, "")
    assert message in plain.stderr
    assert as_json.returncode == 2
    document = json.loads(as_json.stdout)
    assert document["status"] == "unavailable"
    assert message in document["reasons"][0]["message"]


def test_an_unknown_name_is_answered_with_the_option_that_lists_all() -> None:
    done = run(CCL_METRICS, "--trace", "x", "--metric", "nope")
    assert "unknown metric 'nope' (--list-metrics lists all)" in done.stderr


def test_execution_traces_alone_give_a_throughput_with_status_0(tmp_path: Path) -> None:
    """Two steps of 4 sequences of 8 tokens within 2 s; other metrics have no value."""
    steps = [
        {"id": 2 + at, "name": f"ProfilerStep#{at}", "ctrl_deps": 1, "attrs": []} for at in (3, 4)
    ]
    head = {"schema": "1.1.1-chakra.0.0.4", "start_ts": 1000, "finish_ts": 3000}
    (tmp_path / "torch_et_0.json").write_text(json.dumps({**head, "nodes": steps}))
    (tmp_path / "workload_card.yaml").write_text(
        "workload:\n  data: {batch_size: 4, batch_size_scope: global, seq_len: 8}\n"
    )

    done = run(CCL_METRICS, "--trace", tmp_path, "--metric", "throughput_tokens")

    assert json.loads(done.stdout)["throughput_tokens_per_s"] == 32
    assert (done.returncode, done.stderr) == (
        0,
        "ccltui: throughput_tokens is partial: no Kineto trace: steps and times are those of "
        "execution traces\n",
    )
    assert run(CCL_METRICS, "--trace", tmp_path, "--metric", "iter_time").returncode == 1


def test_shares_without_a_total_are_a_number(tmp_path: Path) -> None:
    """Names of kernels alone: no sizes, so no bytes, but shares of time with status 0."""
    write_job(tmp_path, Spec(steps=2, metadata="names_only", stragglers=()))

    done = run(CCL_METRICS, "--trace", tmp_path, "--metric", "traffic_distribution")

    document = json.loads(done.stdout)
    assert (done.returncode, document["status"]) == (0, "partial")
    assert (document["total_bytes"], document["fractions_of"]) == (None, "time")
    assert sum(document["fractions"].values()) == pytest.approx(1)
    assert "dp and tp may be exchanged" in document["basis"]["heuristic"]
