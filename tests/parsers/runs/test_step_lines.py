"""Step lines of NeMo, of the Trainer of Hugging Face, of MLPerf and of Megatron Bridge."""

from __future__ import annotations

import json
import math
import tracemalloc

import numpy as np
import pytest

from ccltui.parsers.runs.training_log import TrainingLog, training_log_of
from ccltui.parsers.text.file_sample import BoundedText

# As the programs print them, from their documentation and from logs in public repositories.
NEMO = """\
0: Training epoch 0, iteration 28/99 | lr: 5.6e-06 | global_batch_size: 32 | global_step: 28 | \
reduced_train_loss: 2.778 | train_step_timing in s: 0.189 | consumed_samples: 928 | val_loss: 2.861
 0: Training epoch 0, iteration 29/99 | lr: 5.8e-06 | global_batch_size: 32 | global_step: 29 | \
reduced_train_loss: 2.782 | train_step_timing in s: 0.1903 | consumed_samples: 960
 1: Training epoch 0, iteration 29/99 | lr: 5.8e-06 | global_batch_size: 32 | global_step: 29 | \
reduced_train_loss: 9.9 | train_step_timing in s: 9.9 | consumed_samples: 960
 0: Training epoch 0, iteration 39/99 | global_batch_size: 32 | global_step: 39 | \
reduced_train_loss: 2.709 | train_step_timing in s: 0.1915 | TFLOPS_per_GPU: 1.249e+03 | \
tokens_per_sec_per_gpu: 6.859e+03
 0: `Trainer.fit` stopped: `max_steps=40` reached.
"""
NEMO_BAR = (
    "[NeMo I 2024-06-17 08:36:41 nlp_overrides:480] start\n"
    "\rEpoch 0: :   0%|          | 1999/603000 [1:03:15<317:00:58, v_num=, "
    "reduced_train_loss=2.610, global_step=2e+3, consumed_samples=1.28e+6, "
    "train_step_timing in s=1.910]"
    "\rEpoch 0: :   0%|          | 2000/603000 [1:03:17<317:00:58, v_num=, "
    "reduced_train_loss=2.600, global_step=2e+3, consumed_samples=1.28e+6, "
    "train_step_timing in s=1.900, val_loss=2.800]\n"
)
TRAINER = """\
{'loss': 0.3818, 'grad_norm': 0.1455276608467102, 'learning_rate': 0.0, 'epoch': 0.99, 'step': 9900}
{'loss': 0.3718, 'grad_norm': nan, 'learning_rate': 0.0, 'epoch': 1.0, 'step': 10000}
{'eval_loss': 0.3461727797985077, 'eval_runtime': 9.144, 'epoch': 1.0, 'step': 10000}
{'train_runtime': 8754.1218, 'train_samples_per_second': 36.554, 'train_steps_per_second': 1.142, \
'train_loss': 0.381712345678901, 'epoch': 1.0, 'step': 10000}
"""
TRAINER_5 = """\
{'loss': '3.41', 'grad_norm': '5.312', 'learning_rate': '0.0002', 'epoch': '1'}
{'loss': '2.205', 'grad_norm': '2.641', 'learning_rate': '0.0001333', 'epoch': '2'}
{'loss': '1.765', 'grad_norm': '2.112', 'learning_rate': '6.667e-05', 'epoch': '3'}
{'train_runtime': '36.27', 'train_samples_per_second': '0.414', 'train_loss': '2.46', 'epoch': '3'}
"""
BRIDGE = """\
ain_fp8_mx/0 Step Time : 9.09s GPU utilization: 663.5MODEL_TFLOP/s/GPU

ain_fp8_mx/0  [2025-12-22 15:18:33] iteration       40/      50 | consumed samples:        20480 | \
elapsed time per iteration (ms): 9089.0 | global batch size:   512 | lm loss: 8.114214E+00 |

ain_fp8_mx/0 Step Time : 9.01s GPU utilization: 669.4MODEL_TFLOP/s/GPU

ain_fp8_mx/0  [2025-12-22 15:20:03] iteration       50/      50 | consumed samples:        25600 | \
elapsed time per iteration (ms): 9010.0 | global batch size:   512 | lm loss: 8.014214E+00 |
"""


def logged(time_ms: int, key: str, value: object, **metadata: object) -> str:
    """Return one record as mlperf_logging prints it."""
    record = {
        "namespace": "",
        "time_ms": time_ms,
        "event_type": "POINT_IN_TIME",
        "key": key,
        "value": value,
        "metadata": {"file": "/workspace/ft-llm/custom_callbacks.py", "lineno": 129, **metadata},
    }
    return f"0: :::MLLOG {json.dumps(record)}\n"


MLPERF = (
    logged(1721026000000, "submission_benchmark", "llama2_70b_lora")
    + logged(1721026000000, "global_batch_size", 8)
    + logged(1721026000000, "run_start", None)
    + logged(1721026000000, "block_start", None, samples_count=0)
    + logged(
        1721026192000, "tracked_stats", {"throughput": 2.0, "reduced_train_loss": 1.5}, step=384
    )
    + logged(1721026192000, "block_stop", None, samples_count=384)
    + logged(1721026192000, "eval_start", None, samples_count=384)
    + logged(1721026212000, "eval_stop", None, samples_count=384)
    + logged(1721026212000, "block_start", None, samples_count=384)
    + logged(1721026452000, "block_stop", None, samples_count=768)
    + logged(1721026452000, "run_stop", None, samples_count=768, status="success")
)


def bars(steps: int, each_s: int) -> str:
    """Return a log of the Trainer with its progress bar, a line every ten steps."""
    pieces = ["***** Running training *****\n"]
    for step in range(1, steps + 1):
        at_s = step * each_s
        clock = f"{at_s // 3600}:{at_s // 60 % 60:02}:{at_s % 60:02}" if at_s >= 3600 else (
            f"{at_s // 60:02}:{at_s % 60:02}"
        )  # fmt: skip
        pieces.append(f"\r {step}%|▏      | {step}/{steps} [{clock}<9:59:59,  {each_s}.00s/it]")
        if step % 10 == 0:
            pieces.append(f"\r     \r{{'loss': {5 - step / 1000:.4f}, 'epoch': 0.08}}\n")
            pieces.append("\r 1%| | 1/9 [00:01<00:08, 1.0it/s]" if step == steps else "")
    return "".join(pieces)


def read(text: str, tail: str = "") -> TrainingLog:
    return training_log_of(BoundedText(text, tail, 0))


def test_nemo_states_the_time_of_each_step() -> None:
    log = read(NEMO)

    assert (log.dialect, log.step.tolist(), log.total_steps) == ("nemo", [28, 29, 39], 99)
    np.testing.assert_allclose(log.time_s, [0.189, 0.1903, 0.1915])
    assert log.loss.tolist() == [2.778, 2.782, 2.709]
    assert log.global_batch.tolist() == [32.0, 32.0, 32.0]
    assert (log.tflops_per_device[2], log.tokens_per_s_per_device[2]) == (1249.0, 6859.0)
    assert log.steps_per_line == 1  # whatever number of steps lies between two lines
    assert log.end.kind == "completed"


def test_the_bar_of_nemo_states_the_step_that_its_numbers_round() -> None:
    log = read(NEMO_BAR)

    assert (log.dialect, log.step.tolist(), log.total_steps) == ("nemo", [1999, 2000], 603000)
    np.testing.assert_allclose(log.time_s, [1.91, 1.9])
    assert log.loss.tolist() == [2.61, 2.6]


def test_the_trainer_with_the_step_in_its_lines() -> None:
    log = read(TRAINER)

    assert (log.dialect, log.step.tolist()) == ("huggingface", [9900, 10000])
    assert log.loss.tolist() == [0.3818, 0.3718]
    assert log.mean_step_s == pytest.approx(0.87541218)  # the seconds over the steps, not 1 / 1.142
    assert log.mean_samples_per_s == 36.554
    assert not np.isfinite(log.time_s).any()
    assert (log.end.kind, log.notes) == ("completed", ())


def test_the_trainer_that_prints_numbers_as_texts() -> None:
    log = read(TRAINER_5)

    assert (log.dialect, log.loss.tolist()) == ("huggingface", [3.41, 2.205, 1.765])
    assert (log.mean_step_s, log.mean_samples_per_s) == (None, 0.414)
    assert [note.code for note in log.notes] == ["counted_lines"]


def test_the_bar_of_the_trainer_states_steps_and_times() -> None:
    log = read(bars(600, 7))

    assert (log.dialect, log.total_steps) == ("huggingface", 600)
    assert log.step.tolist() == list(range(10, 601, 10))
    assert log.steps_per_line == 10
    np.testing.assert_allclose(log.time_s[1:], 7.0)
    assert (math.isnan(log.time_s[0]), log.notes) == (True, ())


def test_a_bar_of_whole_seconds_is_used_over_twenty() -> None:
    log = read(bars(200, 1))
    known = log.time_s[np.isfinite(log.time_s)]

    assert log.steps_per_line == 20
    assert known.tolist() == [1.0] * 9
    assert len(log) == 20


def state(*, last: int = 60, planned: int = 60, first: int = 0, step_s: float = 20.0) -> str:
    """Return what the Trainer saves: a loss every 20 steps, and the whole run at the end.

    Steps up to ``first`` were made before it was resumed.
    """
    history: list[dict[str, float]] = [
        {"epoch": step / 60, "grad_norm": 0.5, "loss": 4 - step / 20, "step": step}
        for step in range(20, last + 1, 20)
    ]
    made = sum(20 * entry["loss"] for entry in history if entry["step"] > first)
    history.append({"epoch": 1.0, "eval_loss": 1.5, "eval_runtime": 3.0, "step": last})
    seconds = (last - first) * step_s
    whole = {"train_loss": made / last, "train_runtime": seconds,
             "train_samples_per_second": round(planned * 32 / seconds, 3),
             "train_steps_per_second": round(planned / seconds, 3)}  # fmt: skip
    history.append({"epoch": 1.0, "step": last, "total_flos": 1e15, **whole})
    callbacks = {"TrainerControl": {"args": {"should_log": False}}}
    document = {"global_step": last, "log_history": history, "max_steps": planned,
                "stateful_callbacks": callbacks, "trial_params": None}  # fmt: skip
    return json.dumps(document, indent=2)


def test_what_the_trainer_saves_of_a_run() -> None:
    log = read(state())

    assert (log.dialect, log.step.tolist(), log.total_steps) == ("trainer_state", [20, 40, 60], 60)
    assert log.loss.tolist() == [3.0, 2.0, 1.0]
    assert (log.mean_step_s, log.mean_samples_per_s) == (20.0, 1.6)
    assert log.end.kind == "completed"


def test_a_run_that_stopped_early_is_timed_by_the_steps_that_it_made() -> None:
    log = read(state(planned=600, step_s=1.0))

    assert (log.total_steps, log.mean_step_s, log.mean_samples_per_s) == (600, 1.0, 32.0)


def test_a_run_that_was_resumed_states_no_time_of_its_steps() -> None:
    """The Trainer counts steps that were made before, and the losses that were not."""
    log = read(state(first=20))

    assert log.step.tolist() == [20, 40, 60]
    assert (log.mean_step_s, log.mean_samples_per_s) == (None, None)


def test_a_low_rate_says_too_little_of_the_steps() -> None:
    """0.003 steps a second may be 0.0026 or 0.0034: the samples may be of other steps."""
    line = "{'loss': 2.0, 'epoch': 1.0, 'step': %d}\n{'train_runtime': 300000.0, " \
        "'train_samples_per_second': 0.5, 'train_steps_per_second': %s, 'train_loss': 2.0, " \
        "'step': %d}\n"  # fmt: skip

    low, other, high = (
        read(line % (step, rate, step))
        for step, rate in ((1000, 0.003), (30_000, 0.107), (30_000, 0.1))
    )

    assert (low.mean_step_s, low.mean_samples_per_s) == (300.0, None)
    assert (other.mean_step_s, other.mean_samples_per_s) == (10.0, None)
    assert (high.mean_step_s, high.mean_samples_per_s) == (10.0, 0.5)


def test_numbers_of_a_saved_state_that_are_not_finite() -> None:
    history = [{"loss": 2.0, "step": 10}, {"grad_norm": math.nan, "loss": 1.5, "step": 20},
               {"grad_norm": -math.inf, "loss": math.nan, "step": 30}]  # fmt: skip

    log = read(json.dumps({"log_history": history, "max_steps": 30}))

    assert log.step.tolist() == [10, 20, 30]
    np.testing.assert_array_equal(log.loss, [2.0, 1.5, math.nan])
    assert [note.code for note in log.notes] == ["loss_not_finite"]


def test_a_saved_state_is_read_to_its_end_without_its_middle() -> None:
    text = state()
    cut = text.index('"epoch": 0.66')
    begin = text.rindex("{", 0, cut)

    log = read(text[:begin], text[begin:])

    assert (log.step.tolist(), log.loss.tolist()) == ([20, 40, 60], [3.0, 2.0, 1.0])
    assert (log.total_steps, log.end.kind) == (60, "completed")


@pytest.mark.parametrize("indent", [None, 2])
def test_steps_behind_a_summary_are_of_training_that_goes_on(indent: int | None) -> None:
    def saved(last: int) -> str:
        history: list[dict[str, float]] = [{"loss": 2.0, "step": 10}]
        history.append({"step": 10, "train_loss": 2.0, "train_runtime": 9.0})
        history += [{"loss": 1.0, "step": step} for step in range(11, last + 1)]
        history.append({"eval_loss": 2.0, "step": last})
        return json.dumps({"log_history": history, "max_steps": 30}, indent=indent)

    assert read(saved(14)).end.kind == ""
    assert read(saved(11)).end.kind == ""
    assert read(saved(10)).end.kind == "completed"


def test_a_saved_state_that_is_cut_off() -> None:
    text = state()
    log = read(text[: text.index('"step": 60')])

    assert (log.step.tolist(), log.mean_step_s, log.end.kind) == ([20, 40], None, "")


def test_mlperf_has_blocks_between_evaluations() -> None:
    log = read(MLPERF)

    assert (log.dialect, log.step.tolist(), log.steps_per_line) == ("mlperf", [48, 96], 48)
    assert log.time_s.tolist() == [4.0, 5.0]
    assert log.samples_per_s.tolist() == [2.0, 1.6]
    np.testing.assert_array_equal(log.loss, [1.5, math.nan])
    assert (log.end.kind, log.end.text) == ("completed", "MLPerf's run_stop with status success")


def _rates(unit: int, *, of: int = 1, train_samples: int | None = None) -> str:
    """Log 1,000 samples a second each 20 s, in units of ``unit`` samples, rates times ``of``."""
    text = logged(1721026000000, "global_batch_size", 400) + logged(
        1721026000000, "run_start", None
    )
    if train_samples is not None:
        text += logged(1721026000000, "train_samples", train_samples)
    for number in (1, 2, 3):
        at = 1721026000000 + number * 20_000
        value = {"throughput": 1000.0 * of}
        text += logged(at, "tracked_stats", value, epoch_num=number * 20_000 // unit)
    return text


@pytest.mark.parametrize(("unit", "train_samples"), [(1, None), (5000, 5000)])
def test_rates_of_mlperf_between_evaluations(unit: int, train_samples: int | None) -> None:
    log = read(_rates(unit, train_samples=train_samples))

    assert (log.dialect, log.step.tolist()) == ("mlperf", [50, 100, 150])
    assert log.time_s.tolist() == [0.4] * 3
    assert log.samples_per_s.tolist() == [1000.0] * 3


def test_records_of_mlperf_without_counts_are_passed_over() -> None:
    lines = []
    for number, line in enumerate(_rates(1).splitlines(keepends=True)):
        at = 1721026000000 + number * 10_000
        lines += [line, logged(at, "tracked_stats", {"train_loss": 2.0})]

    assert read("".join(lines)).step.tolist() == [50, 100, 150]


def test_records_of_mlperf_are_not_kept() -> None:
    text = '0: :::MLLOG {"key": "x"}\n' * 20_000
    tracemalloc.start()
    try:
        assert len(read(text)) == 0
        assert tracemalloc.get_traced_memory()[1] < 6 * len(text)
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("text", [_rates(5000), _rates(1, of=2048)], ids=["epochs", "tokens"])
def test_rates_of_mlperf_of_something_else_are_not_used(text: str) -> None:
    assert len(read(text)) == 0


def test_a_run_of_mlperf_that_was_given_up() -> None:
    log = read(MLPERF.replace("success", "aborted"))

    assert (log.end.kind, log.end.text) == ("failed", "the run of MLPerf: its status is aborted")


def test_megatron_bridge_prints_means_and_the_rate_before_them() -> None:
    log = read(BRIDGE)

    assert (log.dialect, log.step.tolist(), log.total_steps) == ("megatron", [40, 50], 50)
    assert log.time_s.tolist() == [9.089, 9.01]
    assert log.tflops_per_device.tolist() == [663.5, 669.4]
    assert log.steps_per_line == 10


PREFIXES = (
    "",
    "12: ",
    "[1,3]<stdout>:",
    "2025-10-28T12:00:01.123456789Z ",
    "[pod/job-0/main] ",
    "trainer-1  | ",
    "[rank3]:",
    "[default3]:",
    "[2025-10-28 12:00:01,123] [INFO] ",
    "(Worker pid=12, ip=10.0.0.1) ",
    "llama3/0 ",
)


@pytest.mark.parametrize("prefix", PREFIXES)
@pytest.mark.parametrize(
    ("text", "dialect"),
    [
        (NEMO.replace(" 0: ", "").replace("0: ", "").replace(" 1: ", "[rank1]:"), "nemo"),
        (TRAINER, "huggingface"),
        (MLPERF.replace("0: :", ":"), "mlperf"),
        (BRIDGE.replace("ain_fp8_mx/0 ", ""), "megatron"),
    ],
    ids=["NeMo", "Trainer", "MLPerf", "Megatron Bridge"],
)
def test_behind_any_prefix_the_steps_are_the_same(prefix: str, text: str, dialect: str) -> None:
    plain = read(text)
    log = read("".join(prefix + line for line in text.splitlines(keepends=True)))

    assert (log.dialect, log.step.tolist()) == (dialect, plain.step.tolist())
    np.testing.assert_array_equal(log.loss, plain.loss)
    np.testing.assert_array_equal(log.samples_per_s, plain.samples_per_s)
    assert log.mean_step_s == plain.mean_step_s


HOSTILE = (
    "train_step_timing in s: 1.0\n",
    "global_step: 99999999999999999999999 | train_step_timing in s: 1e999\n",
    "global_step=inf, train_step_timing in s=nan]\n",
    "{'loss': }\n{'loss': 'x'}\n{'loss': 1\n",
    "{'loss': 1.0, 'step': -5}\n{'loss': 1.0, 'step': 1e400}\n",
    "| 1/0 [00:00<, x]\r{'loss': 1.0}\n" * 3,
    ":::MLLOG {}\n:::MLLOG {\"key\": []}\n:::MLLOG {bad}\n:::MLLOG {\"key\": \"block_stop\"}\n",
    logged(1, "global_batch_size", 0) + logged(1, "block_start", None, samples_count=1)
    + logged(0, "block_stop", None, samples_count=-1),
    logged(1, "global_batch_size", "8") + logged(1, "block_start", None, samples_count=True)
    + logged(9, "block_stop", None, samples_count=[1]),
    logged(1, "global_batch_size", 1e-300) + logged(1, "block_start", None, samples_count=0)
    + logged(9, "block_stop", None, samples_count=1e280),
    "GPU utilization: MODEL_TFLOP/s/GPU iteration 1/1 | elapsed time per iteration (ms): -\n",
)  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_lines_give_no_numbers_that_are_none(text: str) -> None:
    log = read(text)

    assert len(log.step) == len(log.time_s) == len(log.loss)
    assert not (log.time_s < 0).any()
    assert not np.isinf(log.time_s).any()
    assert (log.step >= 0).all()


@pytest.mark.parametrize(
    ("piece", "dialect"),
    [
        ("train_step_timing in s: 1 ", "none"),
        ("{'loss': 1, ", "none"),
        ("| 1/9 [00:00<", "none"),
        (":::MLLOG {", "none"),
        ("{'loss': 1}", "huggingface"),
        ("global_step: 1 | ", "none"),
        ("GPU utilization: 1 ", "none"),
    ],
)
def test_a_long_line_is_read_once(piece: str, dialect: str) -> None:
    """A pattern that began again at every character would take many minutes."""
    assert read(piece * (250_000 // len(piece))).dialect == dialect


def test_a_saved_state_without_an_end_is_read_once() -> None:
    """From each place of a key, the end would be looked for again: a second for 80 KB."""
    assert read('"log_history"' + ("{" + '"step":' * 1143) * 30).dialect == "none"


@pytest.mark.parametrize(
    ("text", "steps", "time_s", "data_ms"),
    [
        ("iter 7: loss 4.01, time 51.00ms, mfu 3.1%\niter 8: loss 4.00, time 52.00ms\n",
         [7, 8], [0.051, 0.052], []),
        ("step    3 | loss: 7.1 | lr 1e-5 | dt: 300.5ms | tok/sec: 15190.1\n", [3], [0.3005], []),
        ("Epoch: [1][ 20/100]\tTime  0.500 ( 0.52)\tData  0.200 ( 0.10)\tLoss 5.8 (6.1)\n",
         [120], [0.5], [200.0]),
        ("INFO - Epoch(train)  [2][  50/400]  eta: 1:00:00  time: 0.4530  data_time: 0.0132  "
         "loss: 3.2\n", [450], [0.453], [13.2]),
        ("x - iter: 19  total_loss: 2.5  time: 0.4100  data_time: 0.0100  lr: 0.1\n",
         [19], [0.41], [10.0]),
        ("ep 3 train, step 95, ctc 4.2, mem_usage:cuda:0 8.9GB, 0.750 sec/step\n",
         [95], [0.75], []),
    ],
    ids=["nanoGPT", "token rates", "torchvision", "mmengine", "detectron2", "time a step"],
)  # fmt: skip
def test_counted_lines(
    text: str, steps: list[int], time_s: list[float], data_ms: list[float]
) -> None:
    log = read(text)

    assert (log.dialect, log.step.tolist(), log.steps_per_line) == ("counted", steps, 1)
    np.testing.assert_allclose(log.time_s, time_s)
    np.testing.assert_allclose(log.data_ms[np.isfinite(log.data_ms)], data_ms)


def test_counted_lines_without_a_time_are_timed_by_their_stamps() -> None:
    log = read(
        "2026-01-02 00:00:00 | INFO | loss at epoch 1, step at 100, loss=3.5\n"
        "2026-01-02 00:01:40 | INFO | loss at epoch 1, step at 200, loss=3.4\n"
    )

    assert (log.dialect, log.steps_per_line) == ("counted", 100)
    assert log.time_s[1] == 1.0


def test_dlrm_counts_in_each_epoch_and_states_each_iteration() -> None:
    lines = [
        f"Finished training it {at}/300 of epoch {epoch}, {20 + epoch}.50 ms/it, loss 0.{at}, "
        "accuracy 78.000 %"
        for epoch in (0, 1)
        for at in (100, 200, 300)
    ]

    log = read("\n".join(lines) + "\n")

    assert log.step.tolist() == [100, 200, 300, 400, 500, 600]
    np.testing.assert_allclose(log.time_s, [0.0205] * 3 + [0.0215] * 3)
    assert log.loss.tolist() == [0.1, 0.2, 0.3] * 2


def test_the_loss_of_a_line_is_not_its_average() -> None:
    lines = [f"Iteration: {at}, Loss function: {9 - at}.5, Average Loss: 0.{at}" for at in (1, 2)]

    assert read("\n".join(lines) + "\n").loss.tolist() == [8.5, 7.5]


@pytest.mark.parametrize(
    ("text", "loss", "time_ms", "tokens_per_s"),
    [
        ("loss:2.31,350 ms/step", 2.31, 350.0, math.nan),
        ("loss:2.31,1,350 ms/step", 2.31, 1350.0, math.nan),
        ("loss:2,350 ms/step", 2350.0, 2350.0, math.nan),
        ("loss:2,35 ms/step", 2.0, 35.0, math.nan),
        ("loss=2.31,12345 tok/s", 2.31, math.nan, 12345.0),
        ("loss=2,12345 tok/s", 2.0, math.nan, 12345.0),
        ("loss=2.31, 12,345.5 tok/s, 9 s/step", 2.31, 9000.0, 12345.5),
        ("loss=2.31, tok/s: 12,345, 1e1 ms/it", 2.31, 10.0, 12345.0),
    ],
)
def test_commas_between_numbers_and_in_them(
    text: str, loss: float, time_ms: float, tokens_per_s: float
) -> None:
    log = read(f"step 5 {text}\n")

    assert log.loss.tolist() == [loss]
    np.testing.assert_allclose(log.time_s, [time_ms / 1e3])
    np.testing.assert_array_equal(log.tokens_per_s, [tokens_per_s])


@pytest.mark.parametrize("number", ["9", "9,", "9.", "9,999,", "9e"])
def test_a_number_of_thousands_of_digits_takes_no_time(number: str) -> None:
    digits = number * (4000 // len(number))

    log = read(f"step 5 loss: {digits} {digits} rate\nstep 6 loss: 2.5 40 ms/step\n")

    assert (log.step.tolist(), log.loss[1]) == ([5, 6], 2.5)


def test_fairseq_counts_in_each_epoch() -> None:
    lines = [
        f"2026-01-02 00:00:{at:02} | INFO | train_inner | epoch 002:   {at} / 100 loss=9.2, ups=0.9"
        for at in (10, 20)
    ]

    log = read("\n".join(lines) + "\n")

    assert (log.dialect, log.step.tolist(), log.time_s[1]) == ("counted", [110, 120], 1.0)


def test_bars_that_count_the_batches_of_an_epoch() -> None:
    log = read(
        "Loading shards: 50%|█ | 1/2 [00:01<00:01, 1.0s/it]\r"
        "Epoch 1:  17%|█▋  | 3/18 [00:14<01:13,  4.00s/it, loss=10.5, v_num=3]\r"
        "Epoch 1:  22%|██▏ | 4/18 [00:17<01:02,  2.00it/s, loss=9.9, v_num=3]\n"
    )

    assert (log.dialect, log.step.tolist()) == ("progress", [21, 22])
    assert log.time_s.tolist() == [4.0, 0.5]
    assert log.loss.tolist() == [10.5, 9.9]


@pytest.mark.parametrize(
    "text",
    ["step 3 of the installation\n", "eval step 3: loss 2.0, time 3ms\n", "step 5: accuracy 0.5\n"],
)
def test_other_counters_are_no_steps(text: str) -> None:
    assert read(text).dialect == "none"


def test_nanotron_shortens_its_numbers() -> None:
    log = read(
        "01/02/2026 [INFO|DP=0]: iteration: 12 / 500 | consumed_tokens: 1G | "
        "elapsed_time_per_iteration_ms: 2.5K | tokens_per_sec: 22.8K | tokens_per_sec_per_gpu: "
        "11.4K | global_batch_size: 64 | lm_loss: 2.38 | model_tflops_per_gpu: 38.3\n"
    )

    assert (log.dialect, log.step.tolist(), log.total_steps) == ("nanotron", [12], 500)
    assert (log.time_s[0], log.tokens_per_s[0], log.loss[0]) == (2.5, 22_800.0, 2.38)


def test_deepspeed_before_it_averaged_rates() -> None:
    lines = [f"[2026-01-02 00:00:{at:02},000] [INFO] 0/{at}, SamplesPerSec=8.5" for at in (10, 20)]

    log = read("\n".join(lines) + "\n")

    assert (log.dialect, log.samples_per_s.tolist()) == ("deepspeed", [8.5, 8.5])
    assert (log.time_s[1], log.steps_per_line) == (1.0, 10)
