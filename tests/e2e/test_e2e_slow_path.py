"""Compiled modules that cannot be imported: the same numbers, and one line that reports it."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest
from shell import environment, run

from ccltui.slow_path import EVERY

ROOT = Path(__file__).resolve().parents[2]
MARK = "the slower path is used"


@pytest.fixture(scope="module")
def unbuilt(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package in which every compiled module is a library cut off while written."""
    folder = tmp_path_factory.mktemp("unbuilt")
    ignored = shutil.ignore_patterns("__pycache__", "*.so", "*.c")
    shutil.copytree(ROOT / "ccltui", folder / "ccltui", ignore=ignored)  # through the links
    for name in EVERY:
        (folder / f"{name.replace('.', '/')}{EXTENSION_SUFFIXES[0]}").write_bytes(b"\x7fELF")
    return folder


def slow(
    unbuilt: Path, *arguments: str | Path, module: str = "ccltui", accelerated: str = "1"
) -> subprocess.CompletedProcess[str]:
    """A command of that copy."""
    changes = {"PYTHONPATH": str(unbuilt), "CCLTUI_ACCEL": accelerated}
    return run((sys.executable, "-m", module), *arguments, cwd=unbuilt, env=changes)


def test_one_line_reports_it_and_the_numbers_are_the_same(unbuilt: Path, job: Path) -> None:
    arguments = (job, "--metric", "all", "--format", "json", "--no-cache")
    fast = run((sys.executable, "-m", "ccltui"), *arguments)

    done = slow(unbuilt, *arguments)

    assert (done.returncode, done.stdout) == (fast.returncode, fast.stdout)
    said = [line for line in done.stderr.splitlines() if line not in fast.stderr.splitlines()]
    assert len(said) == 1, done.stderr
    number = len(EVERY)
    expected = f"ccltui: {MARK}, with the same numbers, without {number} of {number} "
    assert said[0].startswith(expected)
    assert "install a C compiler, then run: " in said[0]
    assert "--no-binary ccltui" in said[0]


@pytest.mark.parametrize(
    "arguments",
    [
        ("metrics-report", "{job}", "{other}", "--metric", "iter_time"),
        ("metrics-report", "{job}", "{other}", "--metric", "iter_time", "--jobs", "1"),
        ("doctor", "{job}"),
        ("stats", "{job}"),
    ],
)
def test_it_is_reported_once_per_command(
    unbuilt: Path, job: Path, one_rank: Path, arguments: tuple[str, ...]
) -> None:
    done = slow(unbuilt, *(text.format(job=job, other=one_rank) for text in arguments))

    assert done.stderr.count(MARK) == 1, done.stderr
    assert MARK not in done.stdout


@pytest.mark.parametrize(
    "arguments", [("--help",), ("--version",), ("--list-metrics",), ("demo", "job", "--no-open")]
)
def test_a_command_that_reads_no_trace_is_silent(
    unbuilt: Path, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    given = [str(tmp_path / text) if text == "job" else text for text in arguments]

    done = slow(unbuilt, *given)

    assert (done.returncode, done.stderr) == (0, "")


def test_a_path_that_is_chosen_is_not_remarked_on(unbuilt: Path, one_rank: Path) -> None:
    done = slow(unbuilt, one_rank, "--metric", "iter_time", accelerated="0")

    assert MARK not in done.stderr


def test_a_checkout_is_named_in_the_command_that_compiles(unbuilt: Path, one_rank: Path) -> None:
    (unbuilt / "setup.py").touch()
    try:
        done = slow(unbuilt, one_rank, "--metric", "iter_time")
    finally:
        (unbuilt / "setup.py").unlink()

    assert f"{shlex.quote(sys.executable)} -m pip install --editable {unbuilt}\n" in done.stderr


def test_the_explorer_notes_it(unbuilt: Path) -> None:
    code = """\
from types import SimpleNamespace
from ccltui.tui.state.notes import notes
job = SimpleNamespace(failures=(), card_problem=None, notes=(), ranks=())
scene = SimpleNamespace(session=SimpleNamespace(job=job, problem=None))
import ccltui.tui.state.notes
ccltui.tui.state.notes._remarks = lambda scene: []
for note in notes(scene):
    print(note.text, note.advice, sep="\\n")
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        cwd=unbuilt,
        env=environment({"PYTHONPATH": str(unbuilt), "CCLTUI_ACCEL": "1"}),
        capture_output=True,
        text=True,
    )
    text, advice = done.stdout.splitlines()
    assert text.startswith(f"! {MARK}")
    assert advice.startswith("For the faster one install a C compiler")
