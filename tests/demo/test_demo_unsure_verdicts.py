"""Verdicts whose class or cause the files cannot tell are stated with medium confidence at most."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from ccltui.demo.planted import random_spec
from ccltui.demo.planted.job_spec import Damage, Fault, JobSpec
from ccltui.demo.planted.planted_job import write_planted
from ccltui.metrics.registry import find
from ccltui.metrics.view.job_view import View
from ccltui.parsers.job import open_job

EXPERTS = JobSpec(family="moe", dp=8, steps=5, jitter=0.01)


def verdict(folder: Path, spec: JobSpec) -> dict[str, Any]:
    write_planted(folder / "job", spec)
    job = open_job(folder / "job", cache_dir=folder / "store", jobs=1)
    return dict(find("verdict").run(View(job)).details)


def test_a_rank_without_sizes_may_have_more_tokens(tmp_path: Path) -> None:
    uneven = replace(EXPERTS, faults=(Fault("uneven_experts", (5,), 1.8),))
    known = verdict(tmp_path / "known", uneven)
    bare = replace(uneven, damage=(Damage("names_only", 5),))
    found = verdict(tmp_path / "bare", bare)

    assert known["verdict"] == "uneven_experts"
    assert (found["verdict"], found["culprit"]["ranks"]) == ("slow_worker", ["5"])
    assert found["confidence"] == "low"
    assert "more tokens would look the same" in found["why"]


def test_a_slow_rank_whose_sizes_are_known_is_sure(tmp_path: Path) -> None:
    slow = replace(EXPERTS, faults=(Fault("slow_worker", (5,), 1.4),))
    found = verdict(tmp_path, slow)

    assert (found["verdict"], found["culprit"]["ranks"]) == ("slow_worker", ["5"])
    assert found["confidence"] == "high"
    assert "tokens" not in found["why"]


def test_delays_of_two_hosts_have_no_sure_cause(tmp_path: Path) -> None:
    spec = JobSpec(
        family="dp",
        dp=8,
        steps=8,
        faults=(
            Fault("data_loading", (3,), 1.0, 4_000_000),
            Fault("checkpoint", (0,), 1.0, 20_000_000, steps=(6,)),
        ),
    )
    found = verdict(tmp_path, spec)

    assert (found["verdict"], found["culprit"]) == ("host", None)
    assert found["confidence"] != "high"


def test_slow_ranks_of_a_host_with_no_more_tokens_are_not_named_for_those_of_one(
    tmp_path: Path,
) -> None:
    # Rank 5 has most tokens and is on a slow host: its peers there compute as many as all others.
    faults = (Fault("uneven_experts", (5,), 2.7), Fault("slow_node", (4, 5, 6, 7), 1.37))
    found = verdict(tmp_path, replace(EXPERTS, layers=1, faults=faults))

    assert (found["verdict"], found["culprit"]["ranks"]) == ("uneven_experts", ["5"])
    assert found["confidence"] == "medium"


def test_experts_with_most_tokens_are_all_named(tmp_path: Path) -> None:
    found = verdict(tmp_path, replace(EXPERTS, faults=(Fault("uneven_experts", (2, 5), 1.8),)))

    assert (found["verdict"], found["culprit"]["ranks"]) == ("uneven_experts", ["2", "5"])
    assert found["confidence"] == "high"


@pytest.mark.parametrize("seed", [990282, 990309])
def test_nobody_is_named_where_the_ranks_wait_for_each_other_by_chance(
    tmp_path: Path, seed: int
) -> None:
    # No fault: 2.4 % of the time is for one rank, 2.3 % for another; 3.0 and 1.7 %.
    write_planted(tmp_path / "job", random_spec(seed, varied=True))
    view = View(open_job(tmp_path / "job", cache_dir=tmp_path / "store", jobs=1))
    found = find("findings").run(view).details["findings"]

    waits = [one for one in found if one["class"] == "waiting_for_rank"]
    assert [one["where"]["ranks"] for one in waits] == [[]]
    assert waits[0]["text"].startswith("Ranks wait for each other")
