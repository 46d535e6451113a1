"""Ranks and replicas by the names that vLLM and SGLang give to traces."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from found_files import EVENT, by_path, codes, put, trace_text
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from ccltui.parsers.discovery.captures import Placement, placement_in
from ccltui.parsers.discovery.discover import discover
from ccltui.parsers.ingest.load import attach_columns, detach_columns
from ccltui.parsers.job import open_job
from ccltui.parsers.kineto.kineto_reader import read_kineto
from ccltui.parsers.store.column_store import Store
from ccltui.parsers.store.stored_columns import map_columns

SECOND_US = 1_000_000
EPOCH_US = 1_764_000_000 * SECOND_US


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("dp0_pp0_tp1_dcp0_ep1_rank1.1764215.pt.trace.json.gz", (0, 0, 1, "", "")),
        ("dp12_pp3_tp15.pt.trace.json.gz", (12, 3, 15, "", "")),
        ("logs/node-a_dp0_pp0_pcp0_tp3_dcp0_ep3_rank3.1.pt.trace.json", None),
        ("1764215.02-TP-0-DP-1-PP-0-EP-0.trace.json.gz", (1, 0, 0, "1764215.02-", "")),
        ("1764215.02-TP-11.trace.json.gz", (0, 0, 11, "1764215.02-", "")),
        ("run-TP-2-DP-0-PP-1-EP-2-EXTEND.trace.json.gz", (0, 1, 2, "run-", "EXTEND")),
        ("a/bench-tp4-1764.1-TP-3-PP-1-decode-bs32.pt.trace.json.gz",
         (0, 1, 3, "bench-tp4-1764.1-", "DECODE")),
    ],
)  # fmt: skip
def test_names_of_servers_state_the_place_of_a_process(
    name: str, expected: tuple[int, int, int, str, str] | None
) -> None:
    place = placement_in(name)

    if expected is None:
        assert place is not None
        assert (place.dp, place.pp, place.tp, place.prefix) == (0, 0, 3, "node-a_")
    else:
        assert place == Placement(*expected)


@pytest.mark.parametrize(
    "name",
    [
        "llama_tp2_dp4.json",
        "rank3_trace.json",
        "http-0.trace.json",
        "dp0_pp0.json",
        "kineto-TP-2.json",
        "dp1234567_pp0_tp0.json",
        "steps0_pp0_tp.json",
    ],
)
def test_other_names_state_none(name: str) -> None:
    assert placement_in(name) is None


@given(
    st.lists(st.tuples(*[st.integers(0, 99_999)] * 3), min_size=1, max_size=3),
    st.sampled_from(["", "1764215813.27-", "prefill_bench.", "h-01_4242."]),
    st.sampled_from(
        [".trace.json.gz", ".176.pt.trace.json.gz", "-x.trace.json", ".trace.json.zst"]
    ),
)
def test_any_number_of_digits_and_any_prefix_and_suffix(
    places: list[tuple[int, int, int]], prefix: str, suffix: str
) -> None:
    for dp, pp, tp in places:
        for name in (
            f"{prefix}dp{dp}_pp{pp}_tp{tp}_dcp0_ep{tp}_rank{tp}{suffix}",
            f"{prefix}TP-{tp}-DP-{dp}-PP-{pp}-EP-0{suffix}",
        ):
            place = placement_in(name)
            assert place is not None
            assert (place.dp, place.pp, place.tp, place.prefix) == (dp, pp, tp, prefix)


def test_sglang_without_distributed_info_has_ranks_by_pipeline_stage_and_tensor_rank(
    tmp_path: Path,
) -> None:
    for pp in range(2):
        for tp in range(3):
            put(tmp_path, f"1764.5-TP-{tp}-PP-{pp}.trace.json.gz", trace_text(ts=3 * pp + tp))

    discovery = discover(tmp_path)

    assert [capture.ranks for capture in discovery.captures] == [(0, 1, 2, 3, 4, 5)]
    assert by_path(discovery)["1764.5-TP-1-PP-1.trace.json.gz"].rank == 4
    assert codes(discovery) == []


def test_degrees_in_names_are_no_ranks(tmp_path: Path) -> None:
    put(tmp_path, "dp2_pp2_tp4.json", trace_text())

    assert discover(tmp_path).captures[0].ranks == ()


def test_a_name_beyond_the_world_is_no_rank(tmp_path: Path) -> None:
    put(tmp_path, "dp0_pp0_tp8.json", trace_text(None, 4))

    assert discover(tmp_path).captures[0].ranks == ()


def replicas(root: Path, *, start_us: int = 1, replicas: int = 2, names: str = "vllm") -> None:
    for dp in range(replicas):
        for rank in range(2):
            name = f"dp{dp}_pp0_tp{rank}_dcp0_ep{rank}_rank{rank}.{start_us + rank}.pt.trace.json"
            if names == "sglang":
                name = f"{start_us / 1e6}-TP-{rank}-DP-{dp}.trace.json"
            put(root, name, trace_text(rank, 2, ts=start_us + 10 * dp + rank))


@pytest.mark.parametrize("names", ["vllm", "sglang"])
def test_replicas_that_begin_at_rank_0_are_ranks_of_one_job(tmp_path: Path, names: str) -> None:
    replicas(tmp_path, replicas=3, names=names)

    job = open_job(tmp_path, cache_dir=tmp_path / "cache")

    assert len(job.discovery.captures) == 1
    assert [(t.rank, t.label, t.replica, t.first_rank) for t in job.ranks] == [
        (0, "0", "dp0", 0),
        (1, "1", "dp0", 0),
        (2, "2", "dp1", 2),
        (3, "3", "dp1", 2),
        (4, "4", "dp2", 4),
        (5, "5", "dp2", 4),
    ]
    assert (job.world_size, list(job.missing_ranks), job.conflicting_ranks) == (6, [], ())
    assert [note.code for note in job.notes] == []
    again = job
    for trace in job.ranks:
        again = again.with_rank(trace)
    assert [trace.rank for trace in again.ranks] == list(range(6))


def test_groups_and_peers_of_a_replica_have_the_ranks_of_the_job(tmp_path: Path) -> None:
    group = {"pg_name": "3", "pg_desc": "tp", "pg_size": 2, "ranks": [0, 1]}
    unlisted = {"pg_name": "0", "pg_desc": "default_pg", "pg_size": 2, "ranks": []}
    for dp in range(2):
        for rank in range(2):
            info = {
                "backend": "nccl",
                "rank": rank,
                "world_size": 2,
                "pg_config": [group, unlisted],
            }
            send = {"Collective name": "send", "Process Group Name": "3", "In msg nelems": 8,
                    "Src Rank": rank, "Dst Rank": 1 - rank, "dtype": "Float"}  # fmt: skip
            event = {**EVENT, "ts": 9 + dp, "name": "record_param_comms", "args": send}
            text = json.dumps({"distributedInfo": info, "traceEvents": [event]})
            put(tmp_path, f"dp{dp}_pp0_tp{rank}_rank{rank}.9.pt.trace.json.gz", text)

    job = open_job(tmp_path, cache_dir=tmp_path / "cache")

    groups = [[group.ranks for group in trace.process_groups] for trace in job.ranks]
    assert groups == [[(0, 1), (0, 1)]] * 2 + [[(2, 3), (2, 3)]] * 2
    peers = [(trace.collective_args.src.tolist(), trace.collective_args.dst.tolist())
             for trace in job.ranks]  # fmt: skip
    assert peers == [([0], [1]), ([1], [0]), ([2], [3]), ([3], [2])]
    store, path = Store(tmp_path / "store"), Path(job.ranks[2].source.real_path)
    assert store.save(store.key(path, 1), read_kineto(path))
    stored = store.load(store.key(path, 1))
    assert stored is not None
    # Sent to the process that computes for the explorer, which maps the columns of the file.
    sent = detach_columns(structs.replace(job.ranks[2], place=stored.place))
    assert sent is not None
    taken = attach_columns(sent, map_columns(sent.place))
    assert (taken.rank, taken.replica) == (2, "dp1")
    assert taken.process_groups[0].ranks == (2, 3)
    assert (taken.collective_args.src.tolist(), taken.collective_args.dst.tolist()) == ([2], [3])


def test_a_world_over_all_replicas_is_taken_as_the_files_state_it(tmp_path: Path) -> None:
    for dp in range(2):
        for tp in range(2):
            name = f"dp{dp}_pp0_tp{tp}_dcp0_ep{2 * dp + tp}_rank{tp}.7.pt.trace.json.gz"
            put(tmp_path, name, trace_text(2 * dp + tp, 4, last=True))

    job = open_job(tmp_path, cache_dir=tmp_path / "cache")

    assert [trace.rank for trace in job.ranks] == [0, 1, 2, 3]
    assert job.world_size == 4
    assert codes(job.discovery) == []


def test_tensor_ranks_with_attention_in_replicas_are_one_world(tmp_path: Path) -> None:
    for tp in range(4):
        put(tmp_path, f"9.1-TP-{tp}-DP-{tp // 2}-PP-0-EP-{tp}.trace.json.gz", trace_text(tp, 4))

    job = open_job(tmp_path, cache_dir=tmp_path / "cache")

    assert [(trace.rank, trace.replica) for trace in job.ranks] == [(n, "") for n in range(4)]


def test_prefill_and_decode_are_two_captures(tmp_path: Path) -> None:
    for stage, start in (("EXTEND", 1), ("DECODE", 900)):
        for tp in range(2):
            name = f"prof/1764.5-TP-{tp}-{stage}.trace.json.gz"
            put(tmp_path, name, trace_text(ts=start + tp))

    discovery = discover(tmp_path)

    assert [(one.name, one.ranks) for one in discovery.captures] == [
        ("DECODE", (0, 1)),
        ("EXTEND", (0, 1)),
    ]


def test_two_sessions_of_replicas_are_two_captures(tmp_path: Path) -> None:
    for start_us in (EPOCH_US, EPOCH_US + 90 * SECOND_US):
        replicas(tmp_path, start_us=start_us)

    discovery = discover(tmp_path)

    assert [one.ranks for one in discovery.captures] == [(0, 1, 2, 3)] * 2


def test_sessions_without_times_are_told_apart_by_their_prefix(tmp_path: Path) -> None:
    for session in ("1764.5", "1799.1"):
        for tp in range(2):
            text = trace_text(tp, 2).replace(b'"ts": 1', b'"id": "%b"' % session.encode())
            put(tmp_path, f"{session}-TP-{tp}.trace.json.gz", text)

    assert [one.ranks for one in discover(tmp_path).captures] == [(0, 1)] * 2


def test_ranks_of_a_release_with_a_session_each_stay_together(tmp_path: Path) -> None:
    for tp in range(2):
        put(tmp_path, f"1764.{tp}-TP-{tp}.trace.json.gz", trace_text(tp, 2))

    assert [one.ranks for one in discover(tmp_path).captures] == [(0, 1)]


def test_a_replica_recorded_twice_at_one_time_is_a_conflict_as_before(tmp_path: Path) -> None:
    replicas(tmp_path)
    put(tmp_path, "copy/../dp1_pp0_tp0_again.trace.json", trace_text(0, 2, ts=14))

    job = open_job(tmp_path, cache_dir=tmp_path / "cache")

    assert job.conflicting_ranks == (0, 1)
    assert all(not trace.replica for trace in job.ranks)
