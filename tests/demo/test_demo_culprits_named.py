"""Injected culprits and causes of a fixed set of random jobs: rates, no confident error."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.culprits import LARGE, Outcome, outcome, random_job
from ccltui.demo import Spec, write_job
from ccltui.metrics.registry import find
from ccltui.metrics.view.job_view import View
from ccltui.parsers.job import open_job


def outcomes(directory: Path, metadata: str, seeds: range) -> list[Outcome]:
    found = []
    for seed in seeds:
        late, spec = random_job(seed, metadata)
        found.append(outcome(directory / str(seed) / "job", late, spec))
    return found


@pytest.mark.parametrize(("metadata", "seeds"), [("full", range(8)), ("names_only", range(1, 6))])
def test_only_culprits_are_named(tmp_path: Path, metadata: str, seeds: range) -> None:
    found = outcomes(tmp_path, metadata, seeds)

    seen = [one for one in found if one.seen]
    assert len(seen) >= len(found) / 2
    assert sum(one.named for one in seen) >= 0.98 * len(seen)
    assert [one.wrong for one in found] == [()] * len(found)


def test_a_culprit_behind_many_stages_of_a_pipeline_is_followed_to_the_end(tmp_path: Path) -> None:
    late, spec = random_job(13, doublings=LARGE)
    assert (spec.pp, late.rank) == (32, 27)

    assert outcome(tmp_path / "job", late, spec) == Outcome(seen=True, named=True, wrong=())


@pytest.mark.parametrize("is_cut", [False, True])
def test_where_no_trace_of_the_culprit_is_read_that_rank_is_the_root(
    tmp_path: Path, *, is_cut: bool
) -> None:
    # what differs between the other ranks is jitter: a few per cent of the waiting
    late, spec = random_job(6)
    write_job(tmp_path, spec)
    trace = tmp_path / f"kineto_trace_{late.rank}.json.gz"
    if is_cut:
        trace.write_bytes(trace.read_bytes()[:300])
    else:
        trace.unlink()

    view = View(open_job(tmp_path, cache_dir=tmp_path / "cache"))
    found = find("blame_chain").run(view)

    details = found.details
    assert found.status == "partial"
    named = [details[f"root_{key}"] for key in ("rank", "cause")]
    assert named == [str(late.rank), "not_recorded"]
    assert details["root_confidence"] != "high"
    assert details["root_share"] > 0.9
    assert details["root_why"].startswith(
        f"no trace of rank {late.rank} was read; the others wait "
    )
    cause = find("straggler_cause").run(view).details
    assert [cause[f"main_{key}"] for key in ("rank", "cause", "why")] == [
        *named,
        details["root_why"],
    ]


def test_a_job_is_drawn_from_its_seed() -> None:
    assert random_job(3) == random_job(3)
    assert random_job(3) != random_job(4)


def test_the_straggler_of_the_demo_is_named_and_not_the_order_of_its_pipeline(
    tmp_path: Path,
) -> None:
    # Most lag of rank 1 is against the other stage, whose turn comes first in every step.
    write_job(tmp_path, Spec())
    view = View(open_job(tmp_path))

    cause = find("straggler_cause").run(view).details
    root = find("blame_chain").run(view).details

    assert cause["main_why"].startswith("rank 1: 2.3 ms more computation")
    # another rank is behind a sixth of it, in one step: some samples of the steps name that one
    named = ("1", "compute", "low")
    assert (cause["main_rank"], cause["main_cause"], cause["main_confidence"]) == named
    assert (root["root_rank"], root["root_cause"], root["root_confidence"]) == named
