"""Damaged traces and merged files among the ranks of a job."""

from __future__ import annotations

import itertools
import pickle
import random
from collections.abc import Sequence
from pathlib import Path

import pytest
from factories import kernel, rank_trace
from found_files import put, trace_text
from msgspec.structs import replace

from ccltui.parsers.columns import RankTrace
from ccltui.parsers.job import Job, open_job, ordered_ranks, start_job, with_new_rank
from tests.merged_traces import (
    document,
    merged,
    rank_events,
    renamed,
    with_offset,
    write,
    write_ranks,
)


@pytest.mark.parametrize(
    ("name", "content"), [("rank1.json", b""), ("rank1.json.gz", b""), ("rank12.json", b"\0" * 9)]
)
def test_it_is_a_failure_of_the_job(tmp_path: Path, name: str, content: bytes) -> None:
    put(tmp_path, "rank0.json", trace_text(0, 1))
    (tmp_path / name).write_bytes(content)

    (failure,) = open_job(tmp_path, cache_dir=tmp_path / "cache").failures

    assert failure.path == name
    assert failure.error.startswith(f"{name}: ")


def test_in_folders_of_ranks_too(tmp_path: Path) -> None:
    put(tmp_path, "rank0/trace.json", trace_text(0, 1))
    (tmp_path / "rank1").mkdir()
    (tmp_path / "rank1" / "trace.json").write_bytes(b"")

    assert [one.path for one in start_job(tmp_path).failures] == ["rank1/trace.json"]


def test_that_of_another_iteration_is_no_failure_of_this_one(tmp_path: Path) -> None:
    for iteration in (5, 10):
        for rank in (0, 1):
            put(tmp_path, f"iteration_{iteration}/rank{rank}.json", trace_text(rank, iteration))
    for iteration in (5, 10, 15):
        (tmp_path / f"iteration_{iteration}").mkdir(exist_ok=True)
        (tmp_path / f"iteration_{iteration}" / "rank2.json").write_bytes(b"")

    found = {iteration: start_job(tmp_path, iteration=iteration).failures for iteration in (5, 10)}

    assert [one.path for one in found[5]] == ["iteration_5/rank2.json"]
    assert [one.path for one in found[10]] == ["iteration_10/rank2.json"]


def test_beside_one_trace_the_last_number_is_that_of_the_rank(tmp_path: Path) -> None:
    put(tmp_path, "iteration_5/rank0.json", trace_text(0, 1))
    for path in ("iteration_5/rank3.json", "iteration_6/rank0.json"):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_bytes(b"")

    assert [one.path for one in start_job(tmp_path).failures] == ["iteration_5/rank3.json"]


def test_what_is_named_otherwise_is_none(tmp_path: Path) -> None:
    put(tmp_path, "rank0.json", trace_text(0, 1))
    (tmp_path / "notes1.json").write_bytes(b"")
    (tmp_path / "rank1.txt").write_bytes(b"")
    (tmp_path / "rank2.json").symlink_to("rank0.json")

    assert start_job(tmp_path).failures == ()


def opened(folder: Path, tmp_path: Path) -> Job:
    return open_job(folder, cache_dir=tmp_path / "cache")


def places(job: Job) -> list[tuple[int | None, str, str]]:
    return [(trace.rank, trace.source.path, trace.rank_source) for trace in job.ranks]


def notes(job: Job) -> list[str]:
    return [note.message for note in job.notes]


@pytest.mark.parametrize("states_rank", [True, False])
def test_a_merge_beside_all_of_its_parts_is_left_out(states_rank: bool, tmp_path: Path) -> None:
    write_ranks(tmp_path / "job")
    write(tmp_path / "job/all.json", merged(with_offset, rank=0 if states_rank else None))

    job = opened(tmp_path / "job", tmp_path)

    assert [path for _, path, _ in places(job)] == [f"rank{r}_trace.json" for r in range(4)]
    assert notes(job) == [
        "all.json holds the same ranks as rank0_trace.json, rank1_trace.json, rank2_trace.json "
        "and rank3_trace.json: it is left out"
    ]
    assert job.merged.is_left_out("all.json")
    assert (job.ranks_in("all.json"), job.ranks_in("rank0_trace.json")) == ((), None)
    assert "all.json" in job.read_paths


@pytest.mark.parametrize("beside", [(0,), (3,), (0, 1), (1, 2, 3)])
def test_of_a_merge_beside_some_of_its_parts_the_other_ranks_count(
    beside: Sequence[int], tmp_path: Path
) -> None:
    write_ranks(tmp_path / "job", beside)
    write(tmp_path / "job/all.json", merged(with_offset))

    job = opened(tmp_path / "job", tmp_path)

    expected = [
        (r, f"rank{r}_trace.json", "distributedInfo")
        if r in beside
        else (r, "all.json", "order of devices")
        for r in range(4)
    ]
    assert places(job) == expected
    assert not job.conflicting_ranks
    assert len(notes(job)) == 1
    assert notes(job)[0].startswith("of all.json only")


def test_guessed_ranks_are_withdrawn_where_a_file_speaks_against_them(tmp_path: Path) -> None:
    write(tmp_path / "job/all.json", merged(with_offset))
    write(tmp_path / "job/other.json", document(rank_events(1), 2))

    job = opened(tmp_path / "job", tmp_path)

    assert places(job) == [(2, "other.json", "distributedInfo"), *[(None, "all.json", "none")] * 3]


def test_another_job_beside_a_merge_is_not_mixed_with_it(tmp_path: Path) -> None:
    write(tmp_path / "job/all.json", merged(with_offset))
    write(tmp_path / "job/other.json", document(rank_events(1, steps=2), 1))

    job = opened(tmp_path / "job", tmp_path)

    assert places(job)[0] == (1, "other.json", "distributedInfo")
    assert {rank for rank, path, _ in places(job) if path == "all.json"} == {None}
    assert len(job.ranks) == 5


def test_two_merges_of_the_same_ranks_count_once(tmp_path: Path) -> None:
    write(tmp_path / "job/all.json", merged(with_offset))
    labelled = renamed(lambda pid, rank: f"[TP0{rank}-PP00] {pid}")
    write(tmp_path / "job/merged-1.json", merged(labelled, rank=0))

    job = opened(tmp_path / "job", tmp_path)

    assert places(job) == [(r, "all.json", "order of devices") for r in range(4)]
    assert notes(job) == ["merged-1.json holds the same ranks as all.json: it is left out"]


def test_the_order_of_loading_does_not_matter(tmp_path: Path) -> None:
    write_ranks(tmp_path / "job", (0, 2))
    write(tmp_path / "job/all.json", merged(with_offset))
    job = opened(tmp_path / "job", tmp_path)
    traces = [*job.merged.traces, *(t for t in job.ranks if t.source.parts == 1)]
    empty = Job(job.path, job.discovery, job.capture)

    for order in itertools.islice(itertools.permutations(traces), 0, 720, 37):
        again = empty
        for trace in order:
            again = again.with_rank(trace)
        assert places(again) == places(job)
        assert notes(again) == notes(job)


def test_a_stored_merge_is_taken_from_the_store(tmp_path: Path) -> None:
    write(tmp_path / "job/all.json", merged(with_offset))

    first, second = (opened(tmp_path / "job", tmp_path) for _ in range(2))

    assert places(first) == places(second)
    assert [t.source.part_name for t in second.ranks] == [
        "process 4000",
        "process 104001",
        "process 204002",
        "process 304003",
    ]


def test_a_job_is_sent_without_the_columns_of_ranks_that_are_left_out(tmp_path: Path) -> None:
    write_ranks(tmp_path / "job")
    write(tmp_path / "job/all.json", merged(with_offset))
    job = opened(tmp_path / "job", tmp_path)

    sent = pickle.loads(pickle.dumps(job.without_ranks()))

    assert not sent.ranks
    assert not any(trace.events for trace in sent.merged.traces)
    assert notes(sent) == notes(job)
    assert sent.read_paths == {"all.json"}


def drawn(draw: random.Random) -> RankTrace:
    rank = draw.choice([None, *range(12)])
    trace = rank_trace(
        rank,
        gpu=[kernel("k", draw.uniform(0, 9), 1)],
        base_ns=draw.choice([0, 0, 5, 7]),
        truncated=draw.random() < 0.1,
        label=f"file{draw.randrange(99)}",
    )
    if rank is not None:
        return trace
    guessed = draw.random() < 0.5
    return replace(trace, rank_source="order of devices" if guessed else "none")


@pytest.mark.parametrize("seed", range(200))
def test_a_rank_that_changes_no_other_is_inserted_as_all_are_ordered(seed: int) -> None:
    draw = random.Random(seed)
    ranks: tuple[RankTrace, ...] = ()
    inserted = 0
    for _ in range(draw.randrange(2, 10)):
        new = drawn(draw)
        expected = ordered_ranks((*ranks, new))
        found = with_new_rank(ranks, new)
        if found is not None:
            inserted += 1
            assert [t.label for t in found] == [t.label for t in expected]
            assert [t.rank for t in found] == [t.rank for t in expected]
            assert [t.base_ns for t in found] == [t.base_ns for t in expected]
            assert [t.first_ns for t in found] == [t.first_ns for t in expected]
        ranks = expected
    assert inserted <= len(ranks)


def test_ranks_in_order_are_inserted() -> None:
    ranks = ordered_ranks((rank_trace(0, gpu=[kernel("k", 0, 1)]),))
    for number in (2, 1, 3):
        found = with_new_rank(ranks, rank_trace(number, gpu=[kernel("k", 0, 1)], label="x"))
        assert found is not None
        ranks = found
    assert [trace.label for trace in ranks] == ["0", "1", "2", "3"]
