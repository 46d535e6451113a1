"""The public traces, folder by folder, with literal expectations."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
from found_files import by_path, codes

from ccltui.parsers.discovery.discover import discover


def kinds(root: Path) -> dict[str, int]:
    return dict(Counter(found.kind for found in discover(root).files))


def test_megatron_eight_ranks_with_execution_traces(shared: Path) -> None:
    discovery = discover(shared / "traces" / "astra-sim" / "megatron-tp8")

    assert Counter(f.kind for f in discovery.files) == {"kineto": 8, "execution_trace": 8}
    (capture,) = discovery.captures
    assert (capture.name, capture.ranks) == ("", tuple(range(8)))
    assert (capture.world_size, capture.complete, capture.notes) == (8, True, ())
    assert [f.path for f in capture.files] == [f"megatron_kineto_{r}.json.gz" for r in range(8)]
    assert {f.rank_source for f in capture.files} == {"distributedInfo"}
    assert {f.compression for f in discovery.files} == {"gzip"}
    assert discovery.notes == ()


@pytest.mark.parametrize(
    ("folder", "ranks"), [("titan022_llama_3d_8", 8), ("titan022_llama_tp2", 2)]
)
def test_torchtitan_iteration(shared: Path, folder: str, ranks: int) -> None:
    discovery = discover(shared / "recorded" / folder)

    (capture,) = discovery.captures
    assert (capture.name, capture.iteration) == ("iteration_5", 5)
    assert (capture.ranks, capture.complete) == (tuple(range(ranks)), True)
    assert capture.files[1].path == "profile_trace/iteration_5/rank1_trace.json.gz"
    assert discovery.choose(iteration=5) == capture == discovery.choose()


def test_two_rank_sample_with_a_link_stored_as_text(shared: Path) -> None:
    discovery = discover(shared / "golden" / "two_rank")

    found = by_path(discovery)
    assert {path: (f.kind, f.rank, f.duplicate_of) for path, f in found.items()} == {
        "kineto_trace_0.json": ("kineto", 0, "profile_trace/rank0_trace.json"),
        "profile_trace/rank0_trace.json": ("kineto", 0, None),
        "profile_trace/rank1_trace.json": ("kineto", 1, None),
    }
    assert discovery.choose().ranks == (0, 1)


def test_synthetic_job_with_two_files_for_rank_three(shared: Path) -> None:
    discovery = discover(shared / "golden" / "synth")

    (capture,) = discovery.captures
    assert [f.rank for f in capture.files] == [0, 1, 2, 3, 3]
    assert [n.message for n in capture.notes] == [
        "rank 3 is claimed by rank3.json.gz and rank3_clk.json.gz"
    ]


def test_torchrec_is_five_captures_of_four_ranks(shared: Path) -> None:
    discovery = discover(shared / "traces" / "torchrec" / "trace")

    assert [(c.name, c.ranks, c.world_size, c.complete) for c in discovery.captures] == [
        (name, (0, 1, 2, 3), 4, True)
        for name in (
            "sst_long_a2a_optimizer",
            "sst_long_a2a_optimizer_2",
            "sst_long_a2a_optimizer_3",
            "sst_long_a2a_optimizer_4",
            "sst_long_a2a_optimizer_5_qcomm",
        )
    ]
    assert discovery.choose().name == "sst_long_a2a_optimizer_5_qcomm"
    assert codes(discovery) == ["several_captures"]


def test_all_of_torchrec_keeps_the_other_job_apart(shared: Path) -> None:
    discovery = discover(shared / "traces" / "torchrec")

    assert [(c.name, len(c.files)) for c in discovery.captures] == [
        ("log/resnet18", 2),
        ("trace/sst_long_a2a_optimizer", 4),
        ("trace/sst_long_a2a_optimizer_2", 4),
        ("trace/sst_long_a2a_optimizer_3", 4),
        ("trace/sst_long_a2a_optimizer_4", 4),
        ("trace/sst_long_a2a_optimizer_5_qcomm", 4),
    ]
    assert discovery.choose(capture="sst_long_a2a_optimizer_2").name == (
        "trace/sst_long_a2a_optimizer_2"
    )


def test_a_rank_folder_names_the_rank(shared: Path) -> None:
    (capture,) = discover(shared / "traces" / "composer").captures

    assert (capture.name, capture.ranks) == ("", (0,))
    assert capture.files[0].rank_source == "file name"


@pytest.mark.parametrize(
    ("path", "rank", "source", "world_size"),
    [
        ("hta/rank_unavailable", None, "none", None),
        ("hta/distributed_info_unavailable", None, "none", None),
        ("hta/rank_non_gpu", 0, "distributedInfo", None),
        ("hta/cpu_only", 34, "distributedInfo", 300),
        ("hta/trace_file_list", 1, "distributedInfo", None),  # behind the events
        ("hta/call_stack", 0, "distributedInfo", None),  # behind the events
        ("hta/large_integer_trace", 70, "file name", None),
        ("hta/trace_diff", 3, "distributedInfo", 8),
        ("hta/mtia_trace_single_rank", 0, "distributedInfo", 1),
        ("pippy", None, "none", None),
        ("kineto/test", None, "none", None),
        ("tracelens/traces/b200", 0, "distributedInfo", 8),
    ],
)
def test_rank_identity_of_single_files(
    shared: Path, path: str, rank: int | None, source: str, world_size: int | None
) -> None:
    (found,) = discover(shared / "traces" / path).files

    assert (found.kind, found.problem) == ("kineto", None)
    assert (found.rank, found.rank_source, found.world_size) == (rank, source, world_size)


def test_one_rank_of_a_thousand(shared: Path) -> None:
    (capture,) = discover(shared / "recorded" / "fake_1024").captures

    assert (capture.ranks, capture.world_size, capture.complete) == ((517,), 1024, False)


def test_models_of_one_folder_are_no_ranks_and_recordings_of_their_own(shared: Path) -> None:
    captures = discover(shared / "traces" / "tracelens" / "traces" / "h100").captures

    assert [[f.rank for f in capture.files] for capture in captures] == [[None]] * len(captures)
    assert len(captures) > 1
    assert all(capture.is_unrelated for capture in captures)


def test_archives_name_their_members(shared: Path) -> None:
    (found,) = discover(shared / "traces" / "chakra").files

    assert found.kind == "archive"
    assert found.problem == (
        "an archive of 2 files (._1.0.2-chakra.0.0.4.json and 1.0.2-chakra.0.0.4.json): "
        "unpack it first"
    )


def test_side_files_of_a_deepspeed_run(shared: Path) -> None:
    assert kinds(shared / "recorded" / "deepspeed_2") == {
        "kineto": 2,
        "launcher_metadata": 1,
        "run_complete": 1,
        "training_metrics": 1,
    }


def kind_by_name(path: str) -> str:
    """Return the kind that the publishers' names state; traces are what they do not mark."""
    if path.endswith((".tgz", ".tar.gz")):
        return "archive"
    return "execution_trace" if re.search(r"_e[gt](_\d+)?(_plus)?\.json\.gz$", path) else "kineto"


def test_every_public_trace_is_recognised(shared: Path) -> None:
    discovery = discover(shared / "traces")

    assert {f.path: f.kind for f in discovery.files} == {
        f.path: kind_by_name(f.path) for f in discovery.files
    }
    assert {f.kind for f in discovery.files} == {"archive", "execution_trace", "kineto"}
    assert all(f.problem is None for f in discovery.files if f.kind != "archive")
    assert codes(discovery).count("rank_conflict") == 0


@pytest.mark.parametrize(
    ("folder", "expected"),
    [
        ("aristos", {"nsys_text": 1, "nsys_text_trace": 1}),
        ("gpt2-deepspeed", {"nsys_text": 1}),
        ("ddp53", {"nsys_sqlite": 1, "unknown": 1}),  # a licence
        ("nsys-ai", {"nsys_sqlite": 2, "unknown": 1}),
        ("cs336-fsdp/benchmark_results/nsys", {"nsys_text": 6}),
        ("cs336-fsdp/benchmark_results", {"nsys_text": 7, "log": 1, "text": 8, "unknown": 1}),
        ("oracle", {"nsys_text": 52, "nsys_text_trace": 2, "text": 1}),
        ("paracodex", {"nsys_text": 14, "nsys_report": 4, "nsys_sqlite": 3, "unknown": 1}),
    ],
)
def test_nsys_folders(shared: Path, folder: str, expected: dict[str, int]) -> None:
    assert kinds(shared / "nsys" / folder) == expected
