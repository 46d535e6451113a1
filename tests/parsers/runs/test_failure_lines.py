"""Lines that say why a job ended, as programs, launchers, NCCL, Slurm and the kernel print them."""

from __future__ import annotations

import time

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
        "NVRM: Xid (PCI:0000:1b:00): 63, pid=12, Row Remapper: New row marked for remapping",
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


@pytest.mark.parametrize(
    "lines",
    [
        [f'{{"step": {step}, "loss": 1.5}}' for step in range(3)],
        [f"{{'loss': 1.5, 'grad_norm': 2.0, 'epoch': 0.{step}}}" for step in range(3)],
        [f"Epoch: [0][{step}/90] Time 0.5 (0.5) Loss 1.5e+00" for step in range(3)],
        [f"Epoch 0:  1%|# | {step}/90 [00:09<00:10, 9.5it/s, train_loss=1.5]" for step in range(3)],
        [f"step {step} | tokens/s 100" for step in range(3)],
        ["Avg prompt throughput: 100.0 tokens/s"] * 3,
    ],
)
def test_forms_of_steps_by_which_a_job_goes_on(lines: list[str]) -> None:
    error = "ValueError: bad shard\n"
    steps = "\n".join(lines)

    assert failures_in(f"{error}{steps}\n") == []
    assert failures_in(f"{steps}\n{error}") != []


def test_a_step_that_other_ranks_print_is_no_progress() -> None:
    others = "".join(f"[rank{rank}]: step: 7  loss: 1.5\n" for rank in range(8))

    (found,) = failures_in(f"[rank9]: ValueError: bad shard\n{others}")

    assert found.ranks == (9,)


@pytest.mark.parametrize(
    "text",
    [
        "ConnectionError: pool is empty: retrying in 5 s",
        "ValueError: bad record 17, skipped",
        "torch.OutOfMemoryError: CUDA out of memory.\nran out of memory, skipping the batch",
        "ModuleNotFoundError: No module named 'apex'\nfalling back to AdamW",
        "ValidationError: 0",
        "srun: error: n1: task 3: Exited with exit code 0",
        "exitcode: -0) local_rank: 1",
        "Exception ignored in: <function f at 0x7f>\nTraceback (most recent call last):\n"
        '  File "a.py", line 1\nTypeError: object is not callable',
        "[W socket.cpp:426] [c10d] The server socket has failed to bind to [::]:9 (errno: 98 - "
        "Address already in use).",
        "n1:10:11 [0] x.cc:4 NCCL WARN Connect to 10.0.0.1<9> failed : Connection refused\n"
        "n1:10:12 [0] NCCL INFO comm 0x1 rank 0 nranks 8 - Init COMPLETE",
        "n1:10:11 [0] x.cc:4 NCCL WARN Could not open /sys/x\n"
        "n1:10:12 [0] NCCL INFO comm 0x1 rank 0 nranks 8 - Init COMPLETE",
        "waiting for clients. 0/0 clients joined",
        "ValueError: bad\n[agent] worker group successfully finished. Waiting for other agents",
    ],
)
def test_errors_after_which_a_program_goes_on(text: str) -> None:
    assert failures_in(f"{text}\n") == []


def test_a_process_of_nccl_that_did_not_connect_has_failed() -> None:
    found, *_ = failures_in(
        "n1:10:11 [0] x.cc:4 NCCL WARN Connect to 10.0.0.1<9> failed : Connection refused\n"
        "n1:20:21 [1] NCCL INFO comm 0x1 rank 1 nranks 8 - Init COMPLETE\n"
    )

    assert (found.cause, found.device) == ("warning", "0")


def test_another_process_does_not_say_that_this_one_goes_on() -> None:
    text = "[rank3]: ValueError: bad\n[rank4]: ignoring the option --x\n"

    assert [one.ranks for one in failures_in(text)] == [(3,)]


def test_the_last_words_of_a_script_do_not_undo_an_exit_code() -> None:
    text = "ValueError: bad\nsrun: error: n1: task 3: Exited with exit code 1\n"

    assert {one.cause for one in failures_in(f"{text}Training completed\n")} == {
        "exception",
        "exit_code",
    }


def test_training_of_an_epoch_that_is_complete_is_not_the_end() -> None:
    error = "ValueError: bad shard\n"

    assert failures_in(f"Epoch 1: training completed in 9 s\n{error}") != []
    assert failures_in(f"Training completed\n{STEPS}{error}") != []


def test_many_handled_errors_do_not_hide_the_last() -> None:
    text = "reading\nValueError: bad record, skipped\n" * 3000

    assert [one.what for one in failures_in(f"{text}KeyError: 'lr'\n")] == ["KeyError: 'lr'"]


def test_ranks_behind_a_launcher_are_not_the_tasks_of_srun() -> None:
    text = "".join(f"{task}: torchrun --nnodes 4\n" for task in range(4))

    (found,) = failures_in(f"{text}2: RuntimeError: bad\n")
    (killed,) = failures_in(
        "srun: error: n3: task 2: Out Of Memory\n", head="accelerate launch a.py\n"
    )

    assert (found.ranks, killed.ranks, killed.host) == ((), (), "n3")


def test_tasks_of_a_large_job_are_all_named_and_no_absurd_range() -> None:
    (large,) = failures_in("srun: error: n1: tasks 0-4095: Out Of Memory\n")
    (absurd,) = failures_in("srun: error: n1: tasks 0-99999999: Out Of Memory\n")

    assert (len(large.ranks), absurd.ranks) == (4096, ())


@pytest.mark.parametrize("piece", ["step 1 ", "{'loss': 1 ", "loss ", "Epoch 1 | [00:00 "])
def test_a_long_line_takes_a_time_in_proportion_to_its_length(piece: str) -> None:
    began = time.process_time()

    assert failures_in(piece * 200_000) == []
    assert time.process_time() - began < 5  # 0.2 s; more than a minute where each piece is read on


def stack(error: str, prefix: str = "") -> str:
    lines = ["Traceback (most recent call last):", '  File "a.py", line 3, in f', "    g()", error]
    return "".join(f"{prefix}{line}\n" for line in lines)


@pytest.mark.parametrize(
    "error",
    [
        "ValueError: all records were skipped",
        "RuntimeError: bad, and the option is ignored",
        "AssertionError",
        "NotImplementedError",
    ],
)
def test_what_ends_a_stack(error: str) -> None:
    (found,) = failures_in(stack(error, "[rank2]: "))

    assert (found.cause, found.what, found.ranks) == ("exception", error, (2,))


def test_the_name_of_an_error_without_a_stack_is_a_word() -> None:
    assert failures_in("what it may raise:\nKeyError\n") == []


def test_a_connection_that_is_tried_until_the_end_is_not_there() -> None:
    line = "n1:1:2 [0] NCCL INFO Call to connect returned Connection refused, retrying\n"

    assert {one.cause for one in failures_in(line * 5)} == {"connect"}


@pytest.mark.parametrize("said", ["Training finished with errors", "Training complete? no"])
def test_an_end_that_is_no_success(said: str) -> None:
    assert failures_in(f"{stack('ValueError: bad')}{said}\n") != []


@pytest.mark.parametrize("ranks", ["0, 99999999999", "9" * 4000, "0, 16385"])
def test_ranks_that_no_job_has_are_not_counted_up_to(ranks: str) -> None:
    """Who is missing is inferred from who is ready: one number must not fill the memory."""
    (found,) = failures_in(f"grad [ready ranks: {ranks}]\n")

    assert (found.cause, found.ranks) == ("stalled", ())


def test_the_missing_of_ready_ranks_are_inferred() -> None:
    (found,) = failures_in("grad [ready ranks: 0, 3, 1]\n")

    assert (found.ranks, found.is_inferred) == ((2,), True)
