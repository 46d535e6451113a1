"""How torchtitan is started, by the release that is installed."""

from __future__ import annotations

from pathlib import Path

import pytest
from torchtitan_arguments import is_classic, main

CONFIG = """\
[job]
description = "test"
[profiling]
enable_profiling = true
save_traces_folder = "profile_trace"
[model]
name = "deepseek_v3"
flavor = "16B-A2.4B"
[optimizer]
lr = 3e-4
[lr_scheduler]
min_lr_factor = 0.0
[training]
dataset = "c4"
steps = 80
[parallelism]
tensor_parallel_degree = 2
[activation_checkpoint]
mode = "full"
[comm]
init_timeout_seconds = 600
"""


def printed(
    capsys: pytest.CaptureFixture[str], folder: Path, version: str, *words: str
) -> tuple[list[str], str]:
    path = folder / "c.toml"
    path.write_text(CONFIG)
    given = [str(path), "--version", version, "--dump-folder", "/d", "--assets", "/a", *words]
    assert main(given) == 0
    out, talk = capsys.readouterr()
    return out.removesuffix("\0").split("\0"), talk


@pytest.mark.parametrize(
    ("version", "classic"),
    [("0.1.0", True), ("0.2.2", True), ("0.3.0", False), ("0.10.0", False), ("1.0", False)],
)
def test_toml_ended_with_0_2(version: str, classic: bool) -> None:
    assert is_classic(version) is classic


def test_up_to_0_2_the_file_is_given(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    words, talk = printed(capsys, tmp_path, "0.2.2", "--", "--training.steps", "20")

    assert words == [
        *("--job.config_file", f"{tmp_path}/c.toml", "--job.dump_folder", "/d"),
        *("--model.hf_assets_path", "/a", "--training.steps", "20"),
    ]
    assert talk == ""


def test_under_nsys_the_profiler_of_torch_is_off(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    classic, _ = printed(capsys, tmp_path, "0.2.2", "--profiler", "nsys")
    newer, _ = printed(capsys, tmp_path, "0.3.0", "--profiler", "nsys")

    assert classic[-1] == "--profiling.no-enable-profiling"
    assert "--profiler.no-enable-profiling" in newer
    assert "--profiler.enable-profiling" not in newer


def test_from_0_3_on_the_keys_become_arguments(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    words, talk = printed(capsys, tmp_path, "0.3.0", "--", "--training.steps", "20")

    assert words == [
        *("--module", "deepseek_v3", "--config", "deepseek_v3_16b_a2_4b", "--dump-folder", "/d"),
        *("--hf-assets-path", "/a", "--profiler.enable-profiling"),
        *("--profiler.save-traces-folder", "profile_trace", "--lr-scheduler.min-lr-factor", "0.0"),
        *("--dataloader.dataset", "c4", "--training.steps", "80"),
        *("--parallelism.tensor-parallel-degree", "2", "--training.disable-cuda-graphs"),
        *("--training.steps", "20", "activation-checkpoint:full"),
    ]
    assert talk == "warning: torchtitan 0.3.0 keeps its own: optimizer.lr, comm\n"
