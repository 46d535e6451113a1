"""Rank identity: what the file states, then the user's map, then the name; never a position."""

from __future__ import annotations

from pathlib import Path

import pytest
from found_files import by_path, codes, put, trace_text

from ccltui.parsers.columns import Note
from ccltui.parsers.discovery.captures import rank_in_name
from ccltui.parsers.discovery.discover import discover, parse_rank_map
from ccltui.parsers.errors import GrammarError


@pytest.mark.parametrize(
    ("path", "rank"),
    [
        ("rank0_trace.json", 0),
        ("rank-34.Jul_15_10_52_41.1074.pt.trace.json", 34),
        ("sampled_rank-1.json.gz", 1),
        ("kineto_trace_rank12.json", 12),
        ("kineto_trace_517.json.gz", 517),
        ("torch_et_3.json", 3),
        ("megatron_kineto_4.json.gz", 4),
        ("bs_32_rank0.json.gz", 0),
        ("RANK7.json", 7),
        ("step_rank5.json", 5),
        ("dump_rank_6.json", 6),
        ("rank_0/composer_profiler/rank_0.trace.json", 0),
        ("rank_3/composer_profiler/trace.json", 3),
        ("rank3/rank_x/trace.json", 3),
        ("rank3_clk.json.gz", 3),
        ("local_rank0_rank9.json", 9),
        ("local_rank0.json", None),
        ("tp_rank1.json", None),
        ("node-rank2.json", None),
        ("lowrank8.json", None),
        ("ranks8/x.json", None),
        ("rank_not_found.json.gz", None),
        ("worker0.pt.trace.json", None),
        ("host_85866.1698107929560561434.pt.trace.json.gz", None),
        ("Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz", None),  # seven digits: no rank
        ("rank12345678.json", None),
        ("trace.json", None),
    ],
)
def test_rank_in_name(path: str, rank: int | None) -> None:
    assert rank_in_name(path) == rank


def test_distributed_info_then_map_then_name(tmp_path: Path) -> None:
    put(tmp_path, "rank5.json", trace_text(0, 4))
    put(tmp_path, "rank6.json", trace_text(None, 4, ts=6))
    put(tmp_path, "rank2.json", trace_text(None, 4, ts=2))
    put(tmp_path, "other.json", trace_text(None, 4, ts=9))

    discovery = discover(tmp_path, rank_map={"rank5.json": 3, "rank6.json": 1})

    assert {name: (f.rank, f.rank_source) for name, f in by_path(discovery).items()} == {
        "rank5.json": (0, "distributedInfo"),
        "rank6.json": (1, "rank map"),
        "rank2.json": (2, "file name"),
        "other.json": (None, "none"),
    }
    assert discovery.notes == (
        Note("rank_map_ignored", "rank5.json states rank 0; the rank map's 3 is not used"),
        Note("rank_mismatch", "rank5.json states rank 0, though its name contains 5"),
    )
    (capture,) = discovery.captures
    assert [f.path for f in capture.files] == [
        "rank5.json",
        "rank6.json",
        "rank2.json",
        "other.json",
    ]
    assert capture.notes == (
        Note("rank_unknown", "other.json states no rank; a rank map can give one"),
    )
    assert (capture.ranks, capture.world_size, capture.complete) == ((0, 1, 2), 4, False)


@pytest.mark.parametrize("name", ["a.json", "a.json.gz"])
def test_distributed_info_after_the_events(tmp_path: Path, name: str) -> None:
    events = b'{"traceEvents":[' + b",".join([b'{"ph":"X","name":"distributedInfo"}'] * 9000)
    end = b'],"distributedInfo":{"rank":6,"world_size":8},"traceName":"x"}\n'
    put(tmp_path, name, events + end)

    (found,) = discover(tmp_path).files

    assert (found.rank, found.world_size) == (6, 8)


def test_distributed_info_inside_another_object_does_not_count(tmp_path: Path) -> None:
    text = b'{"traceEvents":[],"metadata":{"distributedInfo":{"rank":6}}}'
    put(tmp_path, "a.json", text)
    put(tmp_path, "b.json", b'{"metadata":{"distributedInfo":{"rank":6}},"traceEvents":[]}')

    assert [f.rank for f in discover(tmp_path).files] == [None, None]


@pytest.mark.parametrize(
    ("info", "rank"),
    [
        ('{"rank": 3}', 3),
        ('{"rank": "3"}', 3),
        ('{"pg_config": [{"ranks": [0, 1], "rank": 9}], "rank": 3}', 3),
        ('{"backend": "nccl"}', None),
        ('{"rank": -1}', None),
        ('{"rank": null}', None),
        ('{"rank": true}', None),
        ('{"rank": [3]}', None),
        ('{"rank": 99999999999999999999}', None),
        ("[3]", None),
        ("3", None),
    ],
)
def test_forms_of_distributed_info(tmp_path: Path, info: str, rank: int | None) -> None:
    put(tmp_path, "a.json", f'{{"distributedInfo": {info}, "traceEvents": []}}')

    (found,) = discover(tmp_path).files

    assert (found.kind, found.rank) == ("kineto", rank)


def test_a_name_cannot_state_a_rank_outside_the_world(tmp_path: Path) -> None:
    put(tmp_path, "trace_20.json", trace_text(None, 4))

    (found,) = discover(tmp_path).files

    assert (found.rank, found.rank_source) == (None, "none")


def test_the_name_of_a_link_counts_where_the_file_is_silent(tmp_path: Path) -> None:
    put(tmp_path, "profile_trace/host_77.123.pt.trace.json", trace_text(None))
    (tmp_path / "kineto_trace_0.json").symlink_to("profile_trace/host_77.123.pt.trace.json")

    discovery = discover(tmp_path)

    (trace,) = discovery.captures[0].files
    assert (trace.path, trace.rank) == ("profile_trace/host_77.123.pt.trace.json", 0)


def test_rank_map_on_the_command_line() -> None:
    assert parse_rank_map("0=a.json,1=sub/b=c.json") == {"a.json": 0, "sub/b=c.json": 1}
    assert parse_rank_map(" 3 = a.json ") == {"a.json": 3}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "'' is not RANK=FILE"),
        ("a.json", "'a.json' is not RANK=FILE"),
        ("0=", "'0=' is not RANK=FILE"),
        ("0=a.json,", "'' is not RANK=FILE"),
        ("x=a.json", "'x' is not a rank"),
        ("-1=a.json", "'-1' is not a rank"),
        ("1000000=a.json", "'1000000' is not a rank"),
        ("٣=a.json", "is not a rank"),
        ("0=a.json,1=a.json", "a.json is given two ranks, 0 and 1"),
        ("@/nowhere/at/all", "the rank map cannot be read: No such file or directory"),
        ("@", "the rank map cannot be read"),
    ],
)
def test_rejected_rank_maps(text: str, why: str) -> None:
    with pytest.raises(GrammarError) as raised:
        parse_rank_map(text)

    assert why in str(raised.value)


def test_rank_map_in_a_file(tmp_path: Path) -> None:
    file = put(tmp_path, "map", "# rank file\n0 a.json\n\n1   with blank.json\n")

    assert parse_rank_map(f"@{file}") == {"a.json": 0, "with blank.json": 1}


def test_a_rank_map_file_names_the_line(tmp_path: Path) -> None:
    file = put(tmp_path, "map", "0 a.json\nb.json\n")

    with pytest.raises(GrammarError, match=r":2: 'b.json' is not `RANK FILE`"):
        parse_rank_map(f"@{file}")


def test_a_bare_name_in_the_map_stands_for_every_file_of_that_name(tmp_path: Path) -> None:
    for iteration in (5, 10):
        put(tmp_path, f"iteration_{iteration}/a.json", trace_text(None, ts=iteration))
        put(tmp_path, f"iteration_{iteration}/b.json", trace_text(None, ts=iteration + 1))
    absolute = str(tmp_path / "iteration_10" / "b.json")

    discovery = discover(tmp_path, rank_map={"a.json": 1, "./iteration_5/b.json": 2, absolute: 3})

    assert [(f.path, f.rank) for f in discovery.files] == [
        ("iteration_5/a.json", 1),
        ("iteration_5/b.json", 2),
        ("iteration_10/a.json", 1),
        ("iteration_10/b.json", 3),
    ]


def test_a_map_that_names_no_trace_is_an_error_with_near_names(tmp_path: Path) -> None:
    put(tmp_path, "trace_a.json", trace_text(None))

    with pytest.raises(GrammarError) as raised:
        discover(tmp_path, rank_map={"trace_b.json": 0})

    assert str(raised.value) == (
        "the rank map names trace_b.json, which is no trace here; did you mean trace_a.json?"
    )


def test_files_without_rank_keep_no_rank_whatever_their_number(tmp_path: Path) -> None:
    for name in ("a.json", "b.json", "c.json"):
        put(tmp_path, name, trace_text(None, ts=ord(name[0])))

    discovery = discover(tmp_path)

    assert [f.rank for f in discovery.files] == [None, None, None]
    assert codes(discovery) == ["rank_unknown"]
    assert discovery.captures[0].complete
