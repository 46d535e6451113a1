"""throughput_tokens: what the card states over what the trace measures."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from factories import card, job, kernel, rank_trace, step

from ccltui.metrics.catalog.throughput.throughput_tokens import throughput_tokens
from ccltui.metrics.result import Result
from ccltui.metrics.view.job_view import View, ViewOptions
from ccltui.parsers.side.workload_card import Card

TITAN = {"batch_size": 2, "seq_len": 2048, "dp_replicate": 2, "dp_shard": 1, "tp": 2}


def run(
    stated: Card | None,
    *,
    world: int = 4,
    step_us: float = 500_000,
    problem: str | None = None,
    overrides: Mapping[str, object] | None = None,
) -> Result:
    ranks = [
        rank_trace(
            rank,
            annotations=[step(i, i * step_us, step_us - 10 * rank) for i in range(3)],
            world_size=world,
        )
        for rank in range(world)
    ]
    options = ViewOptions(overrides=overrides or {})
    return throughput_tokens.run(View(job(*ranks, card=stated, card_problem=problem), options))


def test_worked_example() -> None:
    # Local batch 2 on 2 data-parallel ranks of a world of 4; the card's 80 iterations are the
    # length of the job, not of the trace.
    result = run(card(**TITAN, batch_size_scope="local", iteration=80, framework="torchtitan"))

    details = result.details
    assert (result.status, result.unit) == ("ok", "tokens/s")
    assert details["throughput_tokens_per_s"] == result.value == 16384.0
    assert details["batch_size"] == 4
    assert details["seq_len"] == 2048
    assert details["tokens_per_step"] == 8192
    assert details["step_time_s"] == 0.5
    assert details["tokens_per_s_per_gpu"] == 4096.0
    assert details["tokens_per_s_per_dp_rank"] == 8192.0
    assert details["num_iterations"] == 3
    assert details["total_tokens"] == 24576
    assert details["measured_duration_s"] == 1.5
    assert details["batch_size_scope"] == "local"
    assert details["provenance"] == {
        "batch_size": "card",
        "batch_size_scope": "card",
        "seq_len": "card",
        "dp_replicate": "card",
        "dp_shard": "card",
        "step_time_s": "trace",
    }
    assert set(details) == set(throughput_tokens.keys)


def test_a_global_batch_is_used_as_it_stands() -> None:
    details = run(card(**TITAN, batch_size_scope="global")).details

    assert (details["batch_size"], details["tokens_per_step"]) == (2, 4096)


def test_tensor_pipeline_and_context_degrees_do_not_multiply() -> None:
    stated = card(batch_size=2, seq_len=100, dp_shard=2, tp=2, cp=2, pp=2, batch_size_scope="local")

    assert run(stated, world=16).details["batch_size"] == 4


def test_gradient_accumulation_multiplies_a_local_batch() -> None:
    stated = card(**TITAN, batch_size_scope="local")

    result = run(stated, overrides={"gradient_accumulation": "4"})

    assert result.details["batch_size"] == 16
    assert result.details["provenance"]["gradient_accumulation"] == "override"
    assert run(stated).basis["gradient_accumulation"] == "1, none is stated"


@pytest.mark.parametrize("name", ["gradient_accumulation", "batch_size", "seq_len"])
@pytest.mark.parametrize("value", ["0", "-2"])
def test_numbers_that_cannot_be_are_refused(name: str, value: str) -> None:
    result = run(card(**TITAN, batch_size_scope="local"), overrides={name: value})

    assert (result.status, result.reason) == ("unavailable", "card_invalid")
    assert f"{name} = {value} is not above 0" in result.reasons[0].message


def test_an_unknown_scope_is_refused_where_it_matters() -> None:
    refused = run(card(**TITAN))

    assert (refused.status, refused.reason) == ("unavailable", "ambiguous_batch_scope")


def test_torchtitan_cards_hold_the_local_batch() -> None:
    result = run(card(**TITAN, framework="torchtitan-0.1.0"))

    assert result.details["batch_size"] == 4
    assert any("TorchTitan" in warning for warning in result.warnings)


def test_an_unknown_scope_does_not_matter_without_data_parallelism() -> None:
    result = run(card(batch_size=2, seq_len=100, tp=4))

    assert (result.status, result.details["batch_size"]) == ("ok", 2)


def test_one_open_data_parallel_degree_follows_from_the_world() -> None:
    stated = card(
        batch_size=1, seq_len=10, dp_replicate=1, tp=2, pp=1, cp=1, batch_size_scope="local"
    )

    assert run(stated, world=8).details["batch_size"] == 4


@pytest.mark.parametrize(
    ("stated", "reason", "named"),
    [
        (None, "no_card", "batch_size and seq_len"),
        (card(seq_len=10), "card_incomplete", "batch_size"),
        (card(batch_size=(1, 2, 4), seq_len=10), "card_incomplete", "single number"),
        (card(batch_size=2), "card_incomplete", "seq_len"),
        (card(batch_size=2, seq_len="abc"), "card_invalid", "workload.data.seq_len of the card"),
        (card(batch_size=0.5, seq_len="2k"), "card_invalid", "batch_size and workload.data.seq"),
        (card(batch_size=2, seq_len=10, batch_size_scope="local"), "card_incomplete", "dp_shard"),
        (card(**TITAN, phase="inference"), "phase_mismatch", "inference"),
    ],
)
def test_refusals_name_what_is_missing(stated: Card | None, reason: str, named: str) -> None:
    result = run(stated)

    assert (result.status, result.reason, result.value) == ("unavailable", reason, None)
    assert named in result.reasons[0].message
    assert result.details["batch_size"] is None  # no default


def test_a_card_that_cannot_be_read_is_named() -> None:
    result = run(None, problem="workload_card.yaml:3:14: mapping values are not allowed here")

    assert result.reason == "card_invalid"
    assert "3:14" in result.reasons[0].message


def test_overrides_serve_without_a_card() -> None:
    result = run(None, overrides={"batch_size": 8, "batch_size_scope": "global", "seq_len": "1024"})

    assert result.value == 16384.0
    assert result.details["provenance"]["seq_len"] == "override"
    assert result.details["tokens_per_s_per_dp_rank"] is None
    assert result.inputs["overrides"] == {
        "batch_size": "8",
        "batch_size_scope": "global",
        "seq_len": "1024",
    }
    assert run(None, overrides={"batch_size": "eight", "seq_len": 1}).reason == "card_invalid"


def test_steps_are_needed() -> None:
    view = View(
        job(
            rank_trace(0, gpu=[kernel("gemm", 0, 1)]), card=card(**TITAN, batch_size_scope="global")
        )
    )

    assert throughput_tokens.run(view).reason == "no_step_markers"


def test_the_median_over_steps_of_the_slowest_rank_divides() -> None:
    ranks = [
        rank_trace(
            rank,
            annotations=[
                step(1, 0, 100_000),
                step(2, 200_000, 300_000 if rank else 100_000),
                step(3, 600_000, 200_000),
            ],
            world_size=2,
        )
        for rank in (0, 1)
    ]
    view = View(job(*ranks, card=card(batch_size=1, seq_len=100, batch_size_scope="global")))

    details = throughput_tokens.run(view).details

    assert details["step_time_s"] == 0.2  # of 0.1, 0.3, 0.2
    assert details["throughput_tokens_per_s"] == 500.0
    assert details["measured_duration_s"] == 0.6


def test_a_card_that_contradicts_the_trace_is_warned_of() -> None:
    result = run(card(**TITAN, batch_size_scope="global", total_count=16))

    assert any("16" in warning and "4" in warning for warning in result.warnings)
