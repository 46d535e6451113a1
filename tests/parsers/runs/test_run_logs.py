"""Training logs, step logs, and the bounded reading of both."""

from __future__ import annotations

import gzip
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ccltui.parsers.errors import TraceError
from ccltui.parsers.runs.run_records import read_step_log
from ccltui.parsers.runs.training_log import TrainingLog, run_end, training_log_of
from ccltui.parsers.text.file_sample import BoundedText, read_bounded

TITAN = """\
[rank0]:[titan] 2025-06-04 08:51:40,000 - root - INFO - Training starts at step 1, total steps 80
[rank0]:[titan] 2025-06-04 08:51:48,000 - root - INFO - step:  1  loss: 12.2254  memory: \
27.34GiB(28.78%)  tps: 375  tflops: 21.73  mfu: 2.20%
[rank1]:[titan] 2025-06-04 08:51:48,100 - root - INFO - step:  1  loss: 99.0  tps: 1
[rank0]:[titan] 2025-06-04 08:51:57,000 - root - INFO - \x1b[31mstep: 10  loss: 10.7069\x1b[0m  \
grad_norm:  8.27  memory: 30.99GiB(32.62%)  tps: 7,034  tflops: 407.35  mfu: 41.19%
[rank0]:[titan] 2025-06-04 08:51:58,000 - root - INFO - validate step: 10  loss: 12.4  tps: 74,600
"""
MEGATRON = """\
using world size: 16, data-parallel size: 4
 [2026-01-16 07:32:24] iteration        5/     100 | consumed samples:        10240 | elapsed time \
per iteration (ms): 15800.0 | throughput per GPU (TFLOP/s/GPU): 490.0 | global batch size:  2048 | \
lm loss: 1.344240E+01 | loss scale: 1.0 | grad norm: 2.870 |
 [2026-01-16 07:32:40] iteration        6/     100 | consumed samples: 12288 | elapsed time per \
iteration (ms): 13100.0/13240.9 | tokens per GPU (tokens/s/GPU): 10005.5/9903.7 | lm loss: \
4.142716E-03 | loss scale: 1.0 |
"""


def read(text: str, tail: str = "") -> TrainingLog:
    return training_log_of(BoundedText(text, tail, 0))


def test_torchtitan_as_its_first_rank_tells_it() -> None:
    log = read(TITAN)

    assert (log.dialect, log.total_steps, log.step.tolist()) == ("torchtitan", 80, [1, 10])
    assert log.loss.tolist() == [12.2254, 10.7069]
    assert log.tokens_per_s_per_device.tolist() == [375.0, 7034.0]
    assert log.tflops_per_device.tolist() == [21.73, 407.35]
    assert log.memory_gib.tolist() == [27.34, 30.99]
    assert math.isnan(log.time_s[0])
    assert log.time_s[1] == pytest.approx(1.0)  # 9 s between the lines, 9 steps


def test_megatron() -> None:
    log = read(MEGATRON)

    assert (log.dialect, log.world_size, log.total_steps) == ("megatron", 16, 100)
    assert log.step.tolist() == [5, 6]
    assert log.time_s.tolist() == [15.8, 13.1]
    np.testing.assert_array_equal(log.loss, [13.4424, 4.142716e-03])
    np.testing.assert_array_equal(log.tokens_per_s_per_device, [math.nan, 10005.5])
    np.testing.assert_array_equal(log.global_batch, [2048.0, math.nan])


def test_epochs_of_a_plain_program() -> None:
    log = read(
        "[Rank 0] Epoch 1 finished. Avg Loss: 8.2418, Time: 82.00s, Throughput: 29971.23 tokens/sec"
    )

    assert (log.dialect, log.loss.tolist()) == ("plain", [8.2418])
    assert log.tokens_per_s.tolist() == [29971.23]


@pytest.mark.parametrize(
    ("line", "size"),
    [
        ("using world size: 16, data-parallel size: 2", 16),
        ("  world_size ...................... 8", 8),
        ("WORLD_SIZE=4", 4),
        ("train: 10,944 parameters on 2 ranks, cpu", 2),
        (
            "Building device mesh with parallelism: pp=2, dp_replicate=1, dp_shard=4, cp=1, tp=2, "
            "ep=4, etp=1",
            16,
        ),
        ("Building 2-D device mesh with ['dp_shard', 'tp'], [4, 2]", 8),
        ("Building device mesh with parallelism: pp=1, dp_shard=-1, tp=0", None),
        ("Building 1-D device mesh with ['dp_shard'], [0]", None),
        ("trained on many ranks", None),
    ],
)
def test_the_number_of_ranks_that_a_log_states(line: str, size: int | None) -> None:
    assert read(f"[rank0]:[titan] INFO - {line}\n{TITAN}").world_size == size


def test_a_job_that_went_back_keeps_the_later_word() -> None:
    lines = [f"step: {step}  loss: {loss}\n" for step, loss in ((1, 9), (2, 8), (3, 7), (2, 6))]

    log = read("".join(lines))

    assert log.step.tolist() == [1, 2, 3]
    assert log.loss.tolist() == [9.0, 6.0, 7.0]
    assert [note.code for note in log.notes] == ["restarted"]


def test_losses_that_are_no_numbers_are_missing() -> None:
    log = read("step: 1  loss: nan  tps: 1\nstep: 2  loss: 1,234.5  tps: 2\n")

    np.testing.assert_array_equal(log.loss, [math.nan, 1234.5])


@pytest.mark.parametrize(
    ("text", "kind", "words"),
    [
        ("[titan] INFO - Training completed\n", "completed", "Training completed"),
        ("[after training is done] datetime: 2026\n", "completed", "after training"),
        ("[Rank 0] RUN_COMPLETE world_size=2\n", "completed", "RUN_COMPLETE"),
        (
            "slurmstepd: error: *** JOB 5 ON n1 CANCELLED AT 2026-01-01T00:00:00 "
            "DUE TO TIME LIMIT ***\n",
            "killed",
            "time limit",
        ),
        (
            "slurmstepd: error: *** STEP 5.0 ON n1 CANCELLED AT 2026 ***\n",
            "killed",
            "cancelled",
        ),
        (
            "Root Cause:\n exitcode  : -9 (pid: 12)\n traceback : Signal 9 (SIGKILL) received\n",
            "killed",
            "a signal",
        ),
        ("torch.OutOfMemoryError: CUDA out of memory. Tried\n", "failed", "out of device memory"),
        ("Watchdog caught collective operation timeout: Work\n", "failed", "watchdog of NCCL"),
        ("Traceback (most recent call last):\nValueError: no\n", "failed", "ValueError: no"),
        ("step 1\n", "", ""),
        # what happens while a finished program is torn down does not undo it
        ("Training completed\nRuntimeError: atexit\n", "completed", "Training completed"),
        ("Training completed\nslurmstepd: error: x CANCELLED y\n", "killed", "cancelled"),
    ],
)
def test_how_a_run_ended(text: str, kind: str, words: str) -> None:
    end = run_end("noise\n" + text)

    assert end.kind == kind
    assert words in end.text


def test_the_end_is_shown_without_escapes_and_short() -> None:
    end = run_end("CUDA out of memory: \x1b[31m" + "y" * 500)

    assert end.text.startswith("out of device memory: CUDA out of memory: \\x1b[31myyy")
    assert len(end.text) < 220


def test_a_gigabyte_costs_its_two_ends(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    first = b"step: 1  loss: 9.5\n" + b"noise " * 3_000_000  # longer than what is read of it
    with path.open("wb") as file:
        file.write(first)
        file.seek(1_000_000_000)  # a hole: nothing is stored, and nothing of it may be read
        file.write(b"\nstep: 80  loss: 2.5\nTraining completed\n")

    text = read_bounded(path, shown="train.log")
    log = training_log_of(text)

    assert text.left_out > 930_000_000  # of 10^9
    assert (log.step.tolist(), log.loss.tolist()) == ([1, 80], [9.5, 2.5])
    assert log.end.kind == "completed"


def test_a_long_log_is_read_at_both_ends(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    lines = [f"step: {step}  loss: {step}.5\n" for step in range(1, 3001)]
    path.write_text("".join(lines))

    text = read_bounded(path, shown="train.log", head_bytes=500, tail_bytes=1000)
    log = training_log_of(text)

    assert text.left_out > 40_000
    assert text.head.endswith("\n")
    assert text.tail.startswith("step: ")
    assert (log.step[0], log.step[-1]) == (1, 3000)
    assert "in the middle are not read" in log.notes[0].message


def test_a_compressed_log_is_the_same(tmp_path: Path) -> None:
    plain, packed = tmp_path / "a.log", tmp_path / "a.log.gz"
    data = "".join(f"step: {step}  loss: 1.5\n" for step in range(2000)).encode()
    plain.write_bytes(data)
    packed.write_bytes(gzip.compress(data))

    one, two = (
        read_bounded(path, shown="a", head_bytes=700, tail_bytes=900) for path in (plain, packed)
    )

    assert (one.head, one.tail, one.left_out) == (two.head, two.tail, two.left_out)


@settings(max_examples=60)
@given(st.binary(max_size=400), st.integers(1, 200), st.integers(1, 200))
def test_what_is_read_is_what_is_there(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, head: int, tail: int
) -> None:
    path = tmp_path_factory.mktemp("text") / "x"
    path.write_bytes(b"#" + data.replace(b"\0", b"0"))

    text = read_bounded(path, shown="x", head_bytes=head, tail_bytes=tail)

    whole = path.read_bytes().decode("utf-8", "replace")
    if not text.notes:
        assert text.head == whole
        assert text.tail == ""
    else:
        assert len(text.head.encode()) + len(text.tail.encode()) <= 3 * (head + tail)


def test_binary_data_is_no_log(tmp_path: Path) -> None:
    path = tmp_path / "train.log"
    path.write_bytes(b"ab\0cd")

    with pytest.raises(TraceError, match=r"train\.log at byte 2: binary data, not a text"):
        read_bounded(path, shown="train.log")
    with pytest.raises(TraceError, match="absent: cannot be read: No such file"):
        read_bounded(tmp_path / "absent", shown="absent")


def test_steps_as_far_as_the_run_came(tmp_path: Path) -> None:
    path = tmp_path / "training_steps.jsonl"
    path.write_text(
        '{"step": 1, "loss": 10.5, "step_time_sec": 0.05, "tokens": 8192}\n'
        '{"step": 1, "loss": 9.0, "phase": "val"}\n'
        '{"step": 2, "loss": null, "step_time_sec": 0.06, "optimizer_step": true}\n'
        '{"step": 3, "lo'
    )

    log = read_step_log(path, shown="training_steps.jsonl")

    assert log.step.tolist() == [1, 2]
    np.testing.assert_array_equal(log.loss, [10.5, math.nan])
    assert log.time_s.tolist() == [0.05, 0.06]
    assert log.tokens.tolist() == [8192, -1]
    assert log.optimizer_step.tolist() == [-1, 1]
    assert [note.message for note in log.notes] == ["line 4 is cut off and left out"]


def test_lines_that_cannot_be_used_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_text('{"step": 1}\nnot json\n[]\n{"loss": 1}\n{"step": 2}\n')

    log = read_step_log(path, shown="s.jsonl")

    assert log.step.tolist() == [1, 2]
    assert log.notes[0].message.startswith("line 2 and 2 more cannot be used: ")
    assert log.notes[0].count == 3
