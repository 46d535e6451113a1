"""What ended a job comes first, the cause before what follows from it."""

from __future__ import annotations

from pathlib import Path

import pytest
from runs_by_hand import view_of

from ccltui.demo.planted import JobSpec, write_planted
from ccltui.metrics.catalog.time.findings import answer_of
from ccltui.metrics.findings.finding import Answer
from ccltui.metrics.view.job_view import View
from ccltui.parsers.job import open_job

TIMED_OUT = (
    "[rank{rank}]:[E102 03:04:05.1 ProcessGroupNCCL.cpp:607] [Rank {rank}] Watchdog caught "
    "collective operation timeout: WorkNCCL(SeqNum=9, OpType=ALLREDUCE, NumelIn=4, NumelOut=4, "
    "Timeout(ms)=1000) ran for 1001 milliseconds before timing out.\n"
)


def answered(folder: Path, **logs: str) -> Answer:
    for name, text in logs.items():
        (folder / f"{name}.log").write_text(text, encoding="utf-8")
    return answer_of(view_of(folder))


def test_the_cause_comes_before_what_follows(tmp_path: Path) -> None:
    first = answered(
        tmp_path,
        rank_0="[rank0]: RuntimeError: [pair.cc:1] Connection closed by peer [10.0.0.2]:7\n",
        rank_1="[rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB\n",
    ).findings[0]

    assert first.kind == "failure"
    assert first.text == "Rank 1 ran out of device memory."
    assert first.where.ranks == ("1",)
    assert (first.sure.what, first.sure.who) == ("high", "high")


def test_a_lost_connection_blames_the_other_end(tmp_path: Path) -> None:
    line = "[rank0]: RuntimeError: [pair.cc:1] Connection closed by peer [10.0.0.2]:7\n"

    first = answered(tmp_path, out=line).findings[0]

    assert first.text == (
        "Rank 0 lost the connection to 10.0.0.2, which ended first or is not reached."
    )
    assert first.where.ranks == ()


def test_an_error_of_the_disk_explains_a_time_out(tmp_path: Path) -> None:
    text = "OSError: [Errno 28] No space left on device\n" + TIMED_OUT.format(rank=1)

    found = answered(tmp_path, out=text).findings

    assert [one.kind for one in found] == ["failure", "hang"]
    assert found[0].text == "A process could not write: No space left on device."


def test_lost_connections_follow_from_a_time_out(tmp_path: Path) -> None:
    text = TIMED_OUT.format(rank=0) + "[rank1]: RuntimeError: Connection reset by peer\n"

    assert [one.kind for one in answered(tmp_path, out=text).findings] == ["hang"]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "h1:1:2 [3] NCCL WARN socketStartConnect: Connect to fe80::1%ib0<9> failed : "
            "Connection refused\n",
            "Host h1 (GPU 3) cannot connect to fe80::1%ib0: Connection refused.",
        ),
        (
            "h1:1:2 [3] NCCL WARN NET/IB : Got completion from peer 10.0.0.9<1> with status=12 "
            "opcode=0\n",
            "Host h1 (GPU 3) lost the link to 10.0.0.9: completion error 12 of InfiniBand.",
        ),
        (
            "rank: 0, key: store_based_barrier_key:1 (world_size=4, worker_count=3, "
            "timeout=0:01)\n",
            "3 of 4 ranks came to the start of a process group, 1 rank did not (limit 0:01).",
        ),
        (
            "rank: 0, key: store_based_barrier_key:1 (world_size=2, worker_count=3, "
            "timeout=0:01)\n",
            "3 processes came to a start of 2 ranks: others use the same address, or those of a "
            "start before did.",
        ),
        (
            "a.b [missing ranks: 3]\na.c [missing ranks: 3]\n",
            "Rank 3 has not submitted what others wait for: a.b and 1 more.",
        ),
        ("failed (exitcode: 1) local_rank: 7 (pid: 3)\n", "Local rank 7 ended with exit code 1."),
    ],
)
def test_sentences(tmp_path: Path, text: str, sentence: str) -> None:
    assert answered(tmp_path, out=text).findings[0].text == sentence


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "h1:1:2 [0] NCCL INFO comm 0x7f rank 0 nranks 4 cudaDev 0 - Init COMPLETE\n"
            "h2:1:2 [0] NCCL INFO comm 0x7e rank 2 nranks 4 cudaDev 0 - Init COMPLETE\n",
            "NCCL's log on 2 hosts has no error; 2 of 4 ranks print that their start is complete.",
        ),
        (
            "h1:1:2 [0] NCCL INFO Channel 00 : 0[1b0] -> 1[1c0] via P2P/IPC\n",
            "NCCL's log on 1 host has no error, and no rank prints that its start is complete.",
        ),
    ],
)
def test_how_far_the_start_of_nccl_came(tmp_path: Path, text: str, sentence: str) -> None:
    assert answered(tmp_path, nccl=text).findings[0].text == sentence


@pytest.mark.parametrize(
    ("line", "is_told"),
    [
        ("slurmstepd: error: Detected 1 oom_kill event in StepId=12.0.", True),
        ("[rank1]: ValueError: the batch is empty", False),  # it may have been handled
    ],
)
def test_what_surely_ended_a_job_comes_behind_what_its_traces_show(
    line: str, is_told: bool, tmp_path: Path
) -> None:
    write_planted(tmp_path / "job", JobSpec(dp=2, steps=2, micro_batches=2, layers=1))
    (tmp_path / "job" / "slurm-12.out").write_text(f"{line}\n", encoding="utf-8")
    job = open_job(tmp_path / "job", cache_dir=tmp_path / "cache", jobs=1)
    kinds = [one.kind for one in answer_of(View(job)).findings]

    assert kinds.count("failure") == is_told
    assert len(kinds) > 1
    assert kinds[0] != "failure"
