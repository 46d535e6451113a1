"""Exit status of commands that read all ranks, where the system refused to open one."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from ccltui.commands import doctor_command, stats_command
from ccltui.parsers.errors import TraceError
from ccltui.parsers.kineto import kineto_reader

COMMANDS: dict[str, Callable[[Sequence[str]], int]] = {
    "doctor": doctor_command.run,
    "stats": lambda arguments: stats_command.run([*arguments, "--report", "cuda_gpu_kern_sum"]),
}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    ("problem", "status"),
    [
        (None, 0),
        (OSError(errno.EMFILE, os.strerror(errno.EMFILE)), 1),
        (MemoryError(), 1),
        (AssertionError("a defect of the reader"), 1),
        (TraceError("its content is damaged"), 0),  # what can be known of it is printed
    ],
    ids=["whole", "no descriptor", "no memory", "defect", "damaged"],
)
def test_a_lost_rank_is_1_as_with_metric(
    job: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    command: str,
    problem: Exception | None,
    status: int,
) -> None:
    real = kineto_reader.read_ranks

    def read(path: Path, **options: Any) -> object:
        if problem is not None and "_2." in path.name:
            raise problem
        return real(path, **options)

    monkeypatch.setattr(kineto_reader, "read_ranks", read)

    assert COMMANDS[command]([str(job)]) == status

    printed = capsys.readouterr()
    named = "kineto_trace_2.json.gz" in printed.err + printed.out
    assert printed.out  # the other ranks count
    assert named or problem is None
