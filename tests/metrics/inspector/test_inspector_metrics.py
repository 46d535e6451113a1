"""Late ranks, slow groups and coverage of records of NCCL Inspector with known answers."""

from __future__ import annotations

from pathlib import Path

import pytest
from inspector_lines import MIB, START_US, call, line, write_job
from runs_by_hand import view_of

from bench.inspector_logs import LogSpec, write_inspector_logs
from ccltui.metrics.findings.recordings.log_findings import log_answer
from ccltui.metrics.registry import find
from ccltui.metrics.result import Result


def run(name: str, folder: Path) -> Result:
    return find(name).run(view_of(folder))


def test_the_late_rank_its_lag_and_since_when(tmp_path: Path) -> None:
    found = run("duration_lag", write_job(tmp_path))

    assert (found.status, found.value) == ("ok", 3.0)
    assert found.details["late_ranks"] == ["5"]
    first = found.details["ranks"][0]
    assert first["late_since_us"] == START_US + 30_000_000
    assert (first["late_windows"], first["instances"]) == ([3, 4, 5], 30)
    assert {row["lag_ms"] for row in found.details["ranks"][1:]} == {0}


def test_an_instance_counts_only_where_all_members_recorded_it(tmp_path: Path) -> None:
    found = run("duration_lag", write_job(tmp_path, left_out={3: range(50, 60)}))

    assert found.details["late_ranks"] == []
    # of 60 all-reduces and four times 60 gathers, ten and ten are not on rank 3
    assert found.details["coverage"] == (5 * 60 - 20) / (5 * 60)


def test_the_slow_pair_of_four(tmp_path: Path) -> None:
    found = run("inspector_busbw", write_job(tmp_path))

    assert found.details["slow_groups"] == [["2", "6"]]
    assert found.value == pytest.approx(5.0)  # 16 MB from the other rank in 3.2 ms
    assert found.details["groups"][0]["peers_gbs"] == pytest.approx(16.0)


def test_bandwidth_is_that_of_the_last_to_arrive(tmp_path: Path) -> None:
    groups = run("inspector_busbw", write_job(tmp_path)).details["groups"]
    (world,) = [row for row in groups if row["operation"] == "AllReduce"]

    # from second 30 on all ranks but one wait 3 ms: what they measure is not the transfer
    assert world["busbw_gbs"] == pytest.approx(64 * MIB * 2 * 7 / 8 / 1e-3 / 1e9)


def test_a_missing_number_is_not_in_the_file(tmp_path: Path) -> None:
    found = run("inspector_coverage", write_job(tmp_path, left_out={3: [7], 4: [0, 1]}))

    # the first numbers of rank 4 are before its first record, and so are not missing
    assert found.details["missing"] == 2
    assert found.value == pytest.approx(1 - 2 / (16 * 60 - 4))
    assert found.details["dropped"] is None
    assert found.details["series"][0]["rank"] == "3"


def test_drops_that_the_writer_states_are_added_up(tmp_path: Path) -> None:
    folder = write_job(tmp_path)
    for rank, path in enumerate(sorted(folder.iterdir())):
        stated = line(rank, {"coll_dropped_total": 5}, kind="dump_stats", version="v4.1")
        path.write_text(path.read_text() + stated)

    assert run("inspector_coverage", folder).details["dropped"] == 40


def test_two_communicators_with_one_cut_hash_are_not_mixed(tmp_path: Path) -> None:
    folder = write_job(tmp_path)
    intruder = line(6, call("AllReduce", 1, 64, 5), comm=("0x6f3a91c27d5e08", "default_pg", 1, 8))
    (folder / "other.log").write_text(intruder)

    found = run("duration_lag", folder)

    assert (found.status, found.details["late_ranks"]) == ("partial", [])
    assert "several processes state one rank" in found.reasons[0].message


def test_a_damaged_line_makes_the_result_partial_and_is_named(tmp_path: Path) -> None:
    folder = write_job(tmp_path)
    path = folder / "node-a-pid40002.log"
    path.write_text(path.read_text() + "{broken}\n")

    found = run("duration_lag", folder)

    assert (found.status, found.value) == ("partial", 3.0)
    assert "node-a-pid40002.log: line 121" in found.reasons[0].message


@pytest.mark.parametrize("name", ["duration_lag", "inspector_busbw", "inspector_coverage"])
def test_without_records_the_reason_says_so(tmp_path: Path, name: str) -> None:
    (tmp_path / "notes.txt").write_text("nothing")
    found = run(name, tmp_path)

    assert (found.status, found.reason) == ("unavailable", "no_side_file")


def test_one_rank_alone_has_no_lag(tmp_path: Path) -> None:
    folder = write_job(tmp_path)
    for path in sorted(folder.iterdir())[1:]:
        path.unlink()

    assert run("duration_lag", folder).reason == "unmatched_collectives"
    assert run("inspector_coverage", folder).value == 1


def test_the_findings_name_the_late_rank_and_the_slow_pair(tmp_path: Path) -> None:
    answer = log_answer(view_of(write_job(tmp_path)))

    assert answer is not None
    late, slow, reached = answer.findings
    # 30 instances at which seven ranks wait 3 ms, of 60 s of eight ranks
    assert late.text == (
        "The others wait 0.1 % of the time for rank 5, which arrives 3 ms late at AllReduce of "
        "default_pg from 2026-05-28 20:27:10 UTC on (NCCL Inspector)."
    )
    assert late.share == pytest.approx(30 * 7 * 0.003 / (8 * 60))
    assert late.cost_ms == pytest.approx(30 * 7 * 3 / 8)
    assert (late.kind, late.where.ranks, late.where.host) == ("waiting_for_rank", ("5",), "node-b")
    assert slow.text == (
        "The link of ranks 2 and 6 is slow: AllGather of mesh_dp reaches 5 GB/s of bus bandwidth, "
        "groups of the same size reach 16; less than 0.1 % of the time is lost (NCCL Inspector)."
    )
    assert (slow.kind, slow.where.ranks, slow.where.group) == ("slow_link", ("2", "6"), "mesh_dp")
    # 60 gathers of two ranks take 3.2 ms, where others take 1
    assert slow.cost_ms == pytest.approx(60 * 2 * 2.2 / 8)
    assert (late.sure.what, late.sure.who, late.sure.how_much) == ("high", "medium", "low")
    assert reached.text.startswith("AllGather of mesh_dp reaches 16 GB/s of bus bandwidth")


def test_a_rank_that_recovers_is_late_until_then(tmp_path: Path) -> None:
    spec = LogSpec(ranks=24, hours=0.05, late_rank=9, late_hours=(0.01, 0.03))
    write_inspector_logs(tmp_path, spec)
    answer = log_answer(view_of(tmp_path))

    assert answer is not None
    (late,) = (one for one in answer.findings if one.kind == "waiting_for_rank")
    assert "late at AllReduce of tp from 2026-05-28 20:27:30 to 20:28:40 UTC" in late.text
