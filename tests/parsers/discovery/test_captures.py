"""Which traces belong on one timeline."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from found_files import codes, put, trace_text

from ccltui.parsers.discovery.discover import Capture, discover
from ccltui.parsers.errors import NotFoundError


def summary(captures: tuple[Capture, ...]) -> list[tuple[str, int | None, tuple[int, ...], bool]]:
    return [(c.name, c.iteration, c.ranks, c.complete) for c in captures]


def job(root: Path, folder: str, ranks: range, world_size: int | None, *, ts: int = 1) -> None:
    for rank in ranks:
        name = f"{folder}/rank{rank}_trace.json" if folder else f"rank{rank}_trace.json"
        put(root, name, trace_text(rank, world_size, ts=ts))


def test_one_directory_is_one_capture_without_a_name(tmp_path: Path) -> None:
    job(tmp_path, "profile_trace", range(2), 2)
    put(tmp_path, "torch_et_0.json", '{"schema": "1.0.1", "nodes": []}')

    discovery = discover(tmp_path)

    assert summary(discovery.captures) == [("", None, (0, 1), True)]
    assert [f.capture for f in discovery.files] == ["", "", ""]
    assert discovery.notes == ()


def test_iterations_are_never_merged_and_sort_by_number(tmp_path: Path) -> None:
    for iteration in (10, 5, 100):
        job(tmp_path, f"traces/iteration_{iteration}", range(2), 2, ts=iteration)

    discovery = discover(tmp_path)

    assert summary(discovery.captures) == [
        ("iteration_5", 5, (0, 1), True),
        ("iteration_10", 10, (0, 1), True),
        ("iteration_100", 100, (0, 1), True),
    ]
    assert [n.message for n in discovery.notes] == [
        "3 captures: iteration_5, iteration_10 and iteration_100"
    ]
    assert discovery.choose().name == "iteration_100"
    assert discovery.choose(iteration=10).name == "iteration_10"
    assert discovery.choose(capture="iteration_5").iteration == 5


def test_the_last_complete_capture_is_chosen(tmp_path: Path) -> None:
    job(tmp_path, "iteration_20", range(4), 4, ts=20)
    job(tmp_path, "iteration_40", range(4), 4, ts=40)
    job(tmp_path, "iteration_60", range(3), 4, ts=60)

    discovery = discover(tmp_path)

    assert [c.complete for c in discovery.captures] == [True, True, False]
    assert discovery.choose().iteration == 40
    assert discovery.choose(iteration=60).ranks == (0, 1, 2)


def test_without_a_world_size_the_fullest_capture_is_complete(tmp_path: Path) -> None:
    job(tmp_path, "iteration_1", range(3), None, ts=1)
    job(tmp_path, "iteration_2", range(2), None, ts=2)

    assert summary(discover(tmp_path).captures) == [
        ("iteration_1", 1, (0, 1, 2), True),
        ("iteration_2", 2, (0, 1), False),
    ]


def test_none_complete_the_fullest_is_chosen(tmp_path: Path) -> None:
    job(tmp_path, "iteration_1", range(3), 8, ts=1)
    job(tmp_path, "iteration_2", range(2), 8, ts=2)

    assert discover(tmp_path).choose().iteration == 1


def test_folders_that_claim_one_rank_are_different_jobs(tmp_path: Path) -> None:
    job(tmp_path, "sst_2", range(2), 2, ts=2)
    job(tmp_path, "sst_10", range(2), 2, ts=10)
    job(tmp_path, "sst_10/deeper", range(1), 2, ts=11)
    put(tmp_path, "rank1.json", trace_text(1, 2, ts=12))

    assert summary(discover(tmp_path).captures) == [
        (".", None, (1,), False),
        ("sst_2", None, (0, 1), True),
        ("sst_10", None, (0, 1), True),
        ("sst_10/deeper", None, (0,), False),
    ]


def test_jobs_with_a_folder_a_node_stay_whole(tmp_path: Path) -> None:
    for name, ts in (("a", 1), ("b", 2)):
        job(tmp_path, f"job_{name}/node0", range(2), 4, ts=ts)
        job(tmp_path, f"job_{name}/node1", range(2, 4), 4, ts=ts)

    assert summary(discover(tmp_path).captures) == [
        ("job_a", None, (0, 1, 2, 3), True),
        ("job_b", None, (0, 1, 2, 3), True),
    ]


def test_different_world_sizes_in_two_folders_are_different_jobs(tmp_path: Path) -> None:
    put(tmp_path, "small/rank0.json", trace_text(0, 1))
    put(tmp_path, "large/rank1.json", trace_text(1, 2))

    assert summary(discover(tmp_path).captures) == [
        ("large", None, (1,), False),
        ("small", None, (0,), True),
    ]


def test_rank_folders_are_one_job(tmp_path: Path) -> None:
    for rank in range(3):
        put(tmp_path, f"run/rank_{rank}/profiler/trace.json", trace_text(None, ts=rank))
        put(tmp_path, f"run/rank_{rank}/iteration_7/trace.json", trace_text(None, ts=rank + 10))

    assert summary(discover(tmp_path).captures) == [
        ("run/profiler", None, (0, 1, 2), True),
        ("iteration_7", 7, (0, 1, 2), True),
    ]


def test_nodes_that_each_wrote_their_part_of_an_iteration(tmp_path: Path) -> None:
    job(tmp_path, "node0/iteration_5", range(2), 4)
    job(tmp_path, "node1/iteration_5", range(2, 4), 4)

    assert summary(discover(tmp_path).captures) == [("iteration_5", 5, (0, 1, 2, 3), True)]


def test_two_jobs_with_the_same_iterations(tmp_path: Path) -> None:
    for name, ts in (("a", 1), ("b", 2)):
        job(tmp_path, f"job_{name}/iteration_5", range(2), 2, ts=ts)

    discovery = discover(tmp_path)

    assert summary(discovery.captures) == [
        ("job_a/iteration_5", 5, (0, 1), True),
        ("job_b/iteration_5", 5, (0, 1), True),
    ]
    assert discovery.choose(iteration=5).name == "job_b/iteration_5"
    assert discovery.choose(capture="job_a/iteration_5/").name == "job_a/iteration_5"
    with pytest.raises(NotFoundError):
        discovery.choose(capture="iteration_5")  # ambiguous


def test_a_conflict_in_one_folder_is_named_and_both_files_stay(tmp_path: Path) -> None:
    put(tmp_path, "rank0.json", trace_text(0, 2))
    put(tmp_path, "b.json", trace_text(1, 2, ts=5))
    put(tmp_path, "a.json", trace_text(1, 2, ts=6))

    (capture,) = discover(tmp_path).captures

    assert [f.path for f in capture.files] == ["rank0.json", "a.json", "b.json"]
    (note,) = capture.notes
    assert (note.code, note.message, note.count) == (
        "rank_conflict",
        "rank 1 is claimed by a.json and b.json",
        2,
    )
    assert capture.complete


def test_a_conflict_of_world_sizes_in_one_folder_is_named(tmp_path: Path) -> None:
    put(tmp_path, "rank0.json", trace_text(0, 2))
    put(tmp_path, "rank1.json", trace_text(1, 4))

    (capture,) = discover(tmp_path).captures

    assert capture.world_size == 4
    assert [n.message for n in capture.notes] == [
        "the world size is 2 in rank0.json, but 4 in rank1.json"
    ]


def test_nothing_fits(tmp_path: Path) -> None:
    job(tmp_path, "iteration_5", range(1), 1)
    discovery = discover(tmp_path)

    with pytest.raises(NotFoundError, match="no iteration 6 here; there is iteration_5"):
        discovery.choose(iteration=6)
    with pytest.raises(NotFoundError, match="no iteration 5 and capture 'x' here"):
        discovery.choose(iteration=5, capture="x")


def test_nothing_to_open(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="no trace that can be opened; found no file at all"):
        discover(tmp_path).choose()

    put(tmp_path, "a.log", "x\n")
    put(tmp_path, "b.log", "x\n")
    put(tmp_path, "c.json", '{"schema": "1.0.1", "nodes": []}')
    with pytest.raises(NotFoundError, match="found 1 execution trace file and 2 log files"):
        discover(tmp_path).choose()


def test_a_single_file_that_is_no_trace_says_why(tmp_path: Path) -> None:
    file = put(tmp_path, "a.json", "")

    with pytest.raises(NotFoundError, match=r"found a\.json: an empty file"):
        discover(file).choose()


def test_an_absent_path(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="no such file or directory"):
        discover(tmp_path / "absent")


def test_paths_sort_naturally_whatever_the_listing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job(tmp_path, "", range(12), 12)
    first = discover(tmp_path)

    real = os.scandir

    class Reversed:
        def __init__(self, path: str) -> None:
            with real(path) as listing:
                self.entries = sorted(listing, key=lambda entry: entry.name, reverse=True)

        def __enter__(self) -> list[object]:
            return list(self.entries)

        def __exit__(self, *_: object) -> None:
            return None

        def close(self) -> None:
            return None

    monkeypatch.setattr("os.scandir", Reversed)

    assert discover(tmp_path) == first
    assert [f.rank for f in first.files] == list(range(12))
    assert codes(first) == []
