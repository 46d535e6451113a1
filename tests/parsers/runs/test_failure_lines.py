"""Lines that say why a job ended, as programs, launchers, NCCL, Slurm and the kernel print them."""

from __future__ import annotations

import pytest

from ccltui.parsers.runs.failure_lines import CAUSES, failures_in

ELASTIC = """\
E0102 03:04:05.000000 77 torch/distributed/elastic/api.py:869] failed (exitcode: -9) local_rank: 6 (pid: 81) of binary: /usr/bin/python
Root Cause (first observed failure):
[0]:
  time      : 2026-01-02_03:04:05
  host      : node-a
  rank      : 14 (local_rank: 6)
  exitcode  : -9 (pid: 81)
  traceback : Signal 9 (SIGKILL) received by PID 81
"""  # noqa: E501


@pytest.mark.parametrize(
    ("line", "cause", "ranks", "what"),
    [
        ("[rank5]: torch.OutOfMemoryError: CUDA out of memory. Tried", "device_memory", (5,), ""),
        (
            "[rank3]:[E102 03:04:05.1 ProcessGroupNCCL.cpp:1] [PG ID 0 PG GUID 0 Rank 3] Process "
            "group watchdog thread terminated with exception: CUDA error: misaligned address",
            "device_error",
            (3,),
            "misaligned address",
        ),
        ("srun: error: n7: tasks 4-6,9: Out Of Memory", "host_memory", (4, 5, 6, 9), ""),
        (
            "[12.5] NVRM: Xid (PCI:0000:1b:00): 79, pid=12, name=python, GPU has fallen off",
            "device_lost",
            (),
            "GPU has fallen off",
        ),
        (
            "n1:10:11 [2] init.cc:9 NCCL WARN Duplicate GPU detected : rank 2 and rank 0 both on "
            "CUDA device 1b000",
            "same_device",
            (2, 0),
            "",
        ),
        (
            "n1:10:11 [2] bootstrap.cc:1 NCCL WARN Bootstrap Root : rank 2 of 4 ranks has already "
            "checked in",
            "same_rank",
            (2,),
            "",
        ),
        ("[rank1]: KeyError: 'lr'", "exception", (1,), "KeyError: 'lr'"),
        ("[rank1]: RuntimeError: NCCL aborted", "other_error", (1,), "RuntimeError"),
        (
            "[rank0]: RuntimeError: [gloo/pair.cc:1] Connection closed by peer [10.1.2.3]:99",
            "peer_gone",
            (0,),
            "",
        ),
        ("HorovodAllreduce_grad_7 [missing ranks: 2, 5]", "stalled", (2, 5), "HorovodAllreduce"),
        ("allreduce.w [ready ranks: 0, 1, 3]", "stalled", (2,), "allreduce.w"),
        ("mpirun noticed that process rank 3 with PID 4 on node n2 exited on signal 11", "signal",
         (3,), ""),
        ("slurmstepd: error: *** JOB 5 ON n1 CANCELLED AT 2026-01-01T00:00:00 DUE TO NODE FAILURE",
         "node_failure", (), ""),
    ],
)  # fmt: skip
def test_what_a_line_says(line: str, cause: str, ranks: tuple[int, ...], what: str) -> None:
    found = min(failures_in(f"before\n{line}\n"), key=lambda one: CAUSES[one.cause])

    assert (found.cause, found.ranks) == (cause, ranks)
    assert found.what.startswith(what)


def test_the_place_that_nccl_states() -> None:
    line = (
        "gpu-b:10:11 [4] ib.c:1 NCCL WARN NET/IB : Got completion from peer 10.0.0.7<51> with "
        "status=12 opcode=0 len=0 vendor err 129 (Recv)"
    )

    (found,) = failures_in(line)

    assert (found.host, found.device, found.peer) == ("gpu-b", "4", "10.0.0.7")
    assert found.numbers == {"status": 12}


def test_the_process_that_a_launcher_names() -> None:
    found = failures_in(ELASTIC)

    assert {one.cause for one in found} == {"signal"}
    assert [one.ranks for one in found if one.ranks] == [(14,)]
    assert found[0].local_rank == 6


@pytest.mark.parametrize(
    "line",
    [
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ",
        "exitcode  : -15 (pid: 9)",
        "NVRM: Xid (PCI:0000:1b:00): 43, pid=12, Ch 00000008",
        "WARNING: set X to avoid ValueError: bad",
        "see the page on CUDA errors",
        "n1:1:1 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB",
    ],
)
def test_lines_that_do_not_say_why(line: str) -> None:
    assert failures_in(f"{line}\n") == []


def test_tasks_of_srun_are_hosts_where_a_launcher_starts_the_ranks() -> None:
    line = "srun: error: n7: task 3: Exited with exit code 1\n"

    assert failures_in(line)[0].ranks == (3,)
    (found,) = failures_in(f"torch.distributed.elastic.api.Closed\n{line}")
    assert (found.cause, found.ranks, found.host) == ("exit_code", (), "n7")


def test_the_launcher_names_who_aborted_first() -> None:
    text = ELASTIC.replace("-9", "-6").replace("Signal 9 (SIGKILL)", "Signal 6 (SIGABRT)")

    assert [one.ranks for one in failures_in(text) if one.ranks] == [(14,)]
    assert {one.numbers["signal"] for one in failures_in(text)} == {6}


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("Call to ibv_create_cq failed with error Cannot allocate memory", "warning"),
        ("Error while creating shared memory segment /dev/shm/nccl-x (size 9)", "disk"),
        ('Missing "iommu=pt" from kernel command line which can lead to failure', ""),
        ("Failed to open libibverbs.so[.1]", ""),
    ],
)
def test_warnings_of_nccl(text: str, cause: str) -> None:
    found = failures_in(f"n1:10:11 [2] x.cc:1 NCCL WARN {text}\n")
    first = min(found, key=lambda one: CAUSES[one.cause], default=None)

    assert (first and (first.cause, first.host)) == ((cause, "n1") if cause else None)


STEPS = "".join(f"step: {step}  loss: 1.5\n" for step in range(3))


def test_a_job_that_goes_on_or_is_done_has_not_failed() -> None:
    error = "ValueError: bad shard\n"

    assert failures_in(error + STEPS) == []
    assert failures_in(f"{error}Training completed\n") == []
    assert failures_in(f"Training completed\n{error}") == []
    assert [one.cause for one in failures_in(STEPS + error)] == ["exception"]


def test_counts_at_the_start_of_a_group() -> None:
    (found,) = failures_in(
        "RuntimeError: Timed out initializing process group in store based barrier on rank: 5, for "
        "key: store_based_barrier_key:2 (world_size=8, worker_count=6, timeout=0:30:00)\n"
    )

    assert (found.cause, found.ranks, found.limit) == ("start", (5,), "0:30:00")
    assert (found.numbers["world"], found.numbers["count"]) == (8, 6)
