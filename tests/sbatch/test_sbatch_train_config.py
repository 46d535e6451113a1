"""What is taken from a train_config.toml, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from train_config import ConfigError, TrainConfig, read_train_config


def config(folder: Path, text: str, *overrides: str) -> TrainConfig:
    path = folder / "train_config.toml"
    path.write_text(text)
    return read_train_config(path, overrides)


def test_what_is_absent_has_torchtitans_own_default(tmp_path: Path) -> None:
    found = config(tmp_path, "")

    assert found.number("profiling.profile_freq") == 10
    assert found.number("profiling.profiler_warmup") == 3
    assert found.text("profiling.save_traces_folder") == "profile_traces"
    assert found.flag("profiling.enable_profiling") is False
    assert found.text("training.dtype") == "float32"


def test_the_degrees_make_the_ranks(tmp_path: Path) -> None:
    found = config(
        tmp_path,
        "[parallelism]\ndata_parallel_replicate_degree = 2\ndata_parallel_shard_degree = 3\n"
        "tensor_parallel_degree = 5\npipeline_parallel_degree = 7\ncontext_parallel_degree = 11\n",
    )

    assert found.ranks() == 2 * 3 * 5 * 7 * 11


def test_a_degree_for_the_rest_leaves_the_ranks_open(tmp_path: Path) -> None:
    found = config(tmp_path, "[parallelism]\ntensor_parallel_degree = 2\n")

    assert found.ranks() is None
    assert found.shard_degree(world_size=8) == 4


@pytest.mark.parametrize(
    "words",
    [
        ("--training.steps", "20"),
        ("--training.steps=20",),
        ("--model.print-after-conversion", "--training.steps", "20"),
        ("--training.steps", "30", "--training.steps", "20"),
    ],
)
def test_arguments_of_the_program_win(tmp_path: Path, words: tuple[str, ...]) -> None:
    found = config(tmp_path, "[training]\nsteps = 80\n", *words)

    assert found.number("training.steps") == 20


@pytest.mark.parametrize(
    ("text", "words", "message"),
    [
        ('[training]\nsteps = "80"\n', (), "training.steps is '80', not a whole number"),
        ("[training]\nsteps = true\n", (), "training.steps is True, not a whole number"),
        ("[training]\nsteps = 0\n", (), "training.steps is 0, less than 1"),
        ("[training]\nsteps = 8.0\n", (), "training.steps is 8.0, not a whole number"),
        ('[profiling]\nenable_profiling = "yes"\n', (), "is 'yes', not true or false"),
        ("[model]\nname = 3\n", (), "model.name is 3, not a text"),
        ("[parallelism]\ndata_parallel_shard_degree = 0\n", (), "is 0, less than 1"),
        ("[parallelism]\ndata_parallel_shard_degree = -2\n", (), "is -2, less than 1"),
        ("training = 3\n", (), "[training] is no table"),
        ("[training\n", (), "line 1"),
        ("[training]\nsteps = 9223372036854775808\n", (), "training.steps is an integer of more"),
        ("[training]\nsteps = 0x" + "f" * 10_000, (), "training.steps is an integer of more"),
        ("[training]\nsteps = " + "9" * 10_000, (), ": a number of thousands of digits"),
        ("[other]\nlist = [{a = 0x" + "f" * 99 + "}]\n", (), "other.list.a is an integer of more"),
        ("[training]\nsteps = " + "[" * 5_000, (), "nested too deeply"),
        ('[training]\nsteps = "' + "8" * 10_000 + '"\n', (), "8…, not a whole number"),
        ("", ("--training.steps", "9" * 20), "--training.steps is an integer of more"),
        ("", ("--training.steps", "9" * 10_000), "9…, not a whole number"),
        ("", ("--training.steps", "many"), "--training.steps is 'many', not a whole number"),
    ],
)
def test_a_wrong_value_is_refused_by_its_name(
    tmp_path: Path, text: str, words: tuple[str, ...], message: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        config(tmp_path, text, *words)

    assert message in str(refused.value)
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 200 + len(str(tmp_path))


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "train_config.toml"
    path.write_bytes(b"\xff\xfe")

    with pytest.raises(ConfigError, match=r"train_config\.toml: 'utf-8' codec"):
        read_train_config(path)


def test_an_absent_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file or directory"):
        read_train_config(tmp_path / "absent.toml")
