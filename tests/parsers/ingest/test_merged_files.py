"""A merged file beside the files of its ranks counts once, and the job says so."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Sequence
from pathlib import Path

import pytest

from ccltui.parsers.job import Job, open_job
from tests.merged_traces import (
    document,
    merged,
    rank_events,
    renamed,
    with_offset,
    write,
    write_ranks,
)


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
