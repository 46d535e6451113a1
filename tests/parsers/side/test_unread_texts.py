"""Texts that no reader takes: which of them a program wrote while it ran."""

from __future__ import annotations

from pathlib import Path

import pytest

from ccltui.parsers.discovery.sniff import sniff

PLAIN = "some words that nobody logged\n" * 40


def kind_of(folder: Path, text: str) -> str:
    path = folder / "notes.txt"
    path.write_text(text)
    return sniff(str(path), path.name, path.stat().st_size).kind


@pytest.mark.parametrize(
    "line",
    [
        "2026-01-31 12:30 begun",
        "2026-01-31T12:30:00 begun",
        "[12:30:59] begun",
        "this is an INFO line",
        "warning about nothing",
        "Error in a word",
        "DEBUG",
        "Critical",
        "Traceback (most recent call last):",
        "[rank 3] here",
        "[rank0]: here",
        "\x1b[32m[rank0]:\x1b[0m here",
        "at Step 12 of many",
        "iteration=7",
        "iter: 9",
        "epoch [3",
        "loss: 0.5",
        "srun: job ended",
        "slurmstepd: error",
        "torchrun: here",
        "mpirun: here",
    ],
)
def test_a_line_of_a_log_makes_a_text_a_log(tmp_path: Path, line: str) -> None:
    assert kind_of(tmp_path, f"{PLAIN}{line}\n{PLAIN}") == "log"


@pytest.mark.parametrize(
    "line", ["", "information at 3:4", "stepping stones", "lossless 12", "a ratio of 12:30"]
)
def test_other_texts_stay_texts(tmp_path: Path, line: str) -> None:
    assert kind_of(tmp_path, f"{PLAIN}{line}\n{PLAIN}") == "text"
