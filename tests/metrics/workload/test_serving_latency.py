"""Latencies of serving, from results and from traces."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from factories import Event, card, job, rank_trace, step
from runs_by_hand import view_of
from worked import measure, worked_example

from ccltui.metrics.catalog.time.findings import answer_of
from ccltui.metrics.registry import find
from ccltui.metrics.result import Result
from ccltui.metrics.view.job_view import View, ViewOptions
from ccltui.metrics.workload.token_rate import TracedTokens, traced_tokens
from ccltui.parsers.columns import ProcessGroup, RankTrace
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


VOCABULARY = (32000, 64)


def look_up(start_us: float, *indices: int, table: Sequence[int] = VOCABULARY) -> Event:
    shapes = json.dumps([list(table), list(indices), [], [], []])
    return Event("aten::embedding", start_us, 2, 1, shapes=shapes)


def rank(number: int, *ops: Event, size: int = 4, groups: Sequence[ProcessGroup] = ()) -> RankTrace:
    """Two steps of 100 us, with the same operators in both."""
    return rank_trace(
        number,
        annotations=[step(3, 0, 100), step(4, 100, 100)],
        cpu_ops=[*ops, *(shifted(op) for op in ops)] or [Event("aten::relu", 1, 1, 1)],
        groups=groups,
        world_size=size,
    )


def shifted(op: Event) -> Event:
    return Event(op.name, op.start_us + 100, op.dur_us, op.track, shapes=op.shapes)


def view(*ranks: RankTrace, overrides: Mapping[str, object] | None = None, **fields: Any) -> View:
    stated = {
        "batch_size": 2,
        "batch_size_scope": "local",
        "seq_len": 2048,
        "dp_replicate": 1,
        "dp_shard": 4,
        "tp": 1,
        "pp": 1,
        "cp": 1,
    }
    options = ViewOptions(overrides=overrides or {})
    return View(job(*ranks, card=card(**{**stated, **fields})), options)


def throughput(made: View) -> Result:
    return find("throughput_tokens").run(made)


def four(*ops: Event) -> list[RankTrace]:
    return [rank(number, *ops) for number in range(4)]


def test_traces_that_agree_change_nothing() -> None:
    result = throughput(view(*four(look_up(5, 2, 2048))))

    assert (result.status, result.details["tokens_per_step"]) == ("ok", 2 * 2048 * 4)
    assert result.details["provenance"]["seq_len"] == "card"


def test_another_length_that_ran_is_taken_and_named() -> None:
    result = throughput(view(*four(look_up(5, 2, 64))))

    assert (result.status, result.reason) == ("partial", "card_conflict")
    assert result.details["tokens_per_step"] == 2 * 64 * 4
    assert (result.details["batch_size"], result.details["seq_len"]) == (8, 64)
    assert result.value == pytest.approx(2 * 64 * 4 / 100e-6)
    assert result.details["provenance"]["seq_len"] == "trace"
    assert result.reasons[0].message == (
        "8 sequences of 2,048 are stated, the traces look up 128 tokens a step on a "
        "data-parallel rank (1 of 2 x 64), 512 on all 4: these are taken"
    )


def test_micro_batches_add_up() -> None:
    split = throughput(view(*four(look_up(5, 1, 2048), look_up(50, 1, 2048))))
    more = throughput(view(*four(*(look_up(5 + 10 * n, 2, 2048) for n in range(4)))))

    assert (split.status, split.details["tokens_per_step"]) == ("ok", 2 * 2048 * 4)
    assert (more.status, more.details["batch_size"]) == ("partial", 4 * 2 * 4)


@pytest.mark.parametrize("length", [1024, 2048])
def test_context_parallel_ranks_share_a_sequence(length: int) -> None:
    """A framework may divide sequences before or after they are looked up."""
    found = throughput(view(*four(look_up(5, 2, length)), dp_shard=2, cp=2))

    assert (found.status, found.details["tokens_per_step"]) == ("ok", 2 * 2048 * 2)


def test_tensor_parallel_ranks_repeat_and_later_stages_look_nothing_up() -> None:
    ranks = [rank(n, look_up(5, 2, 64)) for n in range(2)] + [rank(n) for n in (2, 3)]

    found = throughput(view(*ranks, dp_shard=1, tp=2, pp=2))

    assert (found.status, found.details["tokens_per_step"]) == ("partial", 2 * 64)


def test_what_the_user_states_is_kept() -> None:
    found = throughput(view(*four(look_up(5, 2, 64)), overrides={"seq_len": "2048"}))

    assert (found.status, found.details["seq_len"]) == ("ok", 2048)


def test_positions_and_token_types_are_no_further_tokens() -> None:
    of_positions = look_up(10, 2048, table=(100_000, 64))
    of_types = look_up(20, 2, 2048, table=(2, 64))

    found = traced_tokens(view(*four(look_up(5, 2, 2048), of_positions, of_types)))

    assert found == TracedTokens(4096, (2, 2048), 1, ("0", "1", "2", "3"))


@pytest.mark.parametrize(
    "ops",
    [
        (),
        (look_up(5, 2, 64), look_up(10, 2, 32)),  # sequences of several lengths
        (look_up(5, 2, 3, 4),),
        (Event("aten::embedding", 5, 1, 1, shapes='[[3, "x"], [2, 2]]'),),
        (Event("aten::embedding", 5, 1, 1, shapes="[[3, 4], [2, "),),
        (Event("aten::embedding", 5, 1, 1, shapes="7"),),
        (Event("aten::embedding", 5, 1, 1),),
        (look_up(5, 0, 64),),
    ],
)
def test_what_is_absent_or_ambiguous_tells_nothing(ops: tuple[Event, ...]) -> None:
    made = view(*four(*ops))

    assert traced_tokens(made) is None
    assert throughput(made).status == "ok"


def test_ranks_or_steps_that_differ_tell_nothing() -> None:
    ranks = [rank(0, look_up(5, 2, 64)), *(rank(n, look_up(5, 2, 32)) for n in (1, 2, 3))]
    one_step = rank_trace(
        0,
        annotations=[step(3, 0, 100), step(4, 100, 100)],
        cpu_ops=[look_up(5, 2, 64), look_up(105, 2, 32)],
        world_size=1,
    )

    assert traced_tokens(view(*ranks)) is None
    assert traced_tokens(view(one_step, dp_shard=1)) is None


def test_groups_of_a_tensor_parallel_run_correct_the_data_parallel_ranks() -> None:
    """The card is that of four data-parallel ranks, the traces have one group of tp of four."""
    group = ProcessGroup("5", "mesh_tp", (0, 1, 2, 3), 4, "cuda:nccl")
    ranks = [rank(n, look_up(5, 2, 2048), groups=[group]) for n in range(4)]

    found = throughput(view(*ranks))

    assert (found.status, found.details["tokens_per_step"]) == ("partial", 2 * 2048)
    assert {reason.code for reason in found.reasons} == {"card_conflict"}
    assert "the traces (groups of tp) state tp 4" in found.reasons[0].message


def test_both_throughputs_are_of_the_same_tokens_and_times() -> None:
    """Steps of 100, 100 and 400 us: the median is not disturbed by the slow one, the total is."""
    ranks = [
        rank_trace(
            0,
            annotations=[step(1, 0, 100), step(2, 100, 100), step(3, 200, 400)],
            cpu_ops=[Event("aten::relu", 1, 1, 1)],
            world_size=1,
        )
    ]

    found = throughput(view(*ranks, dp_shard=1)).details

    assert found["throughput_tokens_per_s"] == pytest.approx(4096 / 100e-6)
    assert found["throughput_tokens_per_s_by_total_time"] == pytest.approx(3 * 4096 / 600e-6)
    assert (
        found["throughput_tokens_per_s_by_total_time"]
        == found["total_tokens"] / found["measured_duration_s"]
    )
    assert found["throughput_tokens_per_s"] == found["tokens_per_step"] / found["step_time_s"]
    assert found["tokens_per_step"] == found["batch_size"] * found["seq_len"]


def sentences(directory: Path) -> list[str]:
    """First and second sentence of each finding on a directory."""
    return [f"{one.text} {one.more}".strip() for one in answer_of(view_of(directory)).findings]


def test_what_is_said_of_a_benchmark(tmp_path: Path) -> None:
    whole = {"median_ttft_ms": 250.0, "median_tpot_ms": 12.5, "completed": 40, "failed": 2,
             "output_throughput": 640.0}  # fmt: skip
    slower = {"median_ttft_ms": 1500.0, "completed": 40}

    assert sentences(write(tmp_path, rate_1=whole, rate_9=slower)) == [
        "The first token of a request takes a median of 250 ms, the others every 12.5 ms "
        "(rate_1.json). 40 requests, 2 more failed; 640 tokens of output a second; 2 experiments: "
        "between 250 ms (rate_1.json) and 1.5 s (rate_9.json)."
    ]


def test_an_average_is_not_called_a_median(tmp_path: Path) -> None:
    (text,) = sentences(write(tmp_path, a={"mean_ttft_ms": 30.0}))

    assert text == "The first token of a request takes an average of 30 ms (a.json)."


def test_a_benchmark_whose_requests_failed(tmp_path: Path) -> None:
    directory = write(tmp_path, a={"median_ttft_ms": 0.0, "completed": 0, "failed": 7})

    assert sentences(directory) == [
        "All 7 requests of the serving benchmark failed (a.json): it measured nothing."
    ]
    result = run(directory, "ttft")
    assert (result.value, result.reasons[0].message) == (None, "a.json: all 7 requests failed")
