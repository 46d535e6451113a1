"""Settings of a run, from its log and its configuration."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ccltui.parsers.discovery.discover import discover
from ccltui.parsers.discovery.run_settings import RunSource, argument_values, run_sources
from ccltui.parsers.runs.run_records import MAX_BYTES, ConfigError, read_train_config

TRACE = {
    "schemaVersion": 1,
    "distributedInfo": {"backend": "gloo", "rank": 0, "world_size": 2},
    "traceEvents": [
        {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 1, "dur": 1}
    ],
}
SIZES = (
    "[rank0]:[titan] 2025-11-25 19:44:58,838 - root - INFO - Trainer is initialized with local "
    "batch size {local}, global batch size 16, gradient accumulation steps 2, sequence length 512, "
    "total steps 10 (warmup 2)\n"
)
MESH = (
    "[rank0]:[titan] 2025-11-25 19:44:50,100 - root - INFO - Building device mesh with "
    "parallelism: pp=1, dp_replicate=1, dp_shard=2, cp=1, tp=2, ep=1, etp=1\n"
)
STEP = (
    "[rank0]:[titan] 2025-11-25 19:45:{n:02},441 - root - INFO - step: {n}  loss: 12.2  grad_norm: "
    "1.0  memory: 1.00GiB(2.00%)  tps: 1,000  tflops: 1.00  mfu: 1.00%\n"
)
STEPS = STEP.format(n=1) + STEP.format(n=2)


def sources(folder: Path) -> tuple[RunSource, ...]:
    traces = folder / "profile_trace" / "iteration_5"
    traces.mkdir(parents=True, exist_ok=True)
    (traces / "rank0_trace.json").write_text(json.dumps(TRACE))
    found = discover(folder)
    return run_sources(found, found.choose())


@pytest.mark.parametrize(
    ("words", "values"),
    [
        (("--training.seq_len", "64"), {"seq_len": 64}),
        (("--training.seq_len=64",), {"seq_len": 64}),
        (("--training.seq-len=64", "--training.seq-len", "32"), {"seq_len": 32}),
        (("--training.local_batch_size", "2", "--compile.enable"), {"local_batch": 2}),
        (("--parallelism.tensor_parallel_degree", "4"), {"tp": 4}),
        (("--parallelism.data_parallel_shard_degree=-1",), {"dp_shard": -1}),
        (("--training.seq_len", "many", "--training.steps", "9"), {}),
        (("--training.seq_len=64k", "--training.seq_len"), {}),
    ],
)
def test_arguments(words: tuple[str, ...], values: dict[str, int]) -> None:
    assert argument_values(words) == values


def test_a_log_states_what_the_program_took(tmp_path: Path) -> None:
    (tmp_path / "train_torch.log").write_text(MESH + SIZES.format(local=4) + STEPS)

    (source,) = sources(tmp_path)

    assert (source.standing, source.path, source.is_log) == ("program", "train_torch.log", True)
    assert source.values == {
        **{"local_batch": 4, "global_batch": 16, "gradient_accumulation": 2, "seq_len": 512},
        **{"pp": 1, "dp_replicate": 1, "dp_shard": 2, "cp": 1, "tp": 2, "ep": 1},
    }


def test_a_log_of_two_runs_states_only_what_both_had(tmp_path: Path) -> None:
    text = SIZES.format(local=4) + STEPS + SIZES.format(local=8)
    (tmp_path / "train.log").write_text(text)

    (source,) = sources(tmp_path)

    assert source.values == {"global_batch": 16, "gradient_accumulation": 2, "seq_len": 512}


def test_a_log_of_steps_counts_where_it_states_nothing(tmp_path: Path) -> None:
    (tmp_path / "train.log").write_text(STEPS)

    assert [(one.values, one.is_log) for one in sources(tmp_path)] == [({}, True)]


def test_degrees_that_a_configuration_leaves_out_are_one(tmp_path: Path) -> None:
    (tmp_path / "train_config.toml").write_text(
        "[training]\nseq_len = 64\n[parallelism]\ntensor_parallel_degree = 2\n"
    )

    (source,) = sources(tmp_path)

    assert (source.values["seq_len"], source.values["tp"], source.values["pp"]) == (64, 2, 1)
    assert source.values["dp_shard"] == -1
    assert source.implied == {"dp_replicate", "dp_shard", "pp", "cp", "ep"}


def test_a_configuration_without_parallelism_states_no_degree(tmp_path: Path) -> None:
    (tmp_path / "train_config.toml").write_text("[training]\nseq_len = 64\n")

    assert [source.values for source in sources(tmp_path)] == [{"seq_len": 64}]


def test_the_launcher_states_arguments_and_what_they_make(tmp_path: Path) -> None:
    document = {
        "world_size": 2,
        "train_arguments": ["--training.seq_len=64", "--activation_checkpoint.mode", "none"],
        "train_config": {"training.seq_len": 64, "training.local_batch_size": 3},
    }
    (tmp_path / "launcher_metadata.json").write_text(json.dumps(document))

    (source,) = sources(tmp_path)

    assert source.standing == "arguments"
    assert source.values == {"seq_len": 64, "local_batch": 3, "world_size": 2}
    assert source.checkpointing == "none"


def test_what_the_program_says_comes_before_arguments_and_file(tmp_path: Path) -> None:
    (tmp_path / "train_config.toml").write_text("[training]\nseq_len = 64\n")
    (tmp_path / "launcher_metadata.json").write_text('{"world_size": 2, "rank0_host": "a"}')
    (tmp_path / "RUN_COMPLETE.txt").write_text("RUN_COMPLETE world_size=2\n")
    (tmp_path / "train.log").write_text(SIZES.format(local=4) + STEPS)

    order = [source.standing for source in sources(tmp_path)]

    assert order == ["program", "program", "arguments", "config"]


@pytest.mark.parametrize("text", ["not TOML", "[training]\nseq_len = 'long'\n", ""])
def test_a_configuration_that_cannot_be_used_states_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / "train_config.toml").write_text(text)

    assert all(not source.values for source in sources(tmp_path))


def test_files_of_another_folder_are_of_another_run(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "train_config.toml").write_text("[training]\nseq_len = 64\n")
    (tmp_path / "other" / "train.log").write_text(SIZES.format(local=4) + STEPS)

    assert sources(tmp_path) == ()


def written(tmp_path: Path, text: str | bytes) -> Path:
    path = tmp_path / "train_config.toml"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def test_only_what_is_stated_is_kept(tmp_path: Path) -> None:
    text = """\
title = "job"
[training]
steps = 80
lr = 3e-4
dataset = "c4"
layers = [1, 2]
when = 2026-01-01
[parallelism]
data_parallel_shard_degree = -1
[deep.section]
key = 1
"""

    config = read_train_config(written(tmp_path, text))

    assert config.values == {
        "title": "job",
        "training.steps": 80,
        "training.lr": 3e-4,
        "training.dataset": "c4",
        "parallelism.data_parallel_shard_degree": -1,
    }
    assert config.count("training.steps") == 80
    assert config.text("training.dataset") == "c4"
    assert config.integer("parallelism.data_parallel_shard_degree") == -1
    assert config.count("parallelism.data_parallel_shard_degree") is None
    assert config.count("training.seq_len") is None


@pytest.mark.parametrize("value", ['"two"', "2.0", "true"])
def test_a_count_of_another_type_is_refused_by_name(tmp_path: Path, value: str) -> None:
    config = read_train_config(written(tmp_path, f"[training]\nsteps = {value}\n"))

    with pytest.raises(ConfigError, match=r"train_config.toml: training.steps is .*whole number"):
        config.count("training.steps")


def test_a_text_of_another_type_is_refused_by_name(tmp_path: Path) -> None:
    config = read_train_config(written(tmp_path, "[training]\ndataset = 4\n"))

    with pytest.raises(ConfigError, match=r"training.dataset is 4, not a text"):
        config.text("training.dataset")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"[training]\nsteps = \n", "not valid TOML: Invalid value (at line 2, column 9)"),
        (b"[a]\nb = 1\nb = 2\n", "not valid TOML: Cannot overwrite a value"),
        (b"steps = '\xff'\n", "at byte 9: not valid UTF-8"),
        (b"a = " + b"[" * 5000, "not valid TOML"),
        (b"a = " + b"9" * 5000, "not valid TOML"),
        (b"#" * (MAX_BYTES + 1), "no configuration"),
    ],
)
def test_what_is_no_configuration(tmp_path: Path, content: bytes, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_train_config(written(tmp_path, content))

    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"absent.toml: cannot be read: No such file"):
        read_train_config(tmp_path / "absent.toml")


def test_names_and_values_are_shown_without_their_escapes(tmp_path: Path) -> None:
    config = read_train_config(written(tmp_path, '[training]\nsteps = "\\u001b[2J"\n'))

    with pytest.raises(ConfigError) as caught:
        config.count("training.steps")
    assert "\x1b" not in str(caught.value)
