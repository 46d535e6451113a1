"""Configurations of training programs: what is stated, and what is refused with its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from ccltui.parsers.runs.run_records import MAX_BYTES, ConfigError, read_train_config


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
