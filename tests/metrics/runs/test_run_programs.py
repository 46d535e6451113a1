"""Metrics and the first sentence from logs of NeMo, Hugging Face, MLPerf and Megatron Bridge."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from runs_by_hand import view_of

from ccltui.metrics.catalog.time.findings import answer_of
from ccltui.metrics.registry import find
from ccltui.metrics.runs.run_files import read_runs

_NEMO = "".join(
    f"0: Training epoch 0, iteration {step}/99 | lr: 5.6e-06 | global_batch_size: 32 | "
    f"global_step: {step} | reduced_train_loss: {3 - step / 100} | "
    f"train_step_timing in s: {9.0 if step == 0 else 0.25 if step == 19 else 0.2} | "
    "consumed_samples: 928\n"
    for step in range(20)
)
_TRAINER = (
    "{'loss': 2.5, 'learning_rate': 0.1, 'epoch': 0.1}\n"
    "{'train_runtime': 116.1914, 'train_samples_per_second': 6.885, "
    "'train_steps_per_second': 1.6, 'train_loss': 2.5, 'epoch': 0.15}\n"
)
_BRIDGE = "".join(
    f" [2025-12-22 15:18:{step}] iteration {step}/ 50 | elapsed time per iteration (ms): "
    f"{9000 + step} | global batch size:   512 | lm loss: 8.0E+00 |\n"
    for step in range(10, 60, 10)
)
_RECORD = ':::MLLOG {{"time_ms": {at}, "key": "{key}", "value": {value}, "metadata": {{{more}}}}}\n'


def _mlperf() -> str:
    lines = [_RECORD.format(at=0, key="global_batch_size", value=8, more="")]
    for block in range(3):
        for key, at, samples in (("block_start", 0, block), ("block_stop", 192, block + 1)):
            time_ms = 1_721_026_000_000 + 1000 * (200 * block + at)
            more = f'"samples_count": {384 * samples}'
            lines.append(_RECORD.format(at=time_ms, key=key, value="null", more=more))
    return "".join(lines)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (_NEMO, "A step of the run job takes a median of 200 ms, 250 ms at the 95th percentile."),
        (_TRAINER, "A step of the run job takes 625 ms on average."),
        (_mlperf(), "A step of the run job takes a median of 4 s (averages of 48 steps)."),
        (_BRIDGE, "A step of the run job takes a median of 9.04 s (averages of 10 steps), 9.05 s "
                  "at the 95th percentile."),
        (_TRAINER.replace("1.6", "0.0"), "The run job trains 6.885 samples a second."),
    ],
    ids=["NeMo", "Trainer", "MLPerf", "Megatron Bridge", "Trainer without steps"],
)  # fmt: skip
def test_the_first_sentence_on_a_log(tmp_path: Path, text: str, sentence: str) -> None:
    (tmp_path / "job").mkdir()
    (tmp_path / "job" / "slurm-1.out").write_text(text)

    assert answer_of(view_of(tmp_path / "job")).findings[0].text == sentence


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (_NEMO, {"step_time_p50_ms": 200.0, "num_samples": 19, "steps_per_sample": 1}),
        (_TRAINER, {"step_time_p50_ms": None, "step_time_mean_ms": 625.0, "num_samples": None}),
        (_mlperf(), {"step_time_p50_ms": 4000.0, "num_samples": 2, "steps_per_sample": 48}),
        (_BRIDGE, {"step_time_p50_ms": 9035.0, "num_samples": 4, "steps_per_sample": 10}),
    ],
    ids=["NeMo", "Trainer", "MLPerf", "Megatron Bridge"],
)
def test_step_times_of_a_log(tmp_path: Path, text: str, expected: dict[str, Any]) -> None:
    (tmp_path / "train.log").write_text(text)

    details = find("run_step_time").run(view_of(tmp_path)).details

    assert {key: details[key] for key in expected} == pytest.approx(expected)


def test_means_of_several_steps_are_named_as_such(tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text(_BRIDGE)

    result = find("run_step_time").run(view_of(tmp_path))

    assert result.status == "partial"
    assert result.reasons[0].message == (
        "step times, p95 too, are of 4 means of 10 steps each: a single slow step does not show"
    )


@pytest.mark.parametrize(
    ("text", "rate"),
    [(_NEMO, 160.0), (_TRAINER, 6.885), (_mlperf(), 2.0), (_BRIDGE, 512 / 9.035)],
    ids=["NeMo", "Trainer", "MLPerf", "Megatron Bridge"],
)
def test_samples_a_second_of_a_log(tmp_path: Path, text: str, rate: float) -> None:
    (tmp_path / "train.log").write_text(text)

    result = find("run_throughput").run(view_of(tmp_path))

    assert (result.status, result.value) == ("partial", None)
    assert result.details["samples_per_s"] == pytest.approx(rate, rel=1e-4)
    assert "states samples and no tokens a second" in result.reasons[-1].message


def test_the_rate_of_one_device_and_no_number_of_devices(tmp_path: Path) -> None:
    text = _NEMO.replace("consumed", "tokens_per_sec_per_gpu: 6.859e+03 | consumed")
    for name, head in (("a", ""), ("b", "WORLD_SIZE=4\n")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "train.log").write_text(head + text)

    alone = find("run_throughput").run(view_of(tmp_path / "a"))
    counted = find("run_throughput").run(view_of(tmp_path / "b"))

    assert "states 6,859 tokens/s of one device" in alone.reasons[-1].message
    assert (counted.value, counted.details["samples_per_s"]) == (4 * 6859.0, 160.0)


@pytest.mark.parametrize("beside", [False, True])
def test_checkpoints_of_the_trainer_are_one_run(tmp_path: Path, beside: bool) -> None:
    for step in (20, 100, 60):
        folder = tmp_path / "out" / f"checkpoint-{step}"
        folder.mkdir(parents=True)
        history = [{"loss": 9.0 - at / 20, "step": at} for at in range(20, step + 1, 20)]
        text = json.dumps({"global_step": step, "log_history": history, "max_steps": 100})
        (folder / "trainer_state.json").write_text(text)
        if beside and step == 100:
            (tmp_path / "out" / "trainer_state.json").write_text(text)

    runs = read_runs(view_of(tmp_path).job.discovery)

    assert [run.name for run in runs] == ["out" if beside else "out/checkpoint-100"]
    assert runs[0].log is not None
    assert len(runs[0].log) == 5
