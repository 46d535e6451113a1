"""Traces in one folder that are not ranks of one recording."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from found_files import put, trace_text

from ccltui.parsers.discovery.captures import recordings
from ccltui.parsers.discovery.discover import discover
from ccltui.parsers.found_files import FoundFile

SECOND = 1_000_000_000
DAY = 86_400 * SECOND
BASE = 1_700_000_000 * SECOND


def trace(
    name: str,
    start: float | None = 0.0,
    *,
    rank: int | None = None,
    world: int | None = None,
    length: float | None = None,
) -> FoundFile:
    """A trace that starts ``start`` seconds after a moment and lasts ``length`` seconds."""
    begin = None if start is None else BASE + round(start * SECOND)
    end = None if length is None or begin is None else begin + round(length * SECOND)
    return FoundFile(
        name, f"/{name}", "kineto", 1, rank=rank, world_size=world, start_ns=begin, end_ns=end
    )


def names(files: list[FoundFile]) -> list[list[str]]:
    shuffled = random.Random(7).sample(files, len(files))
    return sorted(sorted(file.path for file in part) for part in recordings(shuffled))


def test_ranks_that_begin_within_an_hour_are_one_recording() -> None:
    files = [trace(f"r{k}", 3_000.0 * (k % 2), rank=k, world=4) for k in range(4)]
    assert len(recordings(files)) == 1


def test_distinct_ranks_of_one_world_are_together_whatever_their_clocks_say() -> None:
    files = [trace(f"r{k}", 1e7 * k, rank=k, world=4) for k in range(3)]
    assert len(recordings(files)) == 1
    unnumbered = [trace(f"r{k}", 1e7 * k, world=4) for k in range(3)]
    assert len(recordings(unnumbered)) == 3


def test_models_profiled_months_apart_are_recordings_of_their_own() -> None:
    files = [trace("a", 0), trace("b", 90 * 86_400), trace("c", 91 * 86_400)]
    assert names(files) == [["a"], ["b"], ["c"]]


def test_files_without_rank_and_without_common_time_are_apart() -> None:
    apart = [trace("a", 0, length=5), trace("b", 100, length=5)]
    assert names(apart) == [["a"], ["b"]]
    near = [trace("a", 0, length=5), trace("b", 30, length=5)]
    assert names(near) == [["a", "b"]]
    unknown_end = [trace("a", 0), trace("b", 100)]
    assert names(unknown_end) == [["a", "b"]]


def test_ranks_with_late_windows_stay_together() -> None:
    files = [trace(f"r{k}", 200.0 * k, rank=k, length=5) for k in range(4)]
    assert len(recordings(files)) == 1


def test_before_and_after_are_apart_where_they_repeat_ranks() -> None:
    before = [trace(f"old{k}", 0.1 * k, rank=k, world=2) for k in range(2)]
    after = [trace(f"new{k}", 300 + 0.1 * k, rank=k, world=2) for k in range(2)]
    assert names(before + after) == [["new0", "new1"], ["old0", "old1"]]


def test_two_files_of_one_rank_at_one_time_stay_a_contradiction() -> None:
    files = [trace(f"r{k}", 0.3 * k, rank=k % 3, world=3) for k in range(4)]
    assert len(recordings(files)) == 1


def test_whole_jobs_of_two_sizes_are_apart() -> None:
    small = [trace(f"s{k}", None, rank=k, world=2) for k in range(2)]
    large = [trace(f"l{k}", None, rank=k, world=4) for k in range(4)]
    assert names(small + large) == [["l0", "l1", "l2", "l3"], ["s0", "s1"]]


def test_one_rank_with_another_size_stays_a_contradiction() -> None:
    files = [trace(f"r{k}", None, rank=k, world=8 if k == 3 else 4) for k in range(4)]
    assert len(recordings(files)) == 1


def test_files_without_times_are_not_separated_by_time() -> None:
    assert len(recordings([trace("a", None), trace("b", None)])) == 1
    dated = [trace("a", 0), trace("b", 10 * 86_400), trace("c", None)]
    assert names(dated) == [["a"], ["b"], ["c"]]


@pytest.mark.parametrize("seed", range(20))
def test_every_file_is_in_exactly_one_recording(seed: int) -> None:
    draw = random.Random(seed)
    files = [
        trace(
            f"f{k}",
            draw.choice([None, draw.uniform(0, 20_000)]),
            rank=draw.choice([None, draw.randrange(6)]),
            world=draw.choice([None, 4, 6]),
            length=draw.choice([None, 5.0]),
        )
        for k in range(draw.randrange(12))
    ]
    found = [file.path for part in recordings(files) for file in part]
    assert sorted(found) == sorted(file.path for file in files)


def test_captures_of_strangers_have_names_and_are_marked(tmp_path: Path) -> None:
    for number, day in enumerate((0, 40)):
        ts = BASE // 1000 + day * DAY // 1000
        put(tmp_path, f"model{number}.json", trace_text(None, None, ts=ts))

    captures = discover(tmp_path).captures

    assert [capture.name for capture in captures] == ["model0.json", "model1.json"]
    assert all(capture.is_unrelated for capture in captures)


def test_recordings_of_several_ranks_are_named_by_their_start(tmp_path: Path) -> None:
    for number, day in enumerate((0, 40)):
        for rank in range(2):
            ts = BASE // 1000 + day * DAY // 1000
            put(tmp_path, f"run{number}_rank{rank}.json", trace_text(rank, 2, ts=ts + rank))

    captures = discover(tmp_path).captures

    assert [capture.name for capture in captures] == [
        "2023-11-14T22:13:20Z",
        "2023-12-24T22:13:20Z",
    ]
    assert [capture.complete for capture in captures] == [True, True]
