"""``ccltui card`` as users run it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from shell import CCLTUI
from warm_shell import run

CONFIG = """\
[model]
name = "llama3"
flavor = "8B"
[training]
steps = 80
local_batch_size = 2
seq_len = 2048
[parallelism]
data_parallel_shard_degree = 1
tensor_parallel_degree = 4
"""


def test_init_prints_what_a_directory_tells(one_rank: Path) -> None:
    done = run(CCLTUI, "card", "init", one_rank)

    assert (done.returncode, done.stderr) == (0, "")
    assert "      total_count: 4  # traces, world size\n" in done.stdout
    assert "    # batch_size:  # sequences a step" in done.stdout
    assert [path.suffix for path in one_rank.iterdir()] == [".gz"]


def test_init_then_lint_finds_no_error(one_rank: Path, tmp_path: Path) -> None:
    config, card = tmp_path / "train_config.toml", tmp_path / "card.yaml"
    config.write_text(CONFIG)

    written = run(CCLTUI, "card", "init", "--config", config, "-o", card)
    checked = run(CCLTUI, "card", "lint", card, "--config", config)

    assert (written.returncode, written.stdout, written.stderr) == (0, "", "")
    assert "model_family: llama3-8B  # configuration, model.name and flavor" in card.read_text()
    assert checked.returncode == 0, checked.stdout
    assert ": error: " not in checked.stdout
    assert f"{card}: warning: num_params" in checked.stdout


def test_init_never_overwrites(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text(CONFIG)
    card = tmp_path / "workload_card.yaml"
    card.write_text("mine\n")

    done = run(CCLTUI, "card", "init", "--config", tmp_path / "c.toml", "-o", card)

    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"ccltui: {card} exists; a card is never overwritten\n"
    assert card.read_text() == "mine\n"


def test_lint_of_a_directory_reads_its_traces(job: Path) -> None:
    done = run(CCLTUI, "card", "lint", job)

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "workload_card.yaml: no problems found\n"


def test_the_configuration_beside_the_traces_is_used(job: Path, tmp_path: Path) -> None:
    directory = tmp_path / "run"
    shutil.copytree(job, directory)
    (directory / "train_config.toml").write_text("[training]\nsteps = 7\n")

    begun = run(CCLTUI, "card", "init", directory)
    checked = run(CCLTUI, "card", "lint", directory)

    assert "    iteration: 7  # configuration, training.steps\n" in begun.stdout
    assert checked.returncode == 4
    assert "(workload.model.iteration), the configuration makes it 7\n" in checked.stdout


def test_lint_tells_a_contradiction_and_exits_with_4(job: Path, tmp_path: Path) -> None:
    text = (job / "workload_card.yaml").read_text()
    card = tmp_path / "other.yaml"
    card.write_text(text.replace("total_count: 4", "total_count: 16"))

    done = run(CCLTUI, "card", "lint", card, "--traces", job, "--format", "json")

    assert done.returncode == 4
    document = json.loads(done.stdout)
    assert document["path"] == str(card)
    assert document["complaints"][-1] == {
        "level": "error",
        "line": None,
        "message": "the card states 16 devices (workload.hardware.xpu_spec.total_count), "
        "the trace a world of 4 ranks",
    }


def test_what_cannot_be_checked(job: Path, one_rank: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text("workload: [\n")
    (tmp_path / "bad.toml").write_text("[training\n")
    cases = [
        (("card",), 2, "missing command: ccltui card init [DIR], or ccltui card lint CARD"),
        (("card", "init"), 2, "no source for the card"),
        (("card", "lint", tmp_path / "bad.yaml"), 1, "bad.yaml:2:1: "),
        (("card", "lint", one_rank), 1, "no workload card; ccltui card init"),
        (("card", "lint", job, "--traces", job), 2, "--traces is for a card file"),
        (("card", "lint", job, "--config", tmp_path / "bad.toml"), 1, "bad.toml: not valid TOML"),
        (("card", "init", tmp_path / "absent"), 1, "absent: no such file or directory"),
    ]
    for arguments, status, words in cases:
        done = run(CCLTUI, *arguments)
        assert (done.returncode, done.stdout) == (status, ""), arguments
        assert words in done.stderr
        assert done.stderr.count("\n") == 1


def test_help_and_version_need_no_command() -> None:
    helped = run(CCLTUI, "card", "--help")
    assert (helped.returncode, helped.stderr) == (0, "")
    for command in ("init", "lint"):
        assert f"usage: ccltui card {command}" in helped.stdout
    assert run(CCLTUI, "card", "--version").returncode == 0
