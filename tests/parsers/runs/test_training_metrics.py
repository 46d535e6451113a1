"""training_metrics.json of every generation, and what is wrong with one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ccltui.parsers.errors import TraceError
from ccltui.parsers.runs.run_records import read_completion, read_launch
from ccltui.parsers.runs.training_metrics import read_training_metrics, training_metrics_of


def test_the_second_generation() -> None:
    found = training_metrics_of(
        {
            "schema_version": "2.0",
            "run_id": "r1",
            "git_commit": "abc",
            "command_line": "gpt2.py --max_train_steps 300 --max_val_steps 50",
            "hardware": {"gpu_name": "Tesla V100", "world_size": 8},
            "training_config": {
                "seq_len": 512,
                "micro_batch_size_per_gpu": 2,
                "grad_accum_steps": 2,
                "precision": "fp16_deepspeed",
                "zero_stage": 1,
                "deepspeed_enabled": True,
                "dataset_name": "train_small",
                "dataset_subset_sizes": {"train": 56976, "val": 5738},
            },
            "deepspeed_config": {"sha256": "c84d"},
            "epochs": [
                {
                    "epoch_idx": 1,
                    "epoch_wall_time_sec": 82.0,
                    "steps": 299,
                    "micro_steps": 300,
                    "tokens_per_sec_global": 29971.23,
                    "val_loss_avg_global": 0.0,
                    "step_time_mean_sec": 0.05,
                    "step_time_num_samples": 300,
                    "step_time_sampling": "all",
                    "max_cuda_mem_allocated_bytes_rank0": 5,
                    "max_cuda_mem_allocated_bytes_global": 7,
                }
            ],
            "summary": {"total_wall_time_sec": 83.0},
        }
    )

    config, (epoch,) = found.configuration, found.epochs
    assert (found.generation, found.schema, found.run_id) == ("2.0", "2.0", "r1")
    assert (config.world_size, config.seq_len, config.micro_batch) == (8, 512, 2)
    assert (config.grad_accum, config.max_steps, config.zero_stage) == (2, 300, 1)
    assert (config.deepspeed, config.dataset) == (True, "train_small")
    assert config.dataset_sizes == {"train": "56976", "val": "5738"}
    assert (epoch.micro_steps, epoch.step_samples, epoch.step_sampling) == (300, 300, "all")
    assert epoch.val_loss is None  # 0.0: nothing was validated
    assert epoch.memory_allocated_bytes == 7  # of all ranks before that of rank 0
    assert found.missing == ("timestamp_utc", "env")
    assert found.notes == ()


def test_arrays_of_before() -> None:
    found = training_metrics_of(
        {
            "train_time_per_epoch": [22.0, 16.0],
            "train_loss_per_epoch": [7.8, 6.1],
            "val_loss_per_epoch": [6.5],
            "train_throughput": [14494.0, 19205.0],
            "inference_latency": 1.01,
        }
    )

    first, second = found.epochs
    assert (found.generation, found.total_wall_s) == ("arrays", 38.0)
    assert (first.wall_s, first.train_loss, first.val_loss) == (22.0, 7.8, 6.5)
    assert (second.tokens_per_s, second.val_loss) == (19205.0, None)
    assert "differ in length" in found.notes[0].message


def test_numbers_whose_sum_is_infinite_are_left_out() -> None:
    found = training_metrics_of({"train_time_per_epoch": [1e308, 1e308, 7.5]})

    assert [epoch.wall_s for epoch in found.epochs] == [None, None, 7.5]
    assert found.total_wall_s is None
    assert "2 of 3 values are no numbers" in found.notes[0].message


def test_a_bare_list_of_losses() -> None:
    found = training_metrics_of({"world_size": 4, "losses": [5.6, "x", 5.2], "wall_s": 5.0})

    assert (found.generation, found.configuration.world_size) == ("losses", 4)
    assert found.losses is not None
    np.testing.assert_array_equal(found.losses, [5.6, np.nan, 5.2])
    assert found.notes[0].message == "losses: 1 of 3 values are no numbers"


def test_an_unknown_generation_is_read_and_told() -> None:
    found = training_metrics_of({"schema_version": "9.1", "epochs": []})

    assert found.schema == "9.1"
    assert "schema 9.1 is not known: read like 2.0" in [note.message for note in found.notes]


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("hardware", {"world_size": "many"}, "hardware.world_size is 'many', not a whole number"),
        ("hardware", {"world_size": -1}, "hardware.world_size is -1, not a whole number"),
        ("hardware", {"world_size": 1e400}, "hardware.world_size is inf, not a whole number"),
        ("git_commit", ["a"], "git_commit is ['a'], not text"),
        ("epochs", 5, "epochs is not a list"),
        ("epochs", [5], "epoch 1 is not an object"),
        ("epochs", [{"epoch_wall_time_sec": "soon"}], "epoch_wall_time_sec is 'soon', not a num"),
    ],
)
def test_values_of_the_wrong_type_are_told(key: str, value: Any, message: str) -> None:
    found = training_metrics_of({"schema_version": "2.0", "epochs": [], key: value})

    assert any(message in note.message for note in found.notes)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=8,
)
KEYS = st.sampled_from(
    ["schema_version", "epochs", "hardware", "training_config", "losses", "train_throughput"]
)


@settings(max_examples=60)
@given(st.dictionaries(KEYS, JSON))
def test_any_object_is_read(document: dict[str, Any]) -> None:
    found = training_metrics_of(document)

    assert found.generation in ("2.0", "arrays", "losses", "bare")
    assert all(epoch.index >= 1 for epoch in found.epochs)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b'{"schema_version": "2.0", "epo', "m.json: not valid JSON: Unterminated string"),
        (b"[1, 2]", "m.json: not one JSON object"),
        (b"{}{}", "m.json: not one JSON object"),
        (b"\xff\xfe\x00\x01", "m.json: not valid JSON"),
        (b"[" * 100_000, "m.json: not valid JSON"),
    ],
)
def test_half_written_files_are_one_line(tmp_path: Path, text: bytes, message: str) -> None:
    path = tmp_path / "m.json"
    path.write_bytes(text)

    with pytest.raises(TraceError) as caught:
        read_training_metrics(path, shown="m.json")
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_launcher_metadata_and_its_switches(tmp_path: Path) -> None:
    path = tmp_path / "l.json"
    path.write_text(
        json.dumps(
            {
                "rank0_host": "n1",
                "world_size": 8,
                "slurm": {"job_id": "7", "hosts": "n1\nn2"},
                "nccl_env": {"NCCL_LOGS": "1"},
                "switches": {"NSYS": "0", "GRAD_ACCUM_STEPS": "2"},
            }
        )
    )

    launch = read_launch(path, shown="l.json")

    assert (launch.world_size, launch.hosts, launch.job_id) == (8, ("n1", "n2"), "7")
    assert (launch.is_on("NCCL_LOGS"), launch.is_on("NSYS")) == (True, False)
    assert launch.is_on("DIST_DEBUG") is None


@pytest.mark.parametrize(
    "text",
    [
        "[Rank 0] RUN_COMPLETE checkpoint_path=/a b/c world_size=8 tokens_per_sec=1.5 "
        "total_wall_time_sec=2.5 timestamp_utc=2026-01-01T00:00:00Z\n",
        "world_size=8\ntokens_per_sec=1.5\ntotal_wall_time_sec=2.5\n"
        "timestamp_utc=2026-01-01T00:00:00Z\n",
    ],
)
def test_marks_in_one_line_or_several(tmp_path: Path, text: str) -> None:
    path = tmp_path / "RUN_COMPLETE.txt"
    path.write_text(text)

    mark = read_completion(path, shown="RUN_COMPLETE.txt")

    assert (mark.world_size, mark.tokens_per_s, mark.total_wall_s) == (8, 1.5, 2.5)
    assert mark.timestamp_utc == "2026-01-01T00:00:00Z"


def test_a_mark_that_says_nothing(tmp_path: Path) -> None:
    path = tmp_path / "RUN_COMPLETE.txt"
    path.write_bytes(b"done\x00\xff world_size=nan tokens_per_sec=")

    mark = read_completion(path, shown="RUN_COMPLETE.txt")

    assert (mark.world_size, mark.tokens_per_s) == (None, None)
