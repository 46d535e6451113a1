"""token_to_expert_assignment: from side files by expert, from all-to-alls by rank."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from factories import Coll, Event, card, job, kernel, rank_trace, world
from worked import measure, worked_example

from ccltui.metrics.registry import find
from ccltui.metrics.result import Result
from ccltui.metrics.view.job_view import View, ViewOptions
from ccltui.parsers.columns import ProcessGroup, RankTrace
from ccltui.parsers.job import start_job

NAME = "token_to_expert_assignment"
SENDRECV = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"


def run(directory: Path, **options: Any) -> Result:
    return find(NAME).run(View(start_job(directory), ViewOptions(**options)))


def write(directory: Path, **documents: Any) -> Path:
    for name, document in documents.items():
        (directory / f"{name}.json").write_text(json.dumps(document))
    return directory


def test_a_gate_log(tmp_path: Path) -> None:
    result = run(write(tmp_path, gate_logs_0={"expert_loads": [[1, 1, 1, 1], [15, 0, 0, 1]]}))

    details = result.details
    assert (result.status, result.value, details["granularity"]) == ("ok", 3.2, "expert")
    assert details["per_expert"] == [16, 1, 1, 2]
    assert (details["total_tokens"], details["num_experts"], details["zero_experts"]) == (20, 4, 0)
    assert [row["load_factor"] for row in details["per_step"]] == [1.0, 3.75]
    assert details["per_step"][1]["zero_experts"] == 2
    assert (details["per_layer"], details["per_device"]) == (None, None)
    assert (result.source, result.inputs["side_files"]) == ("side_file", ["gate_logs_0.json"])


def test_statistics_of_ranks_that_see_different_tokens_add_up(tmp_path: Path) -> None:
    for rank, counts in ((0, [4, 0]), (1, [2, 2])):
        document = {f"model.layers.{i}.mlp": {"expert_counts": counts} for i in (0, 1)}
        write(tmp_path, **{f"moe_stats_rank{rank}": document})

    details = run(tmp_path).details

    assert details["per_expert"] == [12, 4]
    assert details["per_device"] == {"0": 8, "1": 8}
    assert details["per_layer"]["model.layers.1.mlp"]["load_factor"] == 1.5


def test_statistics_of_ranks_that_see_the_same_tokens_count_once(tmp_path: Path) -> None:
    document = {"model.layers.0.mlp": {"expert_counts": [6, 2]}}
    result = run(write(tmp_path, moe_stats_rank0=document, moe_stats_rank1=document))

    assert result.details["total_tokens"] == 8
    assert result.details["per_layer"]["model.layers.0.mlp"]["load_factor"] == 1.5
    assert "counted once" in result.warnings[0]


def test_assignments_of_own_experts_stand_one_after_the_other(tmp_path: Path) -> None:
    for rank, counts in ((1, [3, 4]), (0, [1, 2])):
        write(tmp_path, **{f"moe_assignments_{rank}": {"rank": rank, "token_counts": counts}})

    own = run(tmp_path, overrides={"num_experts": "4"}).details
    every = run(tmp_path, overrides={"num_experts": "2"}).details

    assert own["per_expert"] == [1, 2, 3, 4]
    assert every["per_expert"] == [4, 6]
    assert own["per_device"] == every["per_device"] == {"0": 3, "1": 7}


def test_the_shape_that_tells_most_is_taken(tmp_path: Path) -> None:
    write(
        tmp_path,
        gate_logs_0={"expert_loads": [[9, 1]]},
        moe_stats_rank0={"model.layers.0.mlp": {"expert_counts": [1, 1]}},
    )

    result = run(tmp_path)

    assert (result.value, result.basis["shape"]) == (1.0, "statistics")


def test_shares_are_loads_without_tokens(tmp_path: Path) -> None:
    details = run(write(tmp_path, g={"expert_loads": [[0.75, 0.25]]})).details

    assert (details["load_factor"], details["total_tokens"]) == (1.5, None)
    assert details["per_expert"] == [0.75, 0.25]


def test_a_broken_file_beside_others(tmp_path: Path) -> None:
    result = run(write(tmp_path, a={"expert_loads": [[1, 3]]}, b={"expert_loads": [[1, "x"]]}))

    assert (result.status, result.reasons[0].file, result.value) == ("partial", "b.json", 1.5)


GROUPS = [world(2), ProcessGroup("1", "mesh_ep", (0, 1), 2)]
HIDDEN = 8


def exchange(rank: int, sent: list[tuple[int, int]], got: list[tuple[int, int]]) -> RankTrace:
    """Each dispatch is followed by the return of what it brought, in bf16 rows of HIDDEN."""
    events: list[Event] = []
    for i, (out, back) in enumerate(zip(sent, got, strict=True)):
        for j, (a, b) in enumerate(((out, back), (back, out))):
            coll = Coll(
                "all_to_allv",
                HIDDEN * sum(a),
                HIDDEN * sum(b),
                "BFloat16",
                group=1,
                in_split=str(list(a)),
                out_split=str(list(b)),
            )
            events.append(kernel(SENDRECV, 100 * i + 50 * j, 10, 20, coll))
    counts = Coll("all_to_all", 2, 2, "Long", group=1, in_split="[1, 1]", out_split="[1, 1]")
    events.append(kernel(SENDRECV, 990, 5, 20, counts))
    return rank_trace(rank, gpu=events, groups=GROUPS, world_size=2)


def both() -> tuple[RankTrace, RankTrace]:
    """Rank 0 sends 1 and 3, 2 and 6 tokens; rank 1 sends 0 and 4, twice."""
    return (
        exchange(0, [(1, 3), (2, 6)], [(1, 0), (2, 0)]),
        exchange(1, [(0, 4), (0, 4)], [(3, 4), (6, 4)]),
    )


def test_splits_of_dispatches_tell_the_load_of_ranks() -> None:
    result = measure(NAME, *both())

    details = result.details
    assert details["per_device"] == {"0": 3, "1": 17}
    assert (details["total_tokens"], details["granularity"]) == (20, "ep_rank")
    assert result.value == pytest.approx(1.7)
    assert details["matrix"] == {"0": {"0": 3.0, "1": 9.0}, "1": {"0": 0.0, "1": 8.0}}
    assert result.basis["unit"] == "tokens"
    assert result.basis["calls"].startswith("every second one")
    assert details["per_expert"] is None


def test_one_rank_alone_knows_what_it_sent() -> None:
    result = measure(NAME, both()[0])

    assert (result.status, result.details["per_device"]) == ("partial", {"0": 3, "1": 9})


def flat(rank: int) -> RankTrace:
    """Splits that count elements, not rows."""
    coll = Coll("all_to_allv", 32, 32, "BFloat16", group=1, in_split="[8, 24]", out_split="[8, 24]")
    return rank_trace(rank, gpu=[kernel(SENDRECV, 0, 10, 20, coll)], groups=GROUPS, world_size=2)


def test_splits_in_elements_need_the_width_of_a_token() -> None:
    unknown = measure(NAME, flat(0), flat(1))
    known = measure(NAME, flat(0), flat(1), card=card(moe=True, num_heads=2, head_dim=4))

    assert (unknown.basis["unit"], unknown.details["total_tokens"]) == ("elements", None)
    assert unknown.details["per_device"] == {"0": 16, "1": 48}
    assert (known.basis["unit"], known.details["total_tokens"]) == ("tokens", 8)
    assert known.value == unknown.value == 1.5


def test_what_it_needs() -> None:
    dense = measure(NAME, *both(), card=card(moe=False))
    assert dense.reason == "not_applicable"
    assert measure(NAME, worked_example()).reason == "no_side_file"
    assert find(NAME).run(View(job(kinds=()))).reason == "no_trace"
    equal = Coll("all_to_all", 64, 64, "BFloat16", group=1)
    cut = Coll("all_to_allv", 64, 64, "BFloat16", group=1, in_split="[1, 2, ...]")
    trace = rank_trace(
        0, gpu=[kernel(SENDRECV, 0, 5, 20, equal), kernel(SENDRECV, 9, 5, 20, cut)], groups=GROUPS
    )
    refused = measure(NAME, trace)
    assert refused.reason == "no_side_file"
    assert "2 all-to-alls" in refused.reasons[0].message


def test_no_token_at_all(tmp_path: Path) -> None:
    assert run(write(tmp_path, g={"expert_loads": [[0, 0]]})).reason == "not_applicable"
